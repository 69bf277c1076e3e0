#!/usr/bin/env bash
# From nothing to a trained model in five minutes of training: set up, build, take a real text, train a
# tokenizer, prepare tokens, train with eight processes (two tensor-parallel ranks x two pipeline stages x two
# data-parallel replicas), crash one, stop, resume, and write a sample.
# Everything lies in quickstart/; steps that are done are not done again. Start over: rm -r quickstart
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p quickstart build

started=$SECONDS
llmtrain=build/release/llmtrain
job=configs/quickstart.yaml
run=quickstart/run

heading() { printf '\n== %s  [%d s]\n' "$*" "$((SECONDS - started))"; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

# A result appears under its name only when it is whole: an interrupted step is done again.
logged() {  # logged LOG COMMAND...: quiet unless it fails
  local log=$1
  shift
  "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; die "failed: $*; the whole output is in $log"; }
}

heading "Set up: packages and the torch wheel"
scripts/setup.sh

heading "Build"
[ -f build/release/build.ninja ] || logged build/quickstart-configure.log cmake --preset release
logged build/quickstart-build.log cmake --build --preset release --target llmtrain llmtrain_engine_cpu
echo "$llmtrain, and libllmtrain_engine_cpu.so beside it"

heading "Text: the King James Bible of Debian's bible-kjv, one document a chapter"
if [ ! -d quickstart/text ]; then
  command -v bible >/dev/null || die "the command 'bible' is missing; install Debian's bible-kjv"
  rm -rf quickstart/text.tmp
  bible -f 'gen1:1-rev22:21' </dev/null | python3 scripts/verses_to_jsonl.py quickstart/text.tmp
  mv quickstart/text.tmp quickstart/text
fi
wc -lc quickstart/text/*.jsonl | awk '{printf "%5d chapters, %7d bytes: %s\n", $1, $2, $3}'

heading "Tokenizer: a byte-level BPE of 2048 words, trained on the training text"
if [ ! -d quickstart/tokenizer ]; then
  rm -rf quickstart/tokenizer.tmp
  $llmtrain data train-tokenizer --input quickstart/text/train.jsonl --vocab-size 2048 --out quickstart/tokenizer.tmp
  mv quickstart/tokenizer.tmp quickstart/tokenizer
fi
ls quickstart/tokenizer/*

heading "Tokens"
for part in train valid; do
  if [ ! -d quickstart/data/$part ]; then
    rm -rf quickstart/data/$part.tmp
    $llmtrain data prepare --input quickstart/text/$part.jsonl --tokenizer quickstart/tokenizer --out quickstart/data/$part.tmp
    mv quickstart/data/$part.tmp quickstart/data/$part
  fi
  $llmtrain data inspect quickstart/data/$part
done

# The last step of the accepted history, or 0.
last_step() { { tail -n 1 $run/metrics.jsonl 2>/dev/null || true; } | sed -n 's/.*"step": *\([0-9]*\).*/\1/p'; }
finished() { grep -q '"event": *"run_finished"' $run/events.jsonl 2>/dev/null &&
  tail -n 1 <(grep '"event": *"run_finished"' $run/events.jsonl) | grep -q '"code": *0\b'; }

wait_for_step() {  # wait_for_step STEP PID
  local step
  for _ in $(seq 3000); do
    step=$(last_step)
    [ "${step:-0}" -lt "$1" ] || return 0
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.2
  done
  return 1
}

if finished; then
  heading "Train: done in an earlier run of this script"
else
  if [ -d $run/checkpoints ]; then
    heading "Train: go on from the newest checkpoint of an interrupted run"
    $llmtrain resume $run
  else
    heading "Train: eight worker processes: tp 2 x pp 2 x dp 2, sharded sequence, ZeRO 1, schedule 1f1b"
    $llmtrain schedule show --schedule 1f1b --pp 2 --micro-batches 4
    $llmtrain launch $job &
    launch=$!
    trap 'kill -TERM $launch 2>/dev/null || true' EXIT

    wait_for_step 70 $launch || die "the run ended early; see $run/logs"
    heading "Crash: SIGKILL for the worker of rank 5"
    pkill -KILL -P $launch -x llmtrain-r5 || die "no worker of rank 5 was found"

    wait_for_step 130 $launch || die "the run did not come back; see $run/logs and $run/incidents"
    heading "Stop: SIGTERM for the launcher, as a scheduler would send it"
    kill -TERM $launch
    status=0
    wait $launch || status=$?
    trap - EXIT
    [ $status -eq 75 ] || die "expected exit 75 (stopped, checkpoint committed), got $status"
    echo "exit 75: stopped, checkpoint committed"

    heading "Resume: from that checkpoint to the end"
    $llmtrain resume $run
  fi
fi

heading "Check: every byte of every checkpoint"
$llmtrain ckpt verify $run

heading "What it learned"
$llmtrain eval --checkpoint $run --data quickstart/data/valid --json >quickstart/eval.json
python3 scripts/quickstart_summary.py quickstart

heading "A sample"
$llmtrain generate --checkpoint $run --prompt "And God said" --max-tokens 120 --temperature 0.8 --top-k 40 --seed 1

heading "Where everything lies"
cat <<END
quickstart/tokenizer, quickstart/data   tokenizer and token files
$run/metrics.jsonl           one line for every step
$run/events.jsonl            evaluations, checkpoints, the crash, the restart
$run/checkpoints             safetensors; try: $llmtrain ckpt ls $run
$run/logs, $run/incidents    output of every worker; what happened at the crash
$job                  the job: change it, and launch your own
END
