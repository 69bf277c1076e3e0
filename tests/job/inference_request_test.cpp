#include "llmtrain/job/inference_request.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("inference request: what is written is read back", "[job]") {
  const GenerateRequest asked{.step_dir = "runs/a/checkpoints/step-00000010",
                              .tokenizer = "tok dir/",
                              .prompt = "a \"quoted\"\nprompt\twith \xc3\xa9",
                              .max_tokens = 7,
                              .temperature = 0.1,
                              .top_k = 3,
                              .top_p = 0.9,
                              .seed = 18446744073709551615ULL,
                              .json = true,
                              .threads = 2};

  const auto read = generate_request_from_json(to_json(asked));

  REQUIRE(read);
  CHECK(read->prompt == asked.prompt);
  CHECK(read->seed == asked.seed);
  CHECK(read->temperature == asked.temperature);
  CHECK(to_json(*read) == to_json(asked));
}

TEST_CASE("inference request: missing, unknown and mistyped keys are errors", "[job]") {
  const std::string good = to_json(EvalRequest{.step_dir = "s", .data = "d"});
  CHECK(eval_request_from_json(good));
  CHECK_FALSE(eval_request_from_json("[]"));
  CHECK_FALSE(eval_request_from_json("{"));
  CHECK_FALSE(eval_request_from_json("{\"step_dir\": \"s\"}"));
  std::string extra = good;
  extra.insert(1, "\"stray\": 1,");
  CHECK_FALSE(eval_request_from_json(extra));
  std::string mistyped = good;
  mistyped.replace(mistyped.find("false"), 5, "\"no\"");
  CHECK_FALSE(eval_request_from_json(mistyped));
}
