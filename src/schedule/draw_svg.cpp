#include <iterator>

#include <fmt/format.h>

#include "llmtrain/schedule/draw.hpp"

#include "label.hpp"

namespace llmtrain {
namespace {

constexpr int kRowHeight = 28;
constexpr int kLeft = 72;  // room for "stage 12"
constexpr int kTop = 64;   // room for the title and the numbers of time
constexpr int kBottom = 44;
constexpr int kMargin = 16;

struct Look {
  ActionKind kind;
  const char* fill;
  const char* meaning;
};

constexpr Look kLooks[] = {
    {ActionKind::kForward, "#8ecae6", "F forward"},
    {ActionKind::kBackward, "#90be6d", "B backward"},
    {ActionKind::kInputGradient, "#43aa8b", "I input gradient"},
    {ActionKind::kWeightGradient, "#f9c74f", "W weight gradient"},
};

const char* fill_of(ActionKind kind) {
  for (const Look& look : kLooks)
    if (look.kind == kind) return look.fill;
  return "#ffffff";
}

// A path can hold anything; XML cannot.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c < 0x20 || c > 0x7e ? '?' : c;
    }
  }
  return out;
}

class Svg {
 public:
  Svg(const Schedule& schedule, const Timeline& timeline)
      : schedule_(schedule),
        timeline_(timeline),
        unit_(static_cast<std::int64_t>(longest_label(schedule, timeline)) * 8 + 8) {}

  std::string draw() {
    const std::int64_t width = kLeft + std::max<std::int64_t>(timeline_.makespan * unit_, 480) + kMargin;
    const int height = kTop + schedule_.num_stages() * kRowHeight + kBottom;
    put(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
        R"(font-family="sans-serif" font-size="12">)"
        "\n",
        width,
        height);
    put("<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", width, height);
    title();
    for (int stage = 0; stage < schedule_.num_stages(); ++stage) row(stage);
    legend(height - kBottom + 26);
    put("</svg>\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void title() {
    put("<text x=\"{}\" y=\"22\" font-size=\"15\">{}: {} stages, {} micro-batches, {:.1f} % idle</text>\n",
        kMargin,
        escaped(schedule_.name),
        schedule_.num_stages(),
        schedule_.num_micro_batches,
        100 * timeline_.bubble_share());
    for (std::int64_t time = 0; time <= timeline_.makespan; time += 5)
      put("<text x=\"{}\" y=\"{}\" fill=\"#666666\">{}</text>\n", kLeft + time * unit_, kTop - 8, time);
  }

  void row(int stage) {
    const int y = kTop + stage * kRowHeight;
    put("<text x=\"{}\" y=\"{}\">stage {}</text>\n", kMargin, y + 18, stage);
    put("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#eeeeee\"/>\n",
        kLeft,
        y + 1,
        timeline_.makespan * unit_,
        kRowHeight - 2);
    for (const TimedAction& timed : timeline_.stages[static_cast<std::size_t>(stage)])
      action(stage, timed, y);
  }

  // Later chunks are paler, so that their path can be followed.
  void action(int stage, const TimedAction& timed, int y) {
    const int chunks = schedule_.map.num_chunks();
    const double opacity = chunks == 1 ? 1.0 : 1.0 - 0.6 * timed.action.chunk / (chunks - 1);
    const std::int64_t x = kLeft + timed.begin * unit_;
    const std::int64_t width = (timed.end - timed.begin) * unit_;
    put("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>"
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{:.2f}\" "
        "stroke=\"#555555\" stroke-width=\"0.5\"><title>{}, {} to {}</title></rect>",
        x,
        y + 1,
        width,
        kRowHeight - 2,
        x,
        y + 1,
        width,
        kRowHeight - 2,
        fill_of(timed.action.kind),
        opacity,
        schedule_.notation(stage, timed.action),
        timed.begin,
        timed.end);
    put("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        x + width / 2,
        y + 18,
        label_of(schedule_, stage, timed.action));
  }

  void legend(int y) {
    int x = kLeft;
    for (const Look& look : kLooks) {
      put("<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\" stroke=\"#555555\" "
          "stroke-width=\"0.5\"/>"
          "<text x=\"{}\" y=\"{}\">{}</text>\n",
          x,
          y - 11,
          look.fill,
          x + 19,
          y,
          look.meaning);
      x += 140;
    }
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  std::int64_t unit_;  // pixels
  std::string out_;
};

}  // namespace

std::string draw_svg(const Schedule& schedule, const Timeline& timeline) {
  return Svg(schedule, timeline).draw();
}

}  // namespace llmtrain
