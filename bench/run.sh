#!/usr/bin/env bash
# Measure llmtrain beside what it is compared with, in one run on one machine. Nothing else should run on it.
#   bench/run.sh step        one process, 2 threads, llama-10m: PyTorch eager with fused AdamW
#   bench/run.sh 4d          eight processes, tp 2 x pp 2 x dp 2, llama-10m: PyTorch DDP and FSDP2 over Gloo
#   bench/run.sh long        a step of 131,072 tokens: 4 ranks that share the sequence, and 1 rank, under one memory cap
#   bench/run.sh launch      start and restart: torchrun with PyTorch
#   bench/run.sh allreduce   2 and 4 processes: Gloo
#   bench/run.sh control     1,000 agents join one leader, and what that costs it
#   bench/run.sh nodes       two nodes: weight and cost of the agents, how long failures last; torchrun. Needs root
#   bench/run.sh overhead    logging, tracing and checks: the same job without them
# Needs scripts/setup.sh --oracles and the release preset built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  step) exec .venv/bin/python bench/step.py "${@:2}" ;;
  4d) exec .venv/bin/python bench/mesh_step.py "${@:2}" ;;
  long) exec python3 bench/long.py "${@:2}" ;;
  launch) exec .venv/bin/python bench/launch.py "${@:2}" ;;
  allreduce) for ranks in 2 4; do build/release/bench/allreduce_bench --ranks "$ranks" "${@:2}"; done ;;
  nodes) exec .venv/bin/python bench/nodes.py "${@:2}" ;;
  control) exec build/release/bench/control_join_bench "${@:2}" ;;
  overhead) exec python3 bench/overhead.py "${@:2}" ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
