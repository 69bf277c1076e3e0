#include "llmtrain/spec/schema.hpp"

#include <fstream>
#include <functional>
#include <iterator>

#include <nlohmann/json.hpp>

#include "llmtrain/spec/write.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("schema: docs/JOB_SPEC.md is current", "[spec]") {
  std::ifstream stream(LLMTRAIN_SOURCE_DIR "/docs/JOB_SPEC.md");
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  INFO("run: llmtrain schema --markdown > docs/JOB_SPEC.md");
  CHECK((page == markdown_reference()));
}

TEST_CASE("schema: every field says what it means", "[spec]") {
  const std::function<void(const FieldSchema&)> visit = [&](const FieldSchema& section) {
    for (const FieldSchema& field : section.fields) {
      INFO(field.path);
      CHECK_FALSE(field.doc.empty());
      CHECK_FALSE(allowed_text(field).empty());
      visit(field);
    }
  };
  visit(job_schema());
}

TEST_CASE("schema: JSON schema and writer name the same fields", "[spec]") {
  const auto schema = nlohmann::json::parse(json_schema());
  const auto spec = nlohmann::json::parse(to_json(to_tree(JobSpec{})));
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["properties"].size() == spec.size());
  for (const auto& [section, fields] : spec.items()) {
    INFO(section);
    REQUIRE(schema["properties"].contains(section));
    if (!fields.is_object()) continue;
    for (const auto& [field, value] : fields.items())
      CHECK(schema["properties"][section]["properties"].contains(field));
  }
  CHECK(schema["properties"]["optimizer"]["properties"]["name"]["enum"] == nlohmann::json{"adamw", "sgd"});
  CHECK(schema["properties"]["batch"]["properties"]["micro_batch_size"]["minimum"] == 1);
}
