# Third-party libraries of the plain plane, all from the distribution, and the flags of our own code.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)  # CRC32C

# Warnings and sanitizers are private to our code; headers of others are system headers.
add_library(llmtrain_flags INTERFACE)
target_compile_options(llmtrain_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-missing-field-initializers  # designated initialisers leave out what keeps its default
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # false alarms of GCC 12 in std::string
if(LLMTRAIN_WARNINGS_AS_ERRORS)
  target_compile_options(llmtrain_flags INTERFACE -Werror)
endif()
if(LLMTRAIN_SANITIZE)
  add_compile_options(-fsanitize=${LLMTRAIN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${LLMTRAIN_SANITIZE})
endif()
if(LLMTRAIN_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage, so that libFuzzer sees where an input led
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
