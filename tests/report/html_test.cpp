#include "llmtrain/report/html.hpp"

#include "run_files.hpp"

using namespace llmtrain;

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("html text: markup, quotes, control characters and broken UTF-8", "[report]") {
  CHECK(html_text("<a href=\"x\">&'") == "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  CHECK(html_text("a\nb\tc") == "a b c");
  CHECK(html_text("\x1b[31m") == "\xEF\xBF\xBD[31m");
  CHECK(html_text("gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80") == "gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80");
  CHECK(html_text("\xFFx\xC3") == "\xEF\xBF\xBDx\xEF\xBF\xBD");
  CHECK(html_text("\xC0\xBC") == "\xEF\xBF\xBD\xEF\xBF\xBD");  // an overlong `<`
  CHECK(html_text("\xED\xA0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(html_text(std::string_view("\0", 1)) == "\xEF\xBF\xBD");
}

TEST_CASE("html: hostile names stay text, and nothing is asked of anybody", "[report]") {
  const std::string evil = "<script>alert(1)</script><img src=x onerror=a()>";
  test::RunFiles files;
  files.event(
      "run_started",
      0,
      1000,
      fmt::format(R"("run":"{0}","world_size":2,"first_step":0,"total_steps":20,"layout":"{0}")", evil));
  for (int i = 1; i < 9; ++i) files.step(i, 0, 1000 + i);
  files.event("checkpoint_rejected", 0, 1009, fmt::format(R"("path":"{0}","reason":"{0}")", evil));
  files.event("stop_requested", 0, 1010, fmt::format(R"("signal":"{0}")", evil));
  files.event("run_finished", 0, 1011, fmt::format(R"("code":1,"step":8,"reason":"{0}")", evil));
  files.put(
      "incidents/incident-0.json",
      fmt::format(R"({{"incident":0,"incarnation":0,"time":1008.5,"summary":"{0}","action":"{0}"}})", evil));
  RunHistory history = files.history();
  history.run_dir = evil;
  const std::string page = report_html(history);
  CHECK(count(page, "<script") == 0);
  CHECK(count(page, "<img") == 0);
  CHECK(count(page, "&lt;script&gt;") >= 9);
  CHECK(count(page, "http://") + count(page, "https://") + count(page, "src=x onerror") ==
        count(page, "&lt;img src=x onerror"));
  CHECK(page.find("default-src 'none'") != std::string::npos);
}

TEST_CASE("html: every element is closed", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.step(1, 0, 1002);
  files.event("eval", 0, 1003, R"("step":1,"loss":3.5)");
  files.put("incidents/incident-0.json", R"({"incident":0,"incarnation":0,"time":1004,"summary":"s"})");
  const std::string page = report_html(files.history());
  for (const char* tag :
       {"svg", "table", "tr",    "td",   "th",    "div",  "p",    "dl",   "dt",   "dd",  "h1",
        "h2",  "g",     "title", "text", "style", "head", "body", "html", "span", "code"}) {
    INFO(tag);
    CHECK(count(page, fmt::format("<{}>", tag)) + count(page, fmt::format("<{} ", tag)) ==
          count(page, fmt::format("</{}>", tag)));
  }
  CHECK(count(page, "class=\"eval\"") == 1);
  CHECK(count(page, "class=\"incident\"") == 2);  // in both curves
}

TEST_CASE("html: curves of one value, of the same value and of huge values have axes", "[report]") {
  for (const double value : {0.0, 5.0, -3.0, 1e300, 1e-300}) {
    ThinnedSeries series;
    series.add(7, value, 0);
    const std::string one = curve_svg({"t", "u"}, series, nullptr, {});
    series.add(8, value, 0);
    const std::string two = curve_svg({"t", "u"}, series, nullptr, {});
    for (const std::string& svg : {one, two}) {
      CHECK(svg.find("nan") == std::string::npos);
      CHECK(svg.find("inf") == std::string::npos);
      CHECK(svg.size() < 20'000);
    }
  }
  CHECK(curve_svg({"t", "u"}, ThinnedSeries(), nullptr, {}).empty());
}
