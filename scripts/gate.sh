#!/usr/bin/env bash
# One of the builds beside the release build, and what is run on it.
#   scripts/gate.sh asan    plain plane under AddressSanitizer and UBSan with clang; unit tests and fuzzers
#   scripts/gate.sh tsan    plain plane under ThreadSanitizer; unit tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-}
case $preset in
  asan | tsan)
    cmake --preset "$preset"
    cmake --build --preset "$preset"
    # Sanitizers make everything slower; the limits of the tests are generous enough for that.
    ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=second_deadlock_stack=1 \
      ctest --preset "$preset" --label-regex '^(unit|process|fuzz)$' --exclude-regex '^repo_' --no-tests=error --parallel "$(nproc)"
    ;;
  *) echo "gate: unknown build '$preset'; allowed are asan and tsan" >&2; exit 2 ;;
esac
