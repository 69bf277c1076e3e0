#!/usr/bin/env bash
# Run every fault case and write docs/FAULTS.md from what was measured.
#   scripts/faults.sh         once
#   scripts/faults.sh --long  three times each
# Needs root (network namespaces), the release build, and the packages iproute2 and nftables.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for argument in "$@"; do
  case $argument in
    --long) export LLMTRAIN_TEST_LONG=1 ;;
    -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "faults: unknown argument $argument; allowed is --long" >&2; exit 2 ;;
  esac
done

build=$PWD/build/release
[[ -x $build/llmtrain ]] || { echo "faults: $build/llmtrain is missing; build it: scripts/setup.sh, cmake --build" >&2; exit 2; }
records=$(mktemp)
trap 'rm -f "$records"' EXIT
export PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1 LLMTRAIN_SOURCE_DIR=$PWD LLMTRAIN_BINARY_DIR=$build
export LLMTRAIN=$build/llmtrain LLMTRAIN_FAULT_RECORDS=$records
code=0
python3 tests/faults/test_faults.py || code=$?
[[ $code -ne 77 ]] || { echo "faults: nothing could be run here; docs/FAULTS.md is unchanged" >&2; exit 77; }
# A page without its failed cases would hide them.
[[ $code -eq 0 ]] || { echo "faults: a case has failed; docs/FAULTS.md is unchanged" >&2; exit 1; }
python3 tests/faults/render.py "$records" docs/FAULTS.md
echo "docs/FAULTS.md: $(wc -l <"$records") rows"
