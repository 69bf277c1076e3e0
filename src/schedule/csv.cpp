#include "llmtrain/schedule/csv.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/schedule/check.hpp"

#include "csv_cells.hpp"

namespace llmtrain {
namespace {

using Rows = std::vector<std::vector<CsvAction>>;

std::string name_of(int row, const CsvAction& action) {
  return cell_name(row, action.column, notation(action.virtual_stage, action.kind, action.micro_batch));
}

Error refuse(const std::string& name, const std::vector<std::string>& problems) {
  constexpr const char* kHint =
      "docs/SCHEDULES.md describes the format; `llmtrain schedule show --csv` writes it";
  if (problems.size() == 1) return {ErrorCode::kInvalidSpec, name + ": " + problems.front(), kHint};
  return {ErrorCode::kInvalidSpec,
          fmt::format("{}: {} problems\n  {}\n", name, problems.size(), fmt::join(problems, "\n  ")),
          kHint};
}

struct Owner {
  int row = 0;
  CsvAction first;  // the cell that claims the virtual stage
};

// Which row holds which virtual stage; a second row that names one is a problem.
std::map<int, Owner> owners_of(const Rows& rows, std::vector<std::string>& problems) {
  std::map<int, Owner> owners;
  for (int row = 0; row < static_cast<int>(rows.size()); ++row) {
    for (const CsvAction& action : rows[static_cast<std::size_t>(row)]) {
      const auto [owner, added] = owners.try_emplace(action.virtual_stage, Owner{row, action});
      if (added || owner->second.row == row || problems.size() >= kMaxProblems) continue;
      problems.push_back(fmt::format("{}: virtual stage {} is on another row already, at {}",
                                     name_of(row, action),
                                     action.virtual_stage,
                                     name_of(owner->second.row, owner->second.first)));
    }
  }
  return owners;
}

// The virtual stages count up from 0 without a gap, and every row holds equally many.
std::vector<int> stage_of_virtual_stages(const Rows& rows, std::vector<std::string>& problems) {
  std::vector<int> stage_of;
  std::vector<int> held(rows.size(), 0);
  for (const auto& [virtual_stage, owner] : owners_of(rows, problems)) {
    if (virtual_stage != static_cast<int>(stage_of.size())) {
      problems.push_back(fmt::format(
          "{}: there is no virtual stage {} before it", name_of(owner.row, owner.first), stage_of.size()));
      return {};
    }
    stage_of.push_back(owner.row);
    ++held[static_cast<std::size_t>(owner.row)];
  }
  for (std::size_t row = 0; row < rows.size(); ++row)
    if (held[row] != held[0] && problems.size() < kMaxProblems)
      problems.push_back(
          fmt::format("row {}: names {} virtual stages, row 1 names {}; a row is a stage, and all "
                      "stages hold equally many",
                      row + 1,
                      held[row],
                      held[0]));
  return stage_of;
}

Schedule to_schedule(const Rows& rows, const std::vector<int>& stage_of, const std::string& name) {
  Schedule schedule{name, 0, StageMap(stage_of), {}};
  for (const auto& row : rows) {
    auto& program = schedule.programs.emplace_back();
    for (const CsvAction& action : row) {
      program.push_back({action.kind, schedule.map.site(action.virtual_stage).chunk, action.micro_batch});
      schedule.num_micro_batches = std::max(schedule.num_micro_batches, action.micro_batch + 1);
    }
  }
  return schedule;
}

}  // namespace

Result<Schedule> parse_schedule_csv(std::string_view text, const std::string& name) {
  auto [rows, problems] = read_csv_cells(text);
  if (!problems.empty()) return refuse(name, problems);
  const std::vector<int> stage_of = stage_of_virtual_stages(rows, problems);
  if (!problems.empty()) return refuse(name, problems);
  if (stage_of.empty()) return refuse(name, {"no action in it"});

  Schedule schedule = to_schedule(rows, stage_of, name);
  const auto place = [&rows = rows](int stage, int index) {
    if (index < 0) return fmt::format("row {}", stage + 1);
    return name_of(stage, rows[static_cast<std::size_t>(stage)][static_cast<std::size_t>(index)]);
  };
  problems = check(schedule, place);
  if (!problems.empty()) return refuse(name, problems);
  return schedule;
}

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    const char* separator = "";
    for (const Action& action : schedule.program(stage)) {
      text += separator + schedule.notation(stage, action);
      separator = ",";
    }
    text += '\n';
  }
  return text;
}

bool is_schedule_file(std::string_view schedule) {
  return schedule.ends_with(".csv");
}

Result<Schedule> load_schedule_csv(FileSystem& files,
                                   const std::string& path,
                                   const ExpectedNumbers& expected) {
  LLMTRAIN_ASSIGN(text, read_file(files, path, kMaxScheduleCsvBytes));
  LLMTRAIN_ASSIGN(schedule, parse_schedule_csv(text, path));
  const auto differs = [&](const char* what, const std::optional<int>& wanted, int found) -> Status {
    if (!wanted || *wanted == found) return ok_status();
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("{} is a schedule for {} = {}, not {}", path, what, found, *wanted),
                 fmt::format("{} = {} fits it", what, found)};
  };
  LLMTRAIN_TRY(differs("pp", expected.pp, schedule.num_stages()));
  LLMTRAIN_TRY(differs("micro-batches", expected.micro_batches, schedule.num_micro_batches));
  LLMTRAIN_TRY(differs("virtual_stages", expected.virtual_stages, schedule.map.num_chunks()));
  return schedule;
}

}  // namespace llmtrain
