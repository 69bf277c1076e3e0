#include "llmtrain/schedule/csv.hpp"

#include "llmtrain/core/file_operations.hpp"

#include "schedule_support.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// The message without the name of the file in front and the hint behind.
std::string refusal(std::string_view text) {
  const auto schedule = parse_schedule_csv(text, "s.csv");
  REQUIRE_FALSE(schedule);
  CHECK(schedule.error().code == ErrorCode::kInvalidSpec);
  CHECK(schedule.error().message.starts_with("s.csv: "));
  CHECK(schedule.error().hint.find("docs/SCHEDULES.md") != std::string::npos);
  return schedule.error().message.substr(7);
}

constexpr std::string_view kPlain = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";

}  // namespace

TEST_CASE("csv: a schedule as torch.distributed.pipelining writes it, with empty cells where a stage waits") {
  const auto schedule = parse_schedule_csv("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n", "s.csv");
  REQUIRE(schedule);
  CHECK(schedule->name == "s.csv");
  CHECK(schedule->num_stages() == 2);
  CHECK(schedule->num_micro_batches == 2);
  CHECK(to_csv(*schedule) == kPlain);
}

TEST_CASE("csv: byte-order mark, blanks, quotes, and lines at the end change nothing") {
  const auto schedule =
      parse_schedule_csv("\xef\xbb\xbf 0F0 ,\"0F1\",\t0B0,0B1\n1F0,1B0,\" 1F1\",1B1,\r\n\r\n\n", "s.csv");
  REQUIRE(schedule);
  CHECK(to_csv(*schedule) == kPlain);
  CHECK(parse_schedule_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", "s.csv"));
}

TEST_CASE("csv: the rows decide which stage holds what") {
  const auto schedule = parse_schedule_csv("1F0,1B0,2F0,2I0,2W0\n0F0,0B0\n", "s.csv");
  REQUIRE_FALSE(schedule);  // 2 and 1 virtual stages
  const auto vee = parse_schedule_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2I0,1I0,2W0,1W0\n", "s.csv");
  REQUIRE(vee);
  CHECK(vee->map.virtual_stages(0) == std::vector{0, 3});
  CHECK(vee->map.site(2) == Site{1, 1});
}

TEST_CASE("csv: what is written is read back equal, for every schedule") {
  for_each_schedule([](const Schedule& schedule) {
    const std::string text = to_csv(schedule);
    const auto again = parse_schedule_csv(text, schedule.name);
    if (!again) FAIL(to_string(again.error()));
    REQUIRE(again->programs == schedule.programs);
    REQUIRE(again->num_micro_batches == schedule.num_micro_batches);
    for (int stage = 0; stage < schedule.num_stages(); ++stage)
      REQUIRE(again->map.virtual_stages(stage) == schedule.map.virtual_stages(stage));
  });
}

TEST_CASE("csv: a cell that is no action is named") {
  CHECK(refusal("0F0,0X0\n") == "row 1, column 2 (0X0): unknown action `X`; known are F, B, I and W");
  CHECK(refusal("0F0,,0f0\n") == "row 1, column 3 (0f0): unknown action `f`; known are F, B, I and W");
  const std::string form = ": is no action; write virtual stage, F, B, I or W, and micro-batch, as in 2F0";
  CHECK(refusal("0F0\nhello\n") == "row 2, column 1 (hello)" + form);
  CHECK(refusal("F0\n") == "row 1, column 1 (F0)" + form);
  CHECK(refusal("0F0 0B0\n") == "row 1, column 1 (0F0 0B0)" + form);
  CHECK(refusal("-1F0\n") == "row 1, column 1 (-1F0)" + form);
  CHECK(refusal("17\n") == "row 1, column 1 (17)" + form);
  CHECK(refusal("0F\n") ==
        "row 1, column 1 (0F): names no micro-batch; write it behind the letter, as in 2F0");
  CHECK(refusal("0F1234567\n") == "row 1, column 1 (0F1234567): a number has more than 6 digits");
  CHECK(refusal("0SEND_F0\n") ==
        "row 1, column 1 (0SEND_F0): SEND_F is communication, which follows from the order of F, B, I and W; "
        "empty "
        "the cell");
  CHECK(refusal("0UNSHARD\n").find("UNSHARD is communication") != std::string::npos);
  CHECK(refusal("(0F0;1B0)OVERLAP_F_B\n") ==
        "row 1, column 1 ((0F0;1B0)OVERLAP_F_B): a pair that runs at once is not supported; write its two "
        "actions "
        "into two cells");
}

TEST_CASE("csv: bytes of a stranger do not reach the message") {
  const std::string text = refusal("0F0,\x1b[31m\x80\xffzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\n");
  CHECK(text.find("row 1, column 2 (?[31m??zzzzzzzzzzzzzzzzz...): ") == 0);
}

TEST_CASE("csv: a forgotten micro-batch is named by its cell, or by the row that lacks it") {
  CHECK(refusal("0F0,0F1,0B0,0B1\n1F0,1B0\n") ==
        "row 2: 1F1 and its backward are missing; row 1, column 2 (0F1) has this micro-batch");
  CHECK(refusal("0F0,0F1,0B0,0B1\n1F0,,1B0,1F1\n") ==
        "row 2, column 4 (1F1): its backward is missing: 1B1, or 1I1 and 1W1");
  CHECK(refusal("0F0,0F1,0B0,0I1\n1F0,1B0,1F1,1B1\n") ==
        "row 1, column 4 (0I1): its weight gradient 0W1 is missing");
  CHECK(refusal("0F0,0B0,0F2,0B2\n") == "row 1: 0F1 and its backward are missing");
}

TEST_CASE("csv: a deadlock is named by its cells") {
  CHECK(refusal("0F0,,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
        "deadlock: row 1, column 3 (0B0) waits for 1B0, and row 2, column 2 (1F1) waits for 0F1");
}

TEST_CASE("csv: messages out of order are named by their cells") {
  CHECK(refusal("0F0,0F1,0B1,0B0\n1F0,1F1,1B0,1B1\n") ==
        "row 1, column 3 (0B1): out of order: the next gradient from stage 1 to stage 0 is that of row 2, "
        "column 3 "
        "(1B0); messages keep their order");
}

TEST_CASE("csv: rows that are no pipeline are refused") {
  CHECK(refusal("") == "no action in it");
  CHECK(refusal("\n\n") == "no action in it");
  CHECK(refusal(",,\n,") == "no action in it");
  CHECK(refusal("0F0,0B0\n0F1,0B1\n")
            .find("row 2, column 1 (0F1): virtual stage 0 is on another row already, at "
                  "row 1, column 1 (0F0)") != std::string::npos);
  CHECK(refusal("0F0,0B0\n2F0,2B0\n") == "row 2, column 1 (2F0): there is no virtual stage 1 before it");
  CHECK(refusal("0F0,0B0\n\n1F0,1B0\n") ==
        "row 2: names 0 virtual stages, row 1 names 1; a row is a stage, and all stages hold equally many");
}

TEST_CASE("csv: all problems of a kind are told at once, up to ten") {
  const std::string text = refusal("0F0,x,y,0F0\nz\n");
  CHECK(text.starts_with("3 problems\n  row 1, column 2 (x): "));
  CHECK(text.find("\n  row 2, column 1 (z): ") != std::string::npos);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "?,";
  CHECK(refusal(many).starts_with("10 problems"));
}

TEST_CASE("csv: a huge number costs nothing") {
  CHECK(refusal("0F999999\n").find("0F0 and its backward are missing") != std::string::npos);
  CHECK(refusal("999999F0\n") == "row 1, column 1 (999999F0): there is no virtual stage 0 before it");
}

TEST_CASE("csv: a file must agree with what is known of the job") {
  MemoryFileSystem files;
  REQUIRE(write_file_durably(files, "s.csv", kPlain));
  REQUIRE(load_schedule_csv(files, "s.csv", {}));
  REQUIRE(load_schedule_csv(files, "s.csv", {2, 2, 1}));
  const auto message = [&](const ExpectedNumbers& expected) {
    return to_string(load_schedule_csv(files, "s.csv", expected).error());
  };
  CHECK(message({4, {}, {}}) == "s.csv is a schedule for pp = 2, not 4; pp = 2 fits it");
  CHECK(message({2, 8, {}}) == "s.csv is a schedule for micro-batches = 2, not 8; micro-batches = 2 fits it");
  CHECK(message({{}, {}, 2}) ==
        "s.csv is a schedule for virtual_stages = 1, not 2; virtual_stages = 1 fits it");
  CHECK_FALSE(load_schedule_csv(files, "none.csv", {}));
  REQUIRE(write_file_durably(files, "large.csv", std::string(kMaxScheduleCsvBytes + 1, ',')));
  CHECK_FALSE(load_schedule_csv(files, "large.csv", {}));
  CHECK(is_schedule_file("a/b.csv"));
  CHECK_FALSE(is_schedule_file("1f1b"));
}
