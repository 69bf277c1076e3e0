#!/usr/bin/env bash
# Set up, build, and run every test. The test runner's own summary closes the output.
#   scripts/test.sh           what CI runs after the sanitizer builds
#   scripts/test.sh --long    full counts, soaks and clang-tidy (hours)
# Both engines are built (no GPU is needed for that). The layout of the sources is a test of that one run too
# (label gate). With CI=true only tests labelled gpu or shared may skip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for argument in "$@"; do
  case $argument in
    --long) export LLMTRAIN_TEST_LONG=1 ;;
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test: unknown argument $argument; allowed is --long" >&2; exit 2 ;;
  esac
done

scripts/setup.sh --oracles
cmake --preset release -DLLMTRAIN_WITH_CUDA=ON -DLLMTRAIN_GATES=ON >build/configure-release.log 2>&1 ||
  { cat build/configure-release.log; exit 1; }
cmake --build --preset release
ctest --preset release --no-tests=error --parallel "$(nproc)"
