# Precompiled headers: one for the plain plane, one for the tensor plane, one for the tests.
#
# A full build parses fmt, nlohmann-json, CLI11, Catch2 and ATen once each instead of two hundred times. A
# header is only used by targets with the same compiler flags; with others GCC quietly reads the text.
set(LLMTRAIN_STANDARD_HEADERS
  <algorithm> <array> <atomic> <chrono> <cstdint> <cstdio> <cstring> <filesystem> <functional> <map> <memory> <optional>
  <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)

function(_llmtrain_precompiled name source)
  add_library(${name} STATIC ${CMAKE_SOURCE_DIR}/cmake/precompiled/${source})
  target_link_libraries(${name} PRIVATE llmtrain_flags fmt::fmt)
  target_precompile_headers(${name} PRIVATE ${LLMTRAIN_STANDARD_HEADERS} ${ARGN})
endfunction()

_llmtrain_precompiled(llmtrain_plain_headers plain.cpp <nlohmann/json.hpp>)
if(LLMTRAIN_WITH_ENGINE)
  _llmtrain_precompiled(llmtrain_tensor_headers tensor.cpp <ATen/core/Tensor.h>)
  target_link_libraries(llmtrain_tensor_headers PRIVATE llmtrain::torch_cpu)
endif()
# Tests are not optimised: they spend their time in the libraries, and compile in half of it.
set(LLMTRAIN_TEST_OPTIONS -O0)
function(_llmtrain_precompiled_for_tests name source)
  _llmtrain_precompiled(${name} ${source} ${ARGN})
  # Executables are compiled with -fPIE, libraries with -fPIC: a header made for one does not serve the other.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE ${LLMTRAIN_TEST_OPTIONS})
endfunction()

if(LLMTRAIN_BUILD_TESTS)
  _llmtrain_precompiled_for_tests(llmtrain_test_headers tests.cpp <catch2/catch.hpp>)
  if(LLMTRAIN_WITH_ENGINE)  # libtorch has a CHECK of its own: Catch2's must come after it
    _llmtrain_precompiled_for_tests(llmtrain_tensor_test_headers tensor_tests.cpp
      <ATen/Functions.h> <c10/util/Logging.h> <catch2/catch.hpp>)
    target_link_libraries(llmtrain_tensor_test_headers PRIVATE llmtrain::torch_cpu)
  endif()
endif()
