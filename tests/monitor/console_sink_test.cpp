#include "llmtrain/monitor/console_sink.hpp"

#include <cmath>
#include <limits>

#include "llmtrain/monitor/event_text.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

StepReport report(std::int64_t k) {
  return {k, 3.4182, 0.914, 2.4e-4, 1048576, 18432.4, 412.3, 0.38, 31.2, 0, 0};
}

Event started(std::int64_t first, std::int64_t total, double time, int incarnation = 0) {
  return {time, incarnation, RunStarted{"tiny", 2, first, total, "pp1 dp2 sp1 tp1", 1234567, 1, "avx2"}};
}

struct Screen {
  std::string text;
  ConsoleSink::Write writer() {
    return [this](std::string_view part) { text += part; };
  }
};

std::int64_t count(const std::string& text, const std::string& what) {
  std::int64_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("text: the step line is the documented one", "[monitor]") {
  CHECK(step_line(report(120)) ==
        "step=120 loss=3.4182 grad_norm=0.91 lr=2.4e-4 tokens=1.05M tok_s=18432 step_ms=412 mfu=0.38 "
        "mem_gb=31.2");
  StepReport empty;
  empty.step = 1;
  empty.loss = std::numeric_limits<double>::quiet_NaN();
  CHECK(step_line(empty) ==
        "step=1 loss=null grad_norm=null lr=0 tokens=0 tok_s=null step_ms=null mfu=null mem_gb=null");
}

TEST_CASE("text: short numbers", "[monitor]") {
  CHECK(short_count(0) == "0");
  CHECK(short_count(999) == "999");
  CHECK(short_count(1000) == "1.00K");
  CHECK(short_count(999499) == "999K");
  CHECK(short_count(999500) == "1.00M");
  CHECK(short_count(1048576) == "1.05M");
  CHECK(short_count(15'600'000) == "15.6M");
  CHECK(short_count(100'000'000'000) == "100B");
  CHECK(short_count(15'000'000'000'000'000) == "15000T");
  CHECK(short_exponent(3e-4) == "3e-4");
  CHECK(short_exponent(2.376e-4) == "2.38e-4");
  CHECK(short_exponent(0.1) == "1e-1");
  CHECK(short_exponent(1) == "1e0");
  CHECK(short_exponent(0) == "0");
  CHECK(short_duration(59.4) == "59s");
  CHECK(short_duration(192) == "3m12s");
  CHECK(short_duration(5 * 3600 + 7 * 60) == "5h07m");
  CHECK(short_duration(12.125 * 86400) == "12d03h");
  CHECK(short_duration(std::numeric_limits<double>::infinity()) == "?");
}

TEST_CASE("text: nothing in a message can move the cursor or forge a line", "[monitor]") {
  const std::string line = event_line({0, 0, Note{Severity::kError, 2, "bad\n\x1b[2Jstep=1 loss=0"}});
  CHECK(line == "error: rank 2: bad ?[2Jstep=1 loss=0");
}

TEST_CASE("console: without a terminal first, every n-th and last step, and no control characters",
          "[monitor]") {
  Screen screen;
  {
    ConsoleSink sink({.terminal = false, .log_interval = 10, .width = {}}, screen.writer());
    sink.on(started(3, 27, 100));
    for (std::int64_t k = 4; k <= 27; ++k) sink.on({100.0 + static_cast<double>(k), 0, report(k)});
    sink.on({130, 0, CommTotals{}});
    sink.on({130, 0, RunFinished{0, 27, "done"}});
  }
  CHECK(count(screen.text, "step=") == 4);
  for (const char* k : {"step=4 ", "step=10 ", "step=20 ", "step=27 "}) CHECK(count(screen.text, k) == 1);
  CHECK(count(screen.text, "\n") == 6);
  for (const char c : screen.text) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
  CHECK(screen.text.ends_with("finished at step 27: done (exit code 0)\n"));
}

TEST_CASE("console: a skipped step is said once", "[monitor]") {
  Screen screen;
  ConsoleSink sink({.terminal = false, .log_interval = 100, .width = {}}, screen.writer());
  StepReport skipped = report(5);
  skipped.skipped = 1;
  sink.on({1, 0, report(4)});
  sink.on({2, 0, skipped});
  skipped.step = 6;
  sink.on({3, 0, skipped});
  CHECK(count(screen.text, "warning: step 5 was skipped") == 1);
  CHECK(count(screen.text, "was skipped") == 1);
}

TEST_CASE("console: on a terminal the bar is one line that never wraps and gives way to messages",
          "[monitor]") {
  Screen screen;
  int columns = 100;
  ConsoleSink sink({.terminal = true, .log_interval = 1, .width = [&] { return columns; }}, screen.writer());
  sink.on(started(0, 100, 0));
  screen.text.clear();
  sink.on({1, 0, report(1)});
  CHECK(screen.text ==
        "\r\x1b[2K[                                       ]   1% step 1/100 loss 3.4182 tok/s 18.4K mfu 0.38 "
        "left 41s");
  screen.text.clear();
  sink.on({1.01, 0, report(2)});
  CHECK(screen.text.empty());  // not more often than the eye can see
  sink.on({2, 0, Restarted{1, 10, "rank 1 ended"}});
  CHECK(screen.text.starts_with("\r\x1b[2K\x1b[33mrestart 1 of at most 10: rank 1 ended\x1b[0m\n["));
  for (columns = 10; columns < 130; ++columns) {
    screen.text.clear();
    sink.on({static_cast<double>(columns), 0, report(50)});
    CHECK(static_cast<int>(screen.text.size()) - 5 < std::max(columns, 20));
  }
}

TEST_CASE("progress: a resume counts its own steps and its own time only", "[monitor]") {
  Progress progress;
  progress.on(started(0, 60, 1000));
  for (int k = 1; k <= 50; ++k) progress.on({1000.0 + 2 * k, 0, report(k)});
  CHECK(progress.seconds_per_step() == 2.0);
  CHECK(progress.seconds_left() == 20.0);
  // Hours later the run goes on at step 50.
  progress.on(started(50, 60, 90000, 1));
  CHECK_FALSE(progress.seconds_left());
  StepReport first = report(51);
  first.step_ms = 2000;
  progress.on({90002, 1, first});
  CHECK(progress.seconds_left() == 18.0);
  for (int k = 52; k <= 60; ++k) {
    progress.on({90000.0 + 2 * (k - 50), 1, report(k)});
    CHECK(progress.seconds_per_step() == 2.0);
    CHECK(progress.seconds_left() == 2.0 * (60 - k));
  }
  CHECK(progress.fraction() == 1.0);
}

TEST_CASE("progress: a rollback and a clock set back do no harm", "[monitor]") {
  Progress progress;
  progress.on(started(0, 100, 0));
  progress.on({10, 0, report(10)});
  progress.on({20, 0, report(5)});  // replayed
  progress.on({21, 0, report(6)});
  CHECK(progress.seconds_per_step() == 1.0);
  progress.on({-50, 0, report(7)});
  CHECK(progress.seconds_per_step() == Approx(0.4123));
}
