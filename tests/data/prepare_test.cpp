#include "llmtrain/data/prepare.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "llmtrain/data/byte_tokenizer.hpp"
#include "llmtrain/data/indexed_dataset.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using test::TemporaryDirectory;

namespace {

struct Job {
  TemporaryDirectory dir;
  PrepareOptions options;

  Job() {
    options.tokenizer = std::make_shared<ByteTokenizer>();
    options.eod_id = ByteTokenizer::kEod;
    options.out = dir / "out dir";
    options.num_threads = 2;
  }
  void input(const std::string& name, const std::string& bytes) {
    std::ofstream(dir / name, std::ios::binary) << bytes;
    options.inputs.push_back(dir / name);
  }
  Result<PrepareReport> run() const { return prepare(*make_posix_filesystem(), options); }
  Error error() const {
    const auto report = run();
    REQUIRE_FALSE(report);
    CHECK_FALSE(std::filesystem::exists(options.out + "/tokens.idx"));
    return report.error();
  }
};

std::vector<std::string> documents(const std::string& path) {
  const IndexedDataset set = IndexedDataset::open(path, IndexCheck::kFull).value();
  std::vector<std::string> texts;
  for (std::int64_t d = 0; d < set.num_documents(); ++d) {
    std::vector<std::int32_t> ids(
        static_cast<std::size_t>(set.document_begin(d + 1) - set.document_begin(d)));
    REQUIRE(set.read(set.document_begin(d), ids));
    std::string text;
    for (const std::int32_t id : ids)
      text += id == 256 ? std::string("$") : std::string(1, static_cast<char>(id));
    texts.push_back(text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

// jzhang38/TinyLlama#40: one end after each document that is not empty, and it is counted.
TEST_CASE("prepare: one EOD after each document, none for an empty one", "[data]") {
  Job job;
  job.input("a.jsonl", "{\"text\": \"fiver\"}\n{\"text\": \"\"}\n{\"text\": \"seven 7\"}\n");
  const auto report = job.run();
  REQUIRE(report);
  CHECK(documents(job.options.out) == Texts{"fiver$", "seven 7$"});
  CHECK(report->texts.empty == 1);
  REQUIRE(report->splits.size() == 1);
  CHECK(report->splits[0].num_tokens == 14);
  CHECK(report->splits[0].num_documents == 2);
  CHECK(report->splits[0].text_bytes == 12);
}

// openai/gpt-2-output-dataset#51: every kind of nothing is skipped and counted, or refused by line.
TEST_CASE("prepare: empty, blank and null texts, blank lines, empty files, a last line without newline",
          "[data]") {
  Job job;
  job.input(
      "a.jsonl",
      "{\"text\": \"one\"}\n\n{\"text\": \" \\n\\u3000\"}\n{\"text\": null}\r\n   \n{\"text\": \"two\"}");
  job.input("zero.txt", "");
  job.input("zero.jsonl", "");
  job.input("blank.txt", " \n\t\n");
  job.input("b.txt", "three\n");
  const auto report = job.run();
  REQUIRE(report);
  CHECK(documents(job.options.out) == Texts{"one$", "two$", "three\n$"});
  CHECK(report->texts.texts == 3);
  CHECK(report->texts.blank == 2);
  CHECK(report->texts.null == 1);
  CHECK(report->texts.empty == 2);
  CHECK(report->texts.blank_lines == 2);
}

TEST_CASE("prepare: a line that is wrong is refused with its number", "[data]") {
  const auto message = [](const std::string& third) {
    Job job;
    job.input("a.jsonl", "{\"text\": \"x\"}\n\n" + third + "\n{\"text\": \"y\"}\n");
    const Error error = job.error();
    CHECK(error.code == ErrorCode::kData);
    CHECK(error.message.find(job.dir / "a.jsonl:3: ") == 0);
    return error.message.substr((job.dir / "a.jsonl:3: ").size());
  };
  CHECK(message("{\"body\": \"z\", \"id\": 4}") == "there is no key `text`; the line has: body, id");
  CHECK(message("{\"text\": 5}") == "`text` is a number, not a string");
  CHECK(message("[1, 2]") == "the line holds no JSON object");
  CHECK(message("{\"text\": \"z\"").find("not valid JSON") == 0);
  CHECK(message("{\"text\": \"\xFF\"}").find("not valid JSON") == 0);
}

TEST_CASE("prepare: a set without any text is an error and writes nothing", "[data]") {
  Job job;
  job.input("a.jsonl", "{\"text\": \"\"}\n{\"text\": null}\n");
  job.input("b.txt", "");
  const Error error = job.error();
  CHECK(error.code == ErrorCode::kData);
  CHECK(error.message == "the input holds no text: 2 empty, 0 blank, 1 null were skipped");
  CHECK(std::filesystem::is_empty(job.options.out));
}

TEST_CASE("prepare: byte-order mark and CRLF stay unless asked otherwise", "[data]") {
  Job job;
  job.input("a.txt", "\xEF\xBB\xBFone\r\ntwo\rthree\r\n");
  const auto report = job.run();
  REQUIRE(report);
  CHECK(documents(job.options.out) == Texts{"\xEF\xBB\xBFone\r\ntwo\rthree\r\n$"});
  CHECK(report->texts.with_bom == 1);
  CHECK(report->texts.with_crlf == 1);
  job.options.rules.strip_bom = true;
  job.options.rules.normalize_newlines = true;
  job.options.overwrite = true;
  REQUIRE(job.run());
  CHECK(documents(job.options.out) == Texts{"one\ntwo\nthree\n$"});
}

TEST_CASE("prepare: bytes that are no UTF-8 are kept and counted", "[data]") {
  Job job;
  job.input("a.txt", "ok \xFF ok");
  const auto report = job.run();
  REQUIRE(report);
  CHECK(report->texts.invalid_utf8 == 1);
  CHECK(documents(job.options.out) == Texts{"ok \xFF ok$"});
}

TEST_CASE("prepare: the output does not depend on threads, and large files are cut where it is safe",
          "[data]") {
  std::string text, lines;
  for (int i = 0; i < 400000; ++i)
    text += "word" + std::to_string(i % 977) + (i % 50 == 0 ? "\r\n" : " plain ");
  for (int i = 0; i < 60000; ++i) lines += "{\"text\": \"line number " + std::to_string(i) + " of many\"}\n";
  Job job;
  job.input("a.txt", text);
  job.input("b.jsonl", lines);
  job.options.num_threads = 1;
  REQUIRE(job.run());
  const Texts one = documents(job.options.out);
  REQUIRE(one.size() == 60001);
  CHECK(one[0] == text + "$");
  CHECK(one[60000] == "line number 59999 of many$");
  job.options.num_threads = 7;
  job.options.out = job.dir / "again";
  REQUIRE(job.run());
  CHECK(documents(job.options.out) == one);
}

TEST_CASE("prepare: a validation split gets its own pair", "[data]") {
  Job job;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{\"text\": \"document " + std::to_string(100 + i) + "\"}\n";
  job.input("a.jsonl", lines);
  job.options.valid_fraction = 0.1;
  const auto report = job.run();
  REQUIRE(report);
  REQUIRE(report->splits.size() == 2);
  const Texts train = documents(job.options.out + "/train");
  const Texts valid = documents(job.options.out + "/valid");
  CHECK(train.size() == 90);
  CHECK(valid.size() == 10);
  CHECK(train.back() == "document 189$");
  CHECK(valid.front() == "document 190$");
  CHECK_FALSE(std::filesystem::exists(job.options.out + "/.whole"));
  CHECK(report->splits[1].text_bytes == 120);
}

TEST_CASE("prepare: what is there is not touched without a word", "[data]") {
  Job job;
  job.input("a.txt", "first");
  REQUIRE(job.run());
  const auto again = job.run();
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kUsage);
  CHECK(documents(job.options.out) == Texts{"first$"});
  job.options.overwrite = true;
  std::ofstream(job.options.out + "/other.idx") << "x";
  CHECK_FALSE(job.run());  // the directory would hold two pairs
  std::filesystem::remove(job.options.out + "/other.idx");
  CHECK(job.run());
}

TEST_CASE("prepare: leftovers of a run that was killed do not stop the next", "[data]") {
  Job job;
  job.input("a.txt", "text");
  std::filesystem::create_directory(job.options.out);
  for (const char* name : {"/tokens.bin", "/tokens.idx.tmp", "/tokens.lengths.tmp"})
    std::ofstream(job.options.out + name) << "old";
  REQUIRE(job.run());
  CHECK(documents(job.options.out) == Texts{"text$"});
}

TEST_CASE("prepare: inputs that cannot be read are named before any work", "[data]") {
  Job job;
  job.input("a.txt", "text");
  job.options.inputs.push_back(job.dir / "missing.txt");
  CHECK(job.error().code == ErrorCode::kNotFound);
  job.options.inputs.back() = job.dir.path();
  CHECK(job.error().message == job.dir.path() + ": is a directory");
  job.input("a.parquet", "PAR1");
  job.options.inputs.erase(job.options.inputs.begin() + 1);
  CHECK(job.error().message.find("what `.parquet` files hold is not known") != std::string::npos);
  job.options.inputs.clear();
  CHECK(job.error().code == ErrorCode::kUsage);
  job.input("b.txt", "text");
  job.options.out = job.dir / "b.txt";
  CHECK(job.error().message.find("is no directory") != std::string::npos);
}

TEST_CASE("prepare: the provenance beside the pair can be read back", "[data]") {
  Job job;
  job.input("a.txt", "abab");
  REQUIRE(job.run());
  const auto files = make_posix_filesystem();
  const auto found = read_provenance(*files, job.options.out + "/tokens");
  REQUIRE(found);
  REQUIRE(*found);
  CHECK((*found)->tokenizer == "bytes");
  CHECK((*found)->vocab_size == 257);
  CHECK((*found)->eod_id == 256);
  CHECK((*found)->text_bytes == 4);
  CHECK((*found)->bits_per_token == Approx(0.4 * 2 * 1.32192809 + 0.2 * 2.32192809));
  CHECK_FALSE(*read_provenance(*files, job.dir / "none"));
  std::ofstream(job.options.out + "/tokens.json") << "{\"format\": \"llmtrain-tokens\"}";
  CHECK_FALSE(read_provenance(*files, job.options.out + "/tokens"));
}
