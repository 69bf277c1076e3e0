#include <memory>
#include <numeric>
#include <optional>

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/schedule/csv.hpp"
#include "llmtrain/schedule/draw.hpp"
#include "llmtrain/schedule/flow.hpp"
#include "llmtrain/schedule/generate.hpp"
#include "llmtrain/schedule/in_flight.hpp"
#include "llmtrain/schedule/timeline.hpp"

#include "commands.hpp"
#include "job_arguments.hpp"

// `llmtrain schedule show`: what a pipeline schedule does, before a job is run with it.
namespace llmtrain::cli {
namespace {

struct ScheduleOptions {
  std::string schedule;
  ExpectedNumbers numbers;  // for a file: what it must state
  std::string svg;
  std::string csv;
  bool json = false;
};

Result<Schedule> find_schedule(FileSystem& files, const ScheduleOptions& options) {
  const ExpectedNumbers& numbers = options.numbers;
  if (is_schedule_file(options.schedule)) return load_schedule_csv(files, options.schedule, numbers);
  if (!numbers.pp || !numbers.micro_batches)
    return Error{ErrorCode::kUsage,
                 fmt::format("--schedule {} needs --pp and --micro-batches", options.schedule),
                 "only a .csv file states them itself"};
  return generate({options.schedule, *numbers.pp, *numbers.micro_batches, numbers.virtual_stages});
}

std::vector<int> peaks_of(const std::vector<InFlight>& kept) {
  std::vector<int> peaks;
  for (const InFlight& stage : kept) peaks.push_back(stage.peak);
  return peaks;
}

std::size_t num_messages(const Schedule& schedule) {
  std::size_t count = 0;
  for (const auto& [link, traffic] : link_traffic(schedule)) count += traffic.sent.size();
  return count;
}

nlohmann::ordered_json stage_json(const Schedule& schedule,
                                  const Timeline& timeline,
                                  const InFlight& kept,
                                  int stage) {
  nlohmann::ordered_json actions = nlohmann::ordered_json::array();
  for (const TimedAction& timed : timeline.stages[static_cast<std::size_t>(stage)])
    actions.push_back(
        {{"action", schedule.notation(stage, timed.action)}, {"begin", timed.begin}, {"end", timed.end}});
  return {{"stage", stage},
          {"virtual_stages", schedule.map.virtual_stages(stage)},
          {"idle", timeline.idle(stage)},
          {"peak_in_flight", kept.peak},
          {"peak_by_virtual_stage", kept.by_chunk},
          {"peak_deferred", kept.peak_deferred},
          {"actions", std::move(actions)}};
}

void print_schedule_json(const Schedule& schedule, const Timeline& timeline) {
  const Costs costs;
  const std::vector<InFlight> kept = in_flight(schedule);
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (int stage = 0; stage < schedule.num_stages(); ++stage)
    stages.push_back(stage_json(schedule, timeline, kept[static_cast<std::size_t>(stage)], stage));
  const nlohmann::ordered_json root = {{"schedule", schedule.name},
                                       {"pp", schedule.num_stages()},
                                       {"virtual_stages", schedule.map.num_chunks()},
                                       {"micro_batches", schedule.num_micro_batches},
                                       {"costs",
                                        {{"forward", costs.forward},
                                         {"input_gradient", costs.input_gradient},
                                         {"weight_gradient", costs.weight_gradient}}},
                                       {"makespan", timeline.makespan},
                                       {"idle", timeline.idle()},
                                       {"bubble_share", timeline.bubble_share()},
                                       {"peak_in_flight", peaks_of(kept)},
                                       {"messages", num_messages(schedule)},
                                       {"stages", std::move(stages)}};
  fmt::print("{}\n", root.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// "3/11"
std::string share_text(std::int64_t part, std::int64_t whole) {
  const std::int64_t divisor = std::max<std::int64_t>(1, std::gcd(part, whole));
  return fmt::format("{}/{}", part / divisor, whole / divisor);
}

void print_schedule_text(const Schedule& schedule, const Timeline& timeline) {
  const int num_chunks = schedule.map.num_chunks();
  winsize size{};
  const bool terminal = ::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  fmt::print("{}: {} stages{}, {} micro-batches\n\n",
             schedule.name,
             schedule.num_stages(),
             num_chunks > 1 ? fmt::format(" of {} virtual stages", num_chunks) : "",
             schedule.num_micro_batches);
  fmt::print("{}\n", draw_text(schedule, timeline, terminal ? size.ws_col : 0));
  fmt::print("makespan        {} units of a forward\n", timeline.makespan);
  fmt::print("bubble share    {:.4f} ({})\n",
             timeline.bubble_share(),
             share_text(timeline.idle(), timeline.makespan * schedule.num_stages()));
  fmt::print("peak in flight  {}{}\n",
             fmt::join(peaks_of(in_flight(schedule)), " "),
             num_chunks > 1 ? fmt::format(" (each 1/{} of a stage's layers)", num_chunks) : "");
}

Status show(const ScheduleOptions& options) {
  const auto files = make_posix_filesystem();
  LLMTRAIN_ASSIGN(schedule, find_schedule(*files, options));
  const Timeline timeline = simulate(schedule);
  if (!options.svg.empty())
    LLMTRAIN_TRY(write_file_durably(*files, options.svg, draw_svg(schedule, timeline)));
  if (!options.csv.empty()) LLMTRAIN_TRY(write_file_durably(*files, options.csv, to_csv(schedule)));
  if (options.json)
    print_schedule_json(schedule, timeline);
  else
    print_schedule_text(schedule, timeline);
  return ok_status();
}

int run_schedule_show(const ScheduleOptions& options) {
  const Status status = show(options);
  return status ? to_int(ExitCode::kDone) : report_error("schedule show", status.error());
}

}  // namespace

void add_schedule(CLI::App& app, Runner& run) {
  auto* const group = app.add_subcommand("schedule", "Look at pipeline schedules");
  group->require_subcommand(1);
  auto* const command =
      group->add_subcommand("show",
                            "Draw a pipeline schedule and say how long it idles and what it keeps in memory, "
                            "when a forward, an input\n"
                            "gradient and a weight gradient take one unit of time each and messages none\n"
                            "Example: llmtrain schedule show --schedule 1f1b --pp 4 --micro-batches 8");
  auto options = std::make_shared<ScheduleOptions>();
  command
      ->add_option("--schedule",
                   options->schedule,
                   fmt::format("{}, or the path of a .csv file", fmt::join(schedule_names(), ", ")))
      ->required();
  command->add_option("--pp", options->numbers.pp, "Stages: ranks in the pipeline");
  command->add_option("--micro-batches", options->numbers.micro_batches, "Micro-batches of one step");
  command->add_option("--virtual-stages",
                      options->numbers.virtual_stages,
                      "Pieces of the model on each stage; default: what the schedule wants (1, or 2)");
  command->add_option("--svg", options->svg, "Write the drawing to this file too");
  command->add_option("--csv", options->csv, "Write the schedule to this file too, to edit it");
  command->add_flag("--json", options->json, "Print JSON, with the begin and end of every action");
  command->callback([options, &run] { run = [options] { return run_schedule_show(*options); }; });
}

}  // namespace llmtrain::cli
