#!/usr/bin/env bash
# Run every fault case and write docs/FAULTS.md from what was measured.
#   scripts/faults.sh                 once
#   scripts/faults.sh --runs 5        the cases whose times are of interest five times
#   scripts/faults.sh --long          every case three times, ten minutes of strangers on the control port
#   scripts/faults.sh --case p1 ...   these cases only; the rows are shown, the page stays as it is
#   scripts/faults.sh --records FILE  add the rows to FILE and write the page from all that is in it, so that it can
#                                     be made in parts: --case p1 --runs 5 --records FILE, then others
# Needs root (network namespaces), the release build, and the packages iproute2 and nftables.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { echo "faults: $1; see scripts/faults.sh --help" >&2; exit 2; }
records='' cases=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --long) export LLMTRAIN_TEST_LONG=1; shift; continue ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --runs | --case | --records) [[ $# -gt 1 ]] || usage "$1 needs a value" ;;
    *) usage "unknown argument $1" ;;
  esac
  case $1 in
    --runs) [[ $2 =~ ^[1-9][0-9]?$ ]] || usage "--runs $2 is not a number from 1 to 99"; export LLMTRAIN_FAULT_RUNS=$2 ;;
    --case) cases+=("Faults.test_$2") ;;
    --records) records=$(realpath "$2") ;;
  esac
  shift 2
done

build=${LLMTRAIN_BINARY_DIR:-$PWD/build/release}
[[ -x $build/llmtrain ]] || usage "$build/llmtrain is missing; build it: scripts/setup.sh, cmake --build"
kept=$records
if [[ -z $records ]]; then
  records=$(mktemp)
  trap 'rm -f "$records"' EXIT
fi
export PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1 LLMTRAIN_SOURCE_DIR=$PWD LLMTRAIN_BINARY_DIR=$build
export LLMTRAIN=$build/llmtrain LLMTRAIN_FAULT_RECORDS=$records
code=0
python3 tests/faults/test_faults.py "${cases[@]}" || code=$?
[[ $code -ne 77 ]] || { echo "faults: nothing could be run here; docs/FAULTS.md is unchanged" >&2; exit 77; }
# A page without its failed cases would hide them.
[[ $code -eq 0 ]] || { echo "faults: a case has failed; docs/FAULTS.md is unchanged" >&2; exit 1; }
if [[ ${#cases[@]} -gt 0 && -z $kept ]]; then
  python3 tests/faults/render.py "$records" /dev/stdout | grep '^|'
else
  python3 tests/faults/render.py "$records" docs/FAULTS.md
  echo "docs/FAULTS.md: $(wc -l <"$records") rows"
fi
