#include "llmtrain/diagnosis/worker_reports.hpp"

#include <algorithm>
#include <regex>

namespace llmtrain {
namespace {

constexpr std::size_t kMaxText = 4096;  // std::regex recurses over what it matches

// A number from outside: ranks have at most nine digits here.
int number(const std::string& digits) {
  return std::stoi(digits.substr(0, 9));
}

}  // namespace

std::set<int> missing_ranks(const std::string& text) {
  std::set<int> ranks;
  static const std::string kMark = "did not arrive: rank";
  const auto at = text.find(kMark);
  if (at == std::string::npos) return ranks;
  const std::string rest = text.substr(at + kMark.size(), 512);
  for (std::size_t i = 0; i < rest.size();) {
    if (std::isdigit(static_cast<unsigned char>(rest[i])) != 0) {
      std::size_t end = i;
      while (end < rest.size() && std::isdigit(static_cast<unsigned char>(rest[end])) != 0) ++end;
      ranks.insert(number(rest.substr(i, end - i)));
      i = end;
    } else if (rest[i] == ' ' || rest[i] == ',' || (i == 0 && rest[i] == 's')) {
      ++i;
    } else {
      break;
    }
  }
  return ranks;
}

std::optional<Disagreement> find_disagreement(const std::vector<WorkerReport>& reports) {
  // comm/call_check.cpp writes these two sentences.
  static const std::regex kCall(
      R"(ranks of group (\S+) disagree in call #(\d+): rank (\d+) calls (.*), rank (\d+) calls ([^\n]*))");
  static const std::regex kMessage(
      R"(message #(\d+) of group (\S+): rank (\d+) sends (.*) to rank (\d+), which expects ([^\n]*))");
  Disagreement found;
  for (const WorkerReport& report : reports) {
    const std::string text = report.text.substr(0, kMaxText);
    std::smatch match;
    if (!std::regex_search(text, match, kCall) && !std::regex_search(text, match, kMessage)) continue;
    if (found.text.empty()) found.text = match.str(0);
    found.calls[number(match.str(3))] = match.str(4);
    found.calls[number(match.str(5))] = match.str(6);
  }
  if (found.text.empty()) return std::nullopt;
  return found;
}

std::vector<int> minority(const std::map<int, std::string>& calls) {
  std::map<std::string, std::vector<int>> callers;
  for (const auto& [rank, call] : calls) callers[call].push_back(rank);
  std::size_t most = 0;
  std::size_t fewest = calls.size();
  for (const auto& [call, ranks] : callers) {
    most = std::max(most, ranks.size());
    fewest = std::min(fewest, ranks.size());
  }
  std::vector<int> result;
  for (const auto& [call, ranks] : callers)
    if (fewest == most || ranks.size() < most) result.insert(result.end(), ranks.begin(), ranks.end());
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace llmtrain
