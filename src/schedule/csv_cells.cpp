#include "csv_cells.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "llmtrain/schedule/check.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMaxDigits = 6;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// A piece of the file in a message: short, and no control characters of a stranger's making.
std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 24;
  std::string out(text.substr(0, kMost));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.size() > kMost ? out + "..." : out;
}

// Removes the digits at the front of `text`.
std::string_view take_digits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  return digits;
}

std::optional<int> number(std::string_view digits) {
  if (digits.empty() || digits.size() > kMaxDigits) return std::nullopt;
  int value = 0;
  for (const char c : digits) value = 10 * value + (c - '0');
  return value;
}

std::optional<ActionKind> kind_of(std::string_view word) {
  for (const ActionKind kind :
       {ActionKind::kForward, ActionKind::kBackward, ActionKind::kInputGradient, ActionKind::kWeightGradient})
    if (word.size() == 1 && word.front() == letter(kind)) return kind;
  return std::nullopt;
}

// What is wrong with a word that stands where F, B, I or W is expected.
std::string unknown_word(std::string_view word) {
  constexpr std::array<std::string_view, 7> kOfTorch = {
      "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};
  if (std::find(kOfTorch.begin(), kOfTorch.end(), word) != kOfTorch.end())
    return fmt::format("{} is communication, which follows from the order of F, B, I and W; empty the cell",
                       word);
  return fmt::format("unknown action `{}`; known are F, B, I and W", printable(word));
}

// An action, or what is wrong with the cell.
std::variant<CsvAction, std::string> read_cell(std::string_view cell) {
  if (cell.starts_with('('))
    return "a pair that runs at once is not supported; write its two actions into two cells";
  const std::string_view stage_digits = take_digits(cell);
  const std::size_t word_size = std::min(cell.find_first_of("0123456789"), cell.size());
  const std::string_view word = cell.substr(0, word_size);
  cell.remove_prefix(word_size);
  const std::string_view micro_batch_digits = take_digits(cell);
  if (!cell.empty() || stage_digits.empty() || word.empty())
    return "is no action; write virtual stage, F, B, I or W, and micro-batch, as in 2F0";
  const auto kind = kind_of(word);
  if (!kind) return unknown_word(word);
  if (micro_batch_digits.empty()) return "names no micro-batch; write it behind the letter, as in 2F0";
  const auto virtual_stage = number(stage_digits);
  const auto micro_batch = number(micro_batch_digits);
  if (!virtual_stage || !micro_batch) return fmt::format("a number has more than {} digits", kMaxDigits);
  return CsvAction{*virtual_stage, *kind, *micro_batch, 0};
}

// Spreadsheets put quotes around a cell now and then.
std::string_view content(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
    cell = trimmed(cell.substr(1, cell.size() - 2));
  return cell;
}

void read_row(std::string_view line, CsvCells& cells) {
  const int row = static_cast<int>(cells.rows.size());
  auto& actions = cells.rows.emplace_back();
  for (int column = 0; cells.problems.size() < kMaxProblems; ++column) {
    const std::size_t comma = line.find(',');
    const std::string_view cell = content(line.substr(0, comma));
    if (!cell.empty()) {
      auto read = read_cell(cell);
      if (auto* const action = std::get_if<CsvAction>(&read)) {
        action->column = column;
        actions.push_back(*action);
      } else {
        cells.problems.push_back(cell_name(row, column, printable(cell)) + ": " +
                                 std::get<std::string>(read));
      }
    }
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string cell_name(int row, int column, std::string_view what) {
  return fmt::format(
      "row {}, column {}{}", row + 1, column + 1, what.empty() ? "" : fmt::format(" ({})", what));
}

CsvCells read_csv_cells(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  CsvCells cells;
  while (!text.empty() && cells.problems.size() < kMaxProblems) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    read_row(text.substr(0, end), cells);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return cells;
}

}  // namespace llmtrain
