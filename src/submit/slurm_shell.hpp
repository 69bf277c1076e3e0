#pragma once

#include <string_view>

// The shell text of a Slurm script, the same for every job: what starts the agents, passes signals on, and
// decides by their exit code what becomes of the job. Values of a job stand in variables above it and never
// in it.
namespace llmtrain {

inline constexpr std::string_view kCommonShell = R"sh(
# Nodes that could not run the job (64) or are suspected of wrong results (77), one a line, over all its allocations.
# Remove the file, or a line of it, when a node has been repaired.
excluded=$run_dir/control/excluded-nodes
export LLMTRAIN_EXCLUDED=$excluded
mkdir -p "$run_dir/control"

say() { printf 'llmtrain: %s\n' "$*" >&2; }

all_excluded() {
  local bad
  bad=$(sort -u "$excluded" 2>/dev/null | grep . | paste -sd, -)
  printf '%s' "$exclude${exclude:+${bad:+,}}$bad"
}

# keep_away JOB: the waiting job does not get these nodes.
keep_away() {
  local nodes
  nodes=$(all_excluded)
  [ "$nodes" = "$exclude" ] || scontrol update JobId="$1" ExcNodeList="$nodes" || say "could not exclude $nodes"
}
)sh";

// go_on: the job has more to do. stop: it has not, or a person must look first.
inline constexpr std::string_view kOnceShell = R"sh(
go_on() { say "exit code $1: submit this script again to go on"; }
stop() { :; }
)sh";

inline constexpr std::string_view kRequeueShell = R"sh(
# A requeue ends this script with SIGTERM, and only a waiting job can be kept away from nodes: so this comes last, and
# the signal is ignored. Where scontrol is missing (in some containers), RequeueExit=64,68,75,76,77 in slurm.conf has
# the same effect but for the excluded nodes.
go_on() {
  local state restarts=${SLURM_RESTART_COUNT:-0}
  if [ "$1" -ne 75 ] && [ "$restarts" -ge "$max_chain" ]; then
    say "exit code $1 after $restarts requeues: enough"
    return
  fi
  if ! command -v scontrol >/dev/null; then
    say "exit code $1: no scontrol here; Slurm requeues the job where RequeueExit in slurm.conf names $1"
    return
  fi
  # A job that somebody has cancelled is not brought back; one whose time is up may be.
  state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T 2>/dev/null)
  if [ -n "$state" ] && [ "$state" != RUNNING ] && [ "$received" != "$notice" ]; then
    say "exit code $1: the job is $state and not requeued"
    return
  fi
  say "exit code $1: requeue"
  trap '' TERM
  scontrol requeue "$SLURM_JOB_ID" && keep_away "$SLURM_JOB_ID"
}
stop() { :; }
)sh";

inline constexpr std::string_view kDependencyShell = R"sh(
# The next link of the chain waits for the end of this one, however it ends; it is taken back when nothing is left to do.
link=${LLMTRAIN_CHAIN_LINK:-1}
next=
if [ "$link" -lt "$max_chain" ]; then
  next=$(LLMTRAIN_CHAIN_LINK=$((link + 1)) sbatch --parsable --dependency="afterany:$SLURM_JOB_ID" "$0") || next=
  next=${next%%;*}
fi
go_on() {
  if [ -z "$next" ]; then
    say "exit code $1 in link $link: the chain ends here"
    return
  fi
  say "exit code $1: job $next goes on"
  keep_away "$next"
}
stop() { [ -z "$next" ] || scancel "$next"; }
)sh";

inline constexpr std::string_view kArrayShell = R"sh(
# The elements of the array run one after the other; those that wait are taken back when nothing is left to do.
go_on() {
  say "exit code $1: the next element of the array goes on"
  [ "$SLURM_ARRAY_TASK_ID" -ge "$SLURM_ARRAY_TASK_MAX" ] || keep_away "$SLURM_ARRAY_JOB_ID"
}
stop() { scancel --state=PENDING "$SLURM_ARRAY_JOB_ID"; }
)sh";

inline constexpr std::string_view kMainShell = R"sh(
# Older versions of Slurm do not tell a job when its time is up.
if [ -z "${SLURM_JOB_END_TIME:-}" ]; then
  end=$(squeue --noheader --jobs="$SLURM_JOB_ID" --Format=EndTime 2>/dev/null) &&
    end=$(date --date="$end" +%s 2>/dev/null) && export SLURM_JOB_END_TIME="$end"
fi

# Signals come to this shell alone and are passed on to the agents, which stop at a step, save and end with 75.
agents=
received=
signalled=
pass_on() {
  received=$1
  signalled=yes
  [ -z "$agents" ] || kill -s "$1" "$agents" 2>/dev/null
}
for signal in TERM INT USR1 USR2; do trap "pass_on $signal" "$signal"; done

# One agent on each node. The shell around it survives the signals of the step, to say which node is to be excluded.
node='trap : HUP INT TERM USR1 USR2
"$@"
code=$?
case $code in 64 | 77) printf "%s\n" "$SLURMD_NODENAME" >>"$LLMTRAIN_EXCLUDED" ;; esac
exit "$code"'
"${start[@]}" bash -c "$node" node "${launch[@]}" &
agents=$!
[ -z "$received" ] || kill -s "$received" "$agents"

# A signal ends a wait before the agents have ended, so it is repeated.
code=1
while :; do
  signalled=
  wait "$agents"
  status=$?
  [ "$status" -eq 127 ] || code=$status
  [ -n "$signalled" ] || break
done

# 129 and above: ended by a signal, as when a node is lost.
case $code in
  0) stop ;;
  64 | 68 | 75 | 76 | 77 | 129 | 1[3-9][0-9]) go_on "$code" ;;
  *)
    say "exit code $code: not started again"
    stop
    ;;
esac
exit "$code"
)sh";

}  // namespace llmtrain
