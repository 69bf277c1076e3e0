#!/usr/bin/env bash
# The gate before a push: format, repository rules, and clang-tidy on the files that differ from main.
#   scripts/check.sh          report
#   scripts/check.sh --fix    format in place first
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  --fix) git ls-files -z -- '*.hpp' '*.cpp' | xargs -0 clang-format -i ;;
  "") ;;
  *) echo "check: unknown argument $1; allowed is --fix" >&2; exit 2 ;;
esac

scripts/format.sh
python3 -m unittest discover --start-directory tests/repo --top-level-directory . --quiet
base=$(git merge-base HEAD "${LLMTRAIN_BASE:-main}")
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'cli/*.cpp')
[ "${#changed[@]}" -eq 0 ] || scripts/tidy.py "${changed[@]}"
echo "check: fine" >&2
