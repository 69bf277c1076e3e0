#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "llmtrain/report/html.hpp"
#include "llmtrain/report/report_text.hpp"

namespace llmtrain {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 240;
constexpr double kLeft = 70;
constexpr double kRight = 12;
constexpr double kTop = 30;
constexpr double kBottom = 32;

// Round numbers that cut [low, high] into about five parts.
struct Axis {
  double low = 0;
  double high = 1;
  double tick = 0.2;

  Axis(double from, double to) {
    if (!(to > from)) {
      const double around = std::max(std::abs(from) * 0.1, 1e-9);
      from -= around;
      to += around;
    }
    const double raw = (to - from) / 5;
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    const double digit = raw / power;
    tick = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
    low = std::floor(from / tick) * tick;
    high = std::ceil(to / tick) * tick;
  }
  double share(double value) const { return (value - low) / (high - low); }
};

std::string number(double value, double tick) {
  if (std::abs(value) < tick / 1e6) return "0";
  const double size = std::abs(value);
  if (size >= 1e5) return fmt::format("{:.4g}", value);
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(tick))), 0, 9);
  return fmt::format("{:.{}f}", value, decimals);
}

struct Frame {
  Axis x;
  Axis y;
  double at_x(double value) const { return kLeft + x.share(value) * (kWidth - kLeft - kRight); }
  double at_y(double value) const { return kHeight - kBottom - y.share(value) * (kHeight - kTop - kBottom); }
};

Frame frame_of(const ThinnedSeries& series, const ThinnedSeries* points) {
  double left = HUGE_VAL, right = -HUGE_VAL, low = HUGE_VAL, high = -HUGE_VAL;
  const auto widen = [&](const ThinnedSeries& of) {
    for (const SeriesPoint& point : of.points()) {
      left = std::min(left, point.x);
      right = std::max(right, point.x);
      low = std::min(low, point.low);
      high = std::max(high, point.high);
    }
  };
  widen(series);
  if (points != nullptr) widen(*points);
  return {Axis(left, right), Axis(low, high)};
}

std::string grid(const Frame& frame) {
  std::string svg;
  const auto count = [](const Axis& axis) {
    return static_cast<int>(std::lround((axis.high - axis.low) / axis.tick));
  };
  for (int i = 0; i <= count(frame.y); ++i) {
    const double value = frame.y.low + i * frame.y.tick;
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.0f}\" x2=\"{1:.0f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"label\" text-anchor=\"end\" x=\"{3:.0f}\" y=\"{4:.1f}\">{5}</text>\n",
        kLeft,
        kWidth - kRight,
        frame.at_y(value),
        kLeft - 8,
        frame.at_y(value) + 4,
        number(value, frame.y.tick));
  }
  for (int i = 0; i <= count(frame.x); ++i) {
    const double value = frame.x.low + i * frame.x.tick;
    svg += fmt::format("<text class=\"label\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>\n",
                       frame.at_x(value),
                       kHeight - kBottom + 18,
                       number(value, frame.x.tick));
  }
  return svg;
}

// One line for each incarnation, and the spread that thinning has hidden as a band behind it.
std::string lines(const Frame& frame, const ThinnedSeries& series) {
  std::string svg;
  const auto& all = series.points();
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin;
    while (end < all.size() && all[end].incarnation == all[begin].incarnation) ++end;
    std::string line, over, under;
    for (std::size_t i = begin; i < end; ++i) {
      const double x = frame.at_x(all[i].x);
      line += fmt::format("{:.1f},{:.1f} ", x, frame.at_y(all[i].mean));
      over += fmt::format("{:.1f},{:.1f} ", x, frame.at_y(all[i].high));
      const SeriesPoint& back = all[end - 1 - (i - begin)];
      under += fmt::format("{:.1f},{:.1f} ", frame.at_x(back.x), frame.at_y(back.low));
    }
    if (all[begin].count > 1) svg += fmt::format("<polygon class=\"band\" points=\"{}{}\"/>\n", over, under);
    if (end - begin == 1)
      svg += fmt::format("<circle class=\"dot\" r=\"2\" cx=\"{:.1f}\" cy=\"{:.1f}\"/>\n",
                         frame.at_x(all[begin].x),
                         frame.at_y(all[begin].mean));
    else
      svg += fmt::format("<polyline class=\"line\" points=\"{}\"/>\n", line);
    begin = end;
  }
  return svg;
}

std::string marks(const Frame& frame, const std::vector<IncidentRecord>& incidents) {
  std::string svg;
  const std::size_t most = 500;
  for (std::size_t i = incidents.size() > most ? incidents.size() - most : 0; i < incidents.size(); ++i) {
    const auto step = static_cast<double>(incidents[i].reached_step);
    if (step < frame.x.low || step > frame.x.high) continue;
    svg += fmt::format(
        "<g class=\"incident\"><title>incident {0}, step {1}: {2}</title>"
        "<line x1=\"{3:.1f}\" x2=\"{3:.1f}\" y1=\"{4:.0f}\" y2=\"{5:.0f}\"/>"
        "<path d=\"M{3:.1f} {5:.0f}l-5 -8h10z\"/></g>\n",
        incidents[i].number,
        incidents[i].reached_step,
        html_text(story(incidents[i])),
        frame.at_x(step),
        kHeight - kBottom,
        kTop);
  }
  return svg;
}

}  // namespace

std::string curve_svg(const PlotLabels& labels,
                      const ThinnedSeries& series,
                      const ThinnedSeries* points,
                      const std::vector<IncidentRecord>& incidents) {
  if (series.points().empty()) return {};
  const Frame frame = frame_of(series, points);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n"
      "<text class=\"title\" x=\"{:.0f}\" y=\"18\">{}</text>"
      "<text class=\"label\" text-anchor=\"end\" x=\"{:.0f}\" y=\"18\">{}</text>\n",
      kWidth,
      kHeight,
      html_text(labels.title),
      kLeft,
      html_text(labels.title),
      kWidth - kRight,
      html_text(labels.unit));
  svg += grid(frame) + lines(frame, series);
  if (points != nullptr)
    for (const SeriesPoint& point : points->points())
      svg += fmt::format("<circle class=\"eval\" r=\"3.5\" cx=\"{:.1f}\" cy=\"{:.1f}\"/>\n",
                         frame.at_x(point.x),
                         frame.at_y(point.mean));
  return svg + marks(frame, incidents) + "</svg>\n";
}

std::string ledger_svg(const LedgerTotals& ledger) {
  const double wall = ledger.wall();
  if (wall <= 0) return {};
  std::string svg =
      fmt::format("<svg viewBox=\"0 0 {:.0f} 60\" role=\"img\" aria-label=\"time ledger\">\n", kWidth);
  double x = 0;
  for (std::size_t i = 0; i < kNumTimeClasses; ++i) {
    const double width = ledger.seconds[i] / wall * kWidth;
    if (width <= 0) continue;
    svg += fmt::format(
        "<rect class=\"c{}\" x=\"{:.2f}\" y=\"6\" width=\"{:.2f}\" height=\"48\"><title>{}: {} ({:.1f} "
        "%)</title></rect>\n",
        i,
        x,
        width,
        description(static_cast<TimeClass>(i)),
        seconds_label(ledger.seconds[i]),
        100 * ledger.seconds[i] / wall);
    x += width;
  }
  return svg + "</svg>\n";
}

}  // namespace llmtrain
