#!/bin/bash
# Written by `llmtrain submit --target slurm`.
#SBATCH --job-name=small
#SBATCH --partition=gpu
#SBATCH --account=lab
#SBATCH --qos=high
#SBATCH --nodes=3-4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=1-00:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --no-requeue
#SBATCH --open-mode=append
#SBATCH --no-kill
#SBATCH --exclusive
#SBATCH --constraint=h100&ib
#SBATCH --exclude=n7,n[9-10]
#SBATCH --array=1-5%1
#SBATCH --output=small-%A_%a.log
#SBATCH --chdir=/home/a
#SBATCH --mem=0
#SBATCH --reservation=r1

set -u
run_dir=runs/small
max_chain=5
exclude='n7,n[9-10]'
notice=USR1
start=(srun --kill-on-bad-exit=0 --ntasks-per-node=1 --input=none --cpus-per-task=64 --container-image=/images/llmtrain.sqsh --container-mounts=/home/a:/home/a --container-workdir=/home/a)
launch=(/opt/llmtrain launch job.yaml)

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

# The elements of the array run one after the other; those that wait are taken back when nothing is left to do.
go_on() {
  say "exit code $1: the next element of the array goes on"
  [ "$SLURM_ARRAY_TASK_ID" -ge "$SLURM_ARRAY_TASK_MAX" ] || keep_away "$SLURM_ARRAY_JOB_ID"
}
stop() { scancel --state=PENDING "$SLURM_ARRAY_JOB_ID"; }

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
