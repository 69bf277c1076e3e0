# llmtrain_test(NAME SOURCES ... LABEL unit|ranks|process|e2e|oracle|gpu [TIMEOUT s] [PROCESSORS n] DEPENDS modules... [LIBRARIES ...])
#
# One Catch2 executable, registered as one CTest test with a label and a hard time limit.
# DEPENDS names modules (core, spec, ...) or other targets.
find_package(Catch2 2 REQUIRED)

add_library(llmtrain_test_main STATIC ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
target_link_libraries(llmtrain_test_main PUBLIC Catch2::Catch2 fmt::fmt)
target_include_directories(llmtrain_test_main PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)

function(llmtrain_test name)
  cmake_parse_arguments(T "" "LABEL;TIMEOUT;PROCESSORS" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  foreach(dep IN LISTS T_DEPENDS)
    if(NOT TARGET llmtrain::${dep})
      return()  # a test of the tensor plane in a build without it
    endif()
  endforeach()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  list(TRANSFORM T_DEPENDS PREPEND llmtrain::)
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE llmtrain_test_main llmtrain_flags ${T_DEPENDS} ${T_LIBRARIES})
  target_compile_definitions(${name} PRIVATE
    LLMTRAIN_SOURCE_DIR="${CMAKE_SOURCE_DIR}" LLMTRAIN_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT})
  if(T_PROCESSORS)
    set_tests_properties(${name} PROPERTIES PROCESSORS ${T_PROCESSORS})
  endif()
endfunction()
