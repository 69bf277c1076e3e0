#!/usr/bin/env bash
# One of the builds beside the release build, and what is run on it.
#   scripts/gate.sh asan    plain plane under AddressSanitizer and UBSan with clang; its tests, and every fuzzer for seconds
#   scripts/gate.sh tsan    the parts of the plain plane that use threads, under ThreadSanitizer; their tests. With
#                           LLMTRAIN_TEST_LONG=1 also data, and whole jobs: agents of one node and of several
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-}
case $preset in
  asan) tests=() ;;
  tsan) tests=(shm_test shm_processes_test monitor_test control_test control_group_test logs_test)
        [[ ${LLMTRAIN_TEST_LONG:-} != 1 ]] ||
          tests+=(data_test tokenizer_test node_messages_test launch_test launch_nodes_test) ;;
  *) echo "gate: unknown build '$preset'; allowed are asan and tsan" >&2; exit 2 ;;
esac
select=(--label-regex '^(unit|process|fuzz)$' --exclude-regex '^repo_')
[ ${#tests[@]} -eq 0 ] || select=(--tests-regex "^($(IFS='|'; echo "${tests[*]}"))\$")

cmake --preset "$preset"
cmake --build --preset "$preset" ${tests:+--target "${tests[@]}"}
ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=second_deadlock_stack=1 \
  ctest --preset "$preset" "${select[@]}" --no-tests=error --parallel "$(nproc)"
