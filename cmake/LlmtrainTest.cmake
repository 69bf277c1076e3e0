# Tests, each registered with CTest under its labels and a hard time limit.
#
# Labels: unit, ranks (ranks as threads), process (real worker processes), e2e (the real binary), oracle
# (compared with PyTorch; needs the wheels of setup.sh --oracles), faults (several hosts), slurm (a real Slurm of
# two nodes on this host), gpu, and gate (checks of the tree itself). `shared` is added to tests that read
# ../shared. A test that cannot run exits 77: that is a skip, except with CI=true, where only tests labelled gpu
# or shared may skip.
find_package(Catch2 2 REQUIRED)
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)

add_library(llmtrain_test_main STATIC ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
target_link_libraries(llmtrain_test_main PUBLIC Catch2::Catch2 fmt::fmt)
target_include_directories(llmtrain_test_main PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)

# _llmtrain_test_properties(NAME LABELS TIMEOUT PROCESSORS): what every kind of test has in common.
function(_llmtrain_test_properties name labels timeout processors)
  if(NOT timeout)
    set(timeout 60)
  endif()
  if(LLMTRAIN_SANITIZE)  # not optimised, every access checked
    math(EXPR timeout "${timeout} * 3")
  endif()
  if("$ENV{LLMTRAIN_TEST_LONG}" STREQUAL "1")
    math(EXPR timeout "${timeout} * 30")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout})
  if(processors)
    set_tests_properties(${name} PROPERTIES PROCESSORS ${processors})
  endif()
  if("gpu" IN_LIST labels OR "shared" IN_LIST labels OR NOT "$ENV{CI}" STREQUAL "true")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# llmtrain_test(NAME SOURCES ... LABEL unit|ranks|process|e2e|oracle|gpu... [TIMEOUT s] [PROCESSORS n]
#               DEPENDS modules... [LIBRARIES ...])
#
# One Catch2 executable, registered as one test. DEPENDS names modules (core, spec, ...) or other targets.
function(llmtrain_test name)
  cmake_parse_arguments(T "" "TIMEOUT;PROCESSORS" "LABEL;SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  set(headers llmtrain_test_headers)
  foreach(dep IN LISTS T_DEPENDS)
    if(NOT TARGET llmtrain::${dep})
      return()  # a test of the tensor plane in a build without it
    endif()
    get_property(plane GLOBAL PROPERTY LLMTRAIN_PLANE_${dep})
    if(plane STREQUAL "tensor")
      set(headers llmtrain_tensor_test_headers)
    endif()
  endforeach()
  list(TRANSFORM T_DEPENDS PREPEND llmtrain::)
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE llmtrain_test_main llmtrain_flags ${T_DEPENDS} ${T_LIBRARIES})
  target_compile_options(${name} PRIVATE ${LLMTRAIN_TEST_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM ${headers})
  target_compile_definitions(${name} PRIVATE
    LLMTRAIN_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LLMTRAIN_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  _llmtrain_test_properties(${name} "${T_LABEL}" "${T_TIMEOUT}" "${T_PROCESSORS}")
endfunction()

# llmtrain_python_test(NAME SCRIPT file LABEL ... [TIMEOUT s] [PROCESSORS n] [VENV] [NEEDS targets...]
#                      [ARGUMENTS ...])
#
# A Python script that says what it found by its exit status; unittest modules call
# tests.support.main.run(). The environment names the tree (LLMTRAIN_SOURCE_DIR), the build
# (LLMTRAIN_BINARY_DIR) and the executable (LLMTRAIN). VENV runs it with the wheels' Python instead of the
# system's; a test whose NEEDS are not built in this configuration is left out.
function(llmtrain_python_test name)
  cmake_parse_arguments(T "VENV" "SCRIPT;TIMEOUT;PROCESSORS" "LABEL;NEEDS;ARGUMENTS" ${ARGN})
  foreach(target IN LISTS T_NEEDS)
    if(NOT TARGET ${target})
      return()
    endif()
  endforeach()
  set(python "${Python3_EXECUTABLE}")
  if(T_VENV)
    set(python "${LLMTRAIN_VENV}/bin/python")
  endif()
  add_test(NAME ${name} COMMAND "${python}" "${CMAKE_CURRENT_SOURCE_DIR}/${T_SCRIPT}" ${T_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "PYTHONPATH=${CMAKE_SOURCE_DIR};PYTHONDONTWRITEBYTECODE=1;LLMTRAIN_SOURCE_DIR=${CMAKE_SOURCE_DIR};LLMTRAIN_BINARY_DIR=${CMAKE_BINARY_DIR};LLMTRAIN=${CMAKE_BINARY_DIR}/llmtrain")
  _llmtrain_test_properties(${name} "${T_LABEL}" "${T_TIMEOUT}" "${T_PROCESSORS}")
endfunction()
