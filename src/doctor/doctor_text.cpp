#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/doctor/judge.hpp"

namespace llmtrain {

std::string doctor_text(const HostFacts& facts, const std::vector<Check>& checks) {
  std::string text = fmt::format("host {}\n", facts.host_name);
  for (const Check& check : checks) {
    text += fmt::format("{:<8} {:<14} {}\n", to_string(check.health), check.name, check.found);
    if (!check.advice.empty()) text += fmt::format("{:<8} {:<14} -> {}\n", "", "", check.advice);
  }
  return text;
}

std::string doctor_json(const HostFacts& facts, const std::vector<Check>& checks) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const Check& check : checks)
    rows.push_back({{"check", check.name},
                    {"verdict", to_string(check.health)},
                    {"found", check.found},
                    {"advice", check.advice}});
  const Json root = {
      {"schema", 1}, {"host", facts.host_name}, {"healthy", healthy(checks)}, {"checks", rows}};
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain
