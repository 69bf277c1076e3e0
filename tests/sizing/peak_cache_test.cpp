#include "llmtrain/sizing/peak_cache.hpp"

#include <filesystem>
#include <fstream>
#include <limits>

#include <unistd.h>

#include "tests/support/catch.hpp"

using namespace llmtrain;
namespace fs = std::filesystem;

namespace {

struct TempDir {
  fs::path path = fs::temp_directory_path() / ("llmtrain peak " + std::to_string(::getpid()));
  TempDir() { fs::create_directories(path); }
  ~TempDir() { fs::remove_all(path); }
};

}  // namespace

TEST_CASE("peak cache: remembers by host, instruction set, type and threads", "[sizing]") {
  TempDir dir;
  const std::string path = dir.path / "peak.json";
  const auto files = make_posix_filesystem();
  const PeakKey key{"node1", "avx2", DType::kFp32, 2};
  CHECK_FALSE(load_peak(*files, path, key));
  REQUIRE(store_peak(*files, path, key, 1.25e11));
  PeakKey other = key;
  other.threads = 4;
  REQUIRE(store_peak(*files, path, other, 2.5e11));
  CHECK(load_peak(*files, path, key) == 1.25e11);
  CHECK(load_peak(*files, path, other) == 2.5e11);
  REQUIRE(store_peak(*files, path, key, 1.5e11));  // replaced, the other stays
  CHECK(load_peak(*files, path, key) == 1.5e11);
  CHECK(load_peak(*files, path, other) == 2.5e11);
  for (PeakKey miss : {PeakKey{"node2", "avx2", DType::kFp32, 2},
                       PeakKey{"node1", "avx512", DType::kFp32, 2},
                       PeakKey{"node1", "avx2", DType::kBf16, 2},
                       PeakKey{"node1", "avx2", DType::kFp32, 1}})
    CHECK_FALSE(load_peak(*files, path, miss));
}

TEST_CASE("peak cache: a damaged file counts as empty and is replaced", "[sizing]") {
  TempDir dir;
  const std::string path = dir.path / "peak.json";
  const auto files = make_posix_filesystem();
  const PeakKey key{"node1", "avx2", DType::kFp64, 1};
  const std::string text = GENERATE(
      "",
      "{",
      "[]",
      R"({"peaks":{}})",
      R"({"peaks":[1,{"host":"node1"}]})",
      R"({"peaks":[{"host":"node1","cpu":"avx2","dtype":"fp64","threads":1}]})",
      R"({"peaks":[{"host":"node1","cpu":"avx2","dtype":"fp64","threads":1,"flops_per_second":"1"}]})",
      R"({"peaks":[{"host":"node1","cpu":"avx2","dtype":"fp64","threads":1,"flops_per_second":-1}]})");
  std::ofstream(path) << text;
  CHECK_FALSE(load_peak(*files, path, key));
  REQUIRE(store_peak(*files, path, key, 1e9));
  CHECK(load_peak(*files, path, key) == 1e9);
}

TEST_CASE("peak cache: nonsense is not stored, and a missing directory is an error", "[sizing]") {
  TempDir dir;
  const auto files = make_posix_filesystem();
  const PeakKey key{"node1", "avx2", DType::kFp32, 1};
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_FALSE(store_peak(*files, dir.path / "peak.json", key, bad));
  CHECK_FALSE(fs::exists(dir.path / "peak.json"));
  CHECK_FALSE(store_peak(*files, dir.path / "no" / "peak.json", key, 1e9));
}
