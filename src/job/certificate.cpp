#include "llmtrain/job/certificate.hpp"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/spec/enum_names.hpp"
#include "llmtrain/spec/write.hpp"

namespace llmtrain {
namespace {

using nlohmann::ordered_json;

// The whole section, so that an axis which is new to the format is on the certificate too.
YamlNode layout_of(const JobSpec& spec) {
  const YamlNode tree = to_tree(spec);
  return *tree.find("parallelism");
}

// Layers are numbers of the model, which always shrinks.
std::string degrees_of(const JobSpec& spec) {
  YamlNode layout = layout_of(spec);
  put(layout, "stage_layers", YamlNode{});
  return to_json(layout);
}

bool is_shrunk(const Certificate& certificate) {
  return degrees_of(certificate.original) != degrees_of(certificate.proved);
}

std::string in_words(const YamlNode& value) {
  if (value.is_scalar()) return is_schedule_text(value.text) ? "from a file" : value.text;
  std::vector<std::string> items;
  for (const YamlNode& item : value.items) items.push_back(item.text);
  return fmt::format("{}", fmt::join(items, "+"));
}

std::string on_one_line(const YamlNode& section) {
  std::vector<std::string> words;
  for (const YamlEntry& entry : section.entries) words.push_back(entry.key + " " + in_words(entry.value));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string model_line(const ModelSpec& m) {
  return fmt::format("{}, {} layers of width {}, {} heads over {} key/value heads, vocabulary {}",
                     name_of(m.family),
                     m.num_layers,
                     m.hidden_size,
                     m.num_heads,
                     m.num_kv_heads.value(),
                     m.vocab_size);
}

std::string batch_line(const JobSpec& spec, const RunPlan& plan) {
  return fmt::format("{}, each {} sequences of {} tokens in micro-batches of {}, in fp64",
                     plan.total_steps,
                     plan.global_batch_size,
                     spec.data.seq_length,
                     plan.micro_batch_size);
}

ordered_json divergence_as_json(const Verdict& verdict) {
  if (verdict.ok()) return nullptr;
  const Comparison& first = *verdict.first_divergence;
  return {{"step", first.step},
          {"rank", first.rank},
          {"tensor", first.tensor},
          {"quantity", std::string(to_string(first.what))},
          {"rel_diff", first.difference}};
}

std::string conclusion(const Verdict& verdict) {
  if (verdict.ok()) return "equal: this layout computes what one rank computes\n";
  const Comparison& first = *verdict.first_divergence;
  return fmt::format(
      "first divergence: step {}, rank {}, {} of {}, {:.1e}\n"
      "different: this layout does not compute what one rank computes\n",
      first.step,
      first.rank,
      to_string(first.what),
      first.tensor,
      first.difference);
}

}  // namespace

std::string to_text(const Certificate& certificate) {
  const RunPlan plan = plan_run(certificate.proved);
  std::string text;
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<14} {}\n", name, value);
  };
  line("layout", on_one_line(layout_of(certificate.proved)));
  if (is_shrunk(certificate)) line("shrunk from", on_one_line(layout_of(certificate.original)));
  line("ranks", std::to_string(plan.world_size));
  line("model", model_line(certificate.proved.model));
  line("steps", batch_line(certificate.proved, plan));
  if (!certificate.plant.empty()) line("planted bug", certificate.plant);
  text += fmt::format("\nlargest relative difference from one rank (tolerance {:.0e})\n",
                      certificate.verdict.tolerance);
  for (const Compared what : kAllCompared)
    line(to_string(what), fmt::format("{:.1e}", certificate.verdict.largest(what)));
  return text + "\n" + conclusion(certificate.verdict);
}

std::string to_json(const Certificate& certificate) {
  const RunPlan plan = plan_run(certificate.proved);
  const auto parsed = [](const JobSpec& spec) { return ordered_json::parse(to_json(layout_of(spec))); };
  ordered_json differences = ordered_json::object();
  for (const Compared what : kAllCompared)
    differences[std::string(to_string(what))] = certificate.verdict.largest(what);
  const ordered_json result = {
      {"layout", parsed(certificate.proved)},
      {"shrunk_from", is_shrunk(certificate) ? parsed(certificate.original) : ordered_json()},
      {"ranks", plan.world_size},
      {"steps", plan.total_steps},
      {"max_rel_diff", differences},
      {"tolerance", certificate.verdict.tolerance},
      {"ok", certificate.verdict.ok()},
      {"first_divergence", divergence_as_json(certificate.verdict)},
      {"plant", certificate.plant.empty() ? ordered_json() : ordered_json(certificate.plant)}};
  return result.dump();
}

}  // namespace llmtrain
