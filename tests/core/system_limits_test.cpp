#include "llmtrain/core/system_limits.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("limits: last words that speak of one name it", "[core]") {
  for (const char* words : {"libgomp: Thread creation failed: Resource temporarily unavailable",
                            "terminate called after throwing an instance of 'std::system_error'\n"
                            "  what():  Resource temporarily unavailable",
                            "Resource temporarily unavailable",
                            "group dp of ranks 0, 2 cannot connect; did not arrive: nobody; gloo says: "
                            "Resource temporarily unavailable",
                            "bash: fork: retry: Resource temporarily unavailable",
                            "pthread_create: Resource temporarily unavailable"}) {
    INFO(words);
    CHECK(limit_in_words(words).find("processes and threads") != std::string::npos);
  }
  CHECK(limit_in_words("cannot open x: Too many open files").find("open files") != std::string::npos);
}

TEST_CASE("limits: a call that would have had to wait is none", "[core]") {
  for (const char* words : {"recv from 10.0.0.7:29400: Resource temporarily unavailable",
                            "cannot lock run/lock: Resource temporarily unavailable",
                            "a thread said:\nread: Resource temporarily unavailable",
                            "no words of any kind",
                            ""}) {
    INFO(words);
    CHECK(limit_in_words(words).empty());
  }
}
