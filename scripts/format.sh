#!/usr/bin/env bash
# Does every C++ file have the layout of .clang-format? Names the files that do not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
find include src cli tests bench \( -name '*.hpp' -o -name '*.cpp' \) -print0 |
  xargs -0 -n 20 -P "$(nproc)" clang-format --dry-run --Werror --ferror-limit=1
