#!/usr/bin/env bash
# clang-tidy over the plain plane: all of src and cli that builds without libtorch, or the files named.
#   scripts/tidy.sh             every source of the plain plane
#   scripts/tidy.sh FILE...     these
#   scripts/tidy.sh --stdin     these, one a line; files of the tensor plane are passed over
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cmake --preset tidy >build/configure-tidy.log 2>&1 || { cat build/configure-tidy.log; exit 1; }
known=$(python3 - <<'PYTHON'
import json, os
for entry in json.load(open("build/tidy/compile_commands.json")):
    path = os.path.relpath(entry["file"])
    if path.startswith(("src/", "cli/")):
        print(path)
PYTHON
)
case ${1:-} in
  "") files=$known ;;
  --stdin) files=$(grep -Fx -f <(echo "$known") || true) ;;
  *) files=$(printf '%s\n' "$@") ;;
esac
[ -n "$files" ] || exit 0
echo "$files" | xargs -d '\n' -n 1 -P "$(nproc)" clang-tidy --quiet -p build/tidy
