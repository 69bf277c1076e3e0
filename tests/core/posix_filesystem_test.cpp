#include <unistd.h>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/core/filesystem.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using test::TemporaryDirectory;

TEST_CASE("files: written, appended, read at offsets", "[core]") {
  const TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const std::string path = directory / "a file with spaces";
  {
    auto file = files->create(path);
    REQUIRE(file);
    REQUIRE((*file)->append(std::as_bytes(std::span("hello", 5))));
    REQUIRE((*file)->sync());
    REQUIRE((*file)->close());
    auto more = files->append(path);
    REQUIRE(more);
    REQUIRE((*more)->append(std::as_bytes(std::span(" world", 6))));
  }
  CHECK(read_file(*files, path, 100).value() == "hello world");
  CHECK(read_file(*files, path, 10).error().message.find("at most 10") != std::string::npos);
  auto file = files->open(path);
  REQUIRE(file);
  std::string part(8, '?');
  CHECK((*file)->read_at(6, std::as_writable_bytes(std::span(part))).value() == 5);  // short at the end only
  CHECK(part.substr(0, 5) == "world");
  CHECK((*file)->read_at(100, std::as_writable_bytes(std::span(part))).value() == 0);
  CHECK(files->open(directory / "none").error().code == ErrorCode::kNotFound);
  CHECK(files->free_space(directory.path()).value() > 0);
}

TEST_CASE("files: a rename never replaces", "[core]") {
  const TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  REQUIRE(write_file_durably(*files, directory / "a/../one", "1").ok() ==
          false);  // the parent does not exist
  REQUIRE(write_file_durably(*files, directory / "one", "1"));
  REQUIRE(write_file_durably(*files, directory / "two", "2"));
  CHECK(!files->rename_without_replacing(directory / "one", directory / "two").value());
  CHECK(read_file(*files, directory / "two", 10).value() == "2");
  CHECK(files->rename_without_replacing(directory / "one", directory / "three").value());
  CHECK(!files->info(directory / "one").value());
  REQUIRE(files->make_directory(directory / "empty"));
  REQUIRE(files->make_directory(directory / "other"));
  CHECK(!files->rename_without_replacing(directory / "other", directory / "empty").value());
  CHECK(!files->rename_without_replacing(directory / "none", directory / "four"));
}

TEST_CASE(
    "files: directories are made with their parents and removed with their contents, links not followed",
    "[core]") {
  const TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  REQUIRE(make_directories(*files, directory / "x/y/z"));
  REQUIRE(make_directories(*files, directory / "x/y/z"));
  REQUIRE(write_file_durably(*files, directory / "precious", "keep"));
  REQUIRE(files->make_directory(directory / "elsewhere"));
  REQUIRE(write_file_durably(*files, directory / "elsewhere/precious", "keep"));
  REQUIRE(::symlink((directory / "elsewhere").c_str(), (directory / "x/y/link").c_str()) == 0);
  REQUIRE(remove_tree(*files, directory / "x"));
  CHECK(!files->info(directory / "x").value());
  CHECK(read_file(*files, directory / "elsewhere/precious", 10).value() == "keep");
  CHECK(remove_tree(*files, directory / "x"));
  CHECK(!make_directories(*files, directory / "precious"));
}

TEST_CASE("files: paths", "[core]") {
  CHECK(join_path("a", "b") == "a/b");
  CHECK(join_path("a/", "b") == "a/b");
  CHECK(join_path("", "b") == "b");
  CHECK(parent_path("a/b") == "a");
  CHECK(parent_path("a/b//") == "a");
  CHECK(parent_path("/a") == "/");
  CHECK(parent_path("a") == ".");
  CHECK(base_name("a/b/") == "b");
  for (const char* bad : {"", ".", "..", "a/b", "a\\b", "/"}) CHECK(!is_bare_name(bad));
  CHECK(is_bare_name("model-00001-of-00002.safetensors"));
}
