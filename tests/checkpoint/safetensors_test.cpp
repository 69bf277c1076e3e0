#include "llmtrain/checkpoint/safetensors.hpp"

#include <cstring>

#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;

namespace {

std::string file_with(const std::string& json, std::size_t data_bytes) {
  std::string file(8, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(file.data(), &length, 8);
  return file + json + std::string(data_bytes, '\0');
}

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "x.safetensors");
}

}  // namespace

TEST_CASE("safetensors: a header is read back as written, its data aligned", "[checkpoint]") {
  std::vector<SafetensorsEntry> entries = {{"a", StoredType::kF64, {2, 3}, 0, 0},
                                           {"b", StoredType::kBf16, {5}, 0, 0},
                                           {"empty", StoredType::kF32, {0, 4}, 0, 0},
                                           {"scalar", StoredType::kI64, {}, 0, 0}};
  const auto text = make_safetensors_header(entries, {{"format", "pt"}});
  REQUIRE(text);
  CHECK(text->size() % kSafetensorsAlignment == 0);
  const auto header = parse(*text + std::string(48 + 10 + 8, 'x'));
  REQUIRE(header);
  CHECK(header->data_start == text->size());
  CHECK(header->metadata.at("format") == "pt");
  REQUIRE(header->entries.size() == 4);
  CHECK(header->find("b")->begin == 48);
  CHECK(header->find("b")->shape == std::vector<std::int64_t>{5});
  CHECK(header->find("scalar")->type == StoredType::kI64);
  CHECK(!header->find("c"));
}

TEST_CASE("safetensors: foreign but valid files are read", "[checkpoint]") {
  CHECK(parse(file_with("{}", 0)));
  CHECK(parse(file_with(
      R"({"z":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}  )",
      5)));
  CHECK(parse(file_with(R"({"../../etc/passwd":{"data_offsets":[0,1],"dtype":"F8_E4M3","shape":[1,1]}})",
                        1)));  // a name, never a path
}

TEST_CASE("safetensors: bad files are refused with the reason", "[checkpoint]") {
  const auto refused = [](const std::string& file, const std::string& why) {
    const auto header = parse(file);
    REQUIRE(!header);
    INFO(header.error().message);
    CHECK(header.error().message.find("x.safetensors") != std::string::npos);
    CHECK(to_string(header.error()).find(why) != std::string::npos);
  };
  const auto tensor = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  refused("", "0 bytes are too few");
  refused("1234567", "7 bytes are too few");
  refused(std::string(8, '\xff') + "{}", "at most 100000000");
  refused(file_with("{}", 0).substr(0, 9), "cut off");
  refused(file_with("[]", 0), "does not begin with '{'");
  refused(file_with(" {}", 0), "does not begin with '{'");
  refused(file_with("{\"a\":", 0), "not valid JSON");
  refused(file_with("{}{}", 0), "not valid JSON");
  refused(file_with("{\"\xff\":1}", 0), "not valid JSON");  // not UTF-8
  refused(file_with("{\"a\":1}", 0), "a JSON object is needed");
  refused(file_with(tensor(R"("dtype":"F32","shape":[1])"), 4), "\"data_offsets\" is missing");
  refused(file_with(tensor(R"("dtype":"F4","shape":[2],"data_offsets":[0,1])"), 1),
          "dtype \"F4\" is not known");
  refused(file_with(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4), "not an integer >= 0");
  refused(file_with(tensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4), "not an integer >= 0");
  refused(file_with(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), 8), "do not fit");
  refused(file_with(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4), "do not fit");
  refused(file_with(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"), 4), "at most 2");
  refused(file_with(tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0),
          "do not fit");
  refused(file_with(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1)"), 4), "keys beside");
  refused(file_with(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8),
          "begins at byte 4");  // a hole
  refused(file_with(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 3), "cut off");
  refused(file_with(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 5), "the file holds 5");
  refused(
      file_with(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3),
      "begins at byte 1");  // an overlap
  refused(
      file_with(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1),
      "\"a\" appears twice");
  refused(file_with(R"({"__metadata__":{"k":1}})", 0), "is not a string");
  refused(file_with(R"({"__metadata__":[]})", 0), "is not an object");
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  refused(file_with(deep, 0), "nested deeper");
}

TEST_CASE("safetensors: the header of a file is read without its data", "[checkpoint]") {
  test::MemoryFileSystem files;
  auto file = files.create("x");
  REQUIRE(file);
  const std::string text = file_with(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3);
  REQUIRE((*file)->append(std::as_bytes(std::span(text))));
  CHECK(read_safetensors_header(files, "x").value().entries.size() == 1);
  CHECK(!read_safetensors_header(files, "y"));
}
