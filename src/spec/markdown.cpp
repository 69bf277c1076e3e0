#include <fmt/format.h>

#include "llmtrain/spec/aliases.hpp"
#include "llmtrain/spec/schema.hpp"

namespace llmtrain {
namespace {

constexpr const char* kIntroduction = R"(# The job spec

<!-- Written by `llmtrain schema --markdown`; change include/llmtrain/spec/fields.hpp instead. -->

A job is one YAML file, or several that merge left to right: maps merge key by key, lists and values are
replaced. A minimal job has `version`, `model`, `data`, `batch` and `train.duration`.

- `--set section.field=value` overrides a field; the value is YAML (`--set 'data.train=[{path: synthetic}]'`), an item
  of a list is `data.train[0].weight=2`, and nothing behind `=` is the empty text.
- `${section.field}` inserts the value of another field, `${env:NAME}` an environment variable, and `$${` stands for
  the characters `${`.
- Relative paths are relative to the working directory; `~/` at the start of a path is your home directory.
- A flag is `true`, `True`, `TRUE`, `false`, `False` or `FALSE`, quoted or not; `yes`, `on` and `1` are refused. Numbers may be
  quoted, whole numbers are written without a fraction or exponent, and text stays text even if it looks like `on` or `1e-4`.
- An amount is a number of steps (`2000` or `2000 steps`), `100B tokens`, `1M samples`, or `10%` of the run where that makes sense; K, M,
  B and T are powers of a thousand.
- `auto` is a value of every field whose default it is; `llmtrain validate` prints what it resolves to.
- Unknown keys, keys given twice, tags and merge keys (`<<`) are errors. A file has at most 1 MiB and 32 levels.

"Sequence parallel" means two things in the field. `parallelism.sp` is the number of ranks that share one sequence in attention
(context parallelism). Megatron's flag of that name, which cuts activations inside a tensor parallel group, is
`parallelism.tp_shard_sequence`; a flag given for `sp` is an error.
)";

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

// "`a`, `b`" of every alias that stands for `path`.
std::string alias_names(const std::string& path) {
  std::string names;
  for (const Alias& alias : aliases())
    if (alias.to == path) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", alias.from);
  return names;
}

void add_section(const FieldSchema& section, std::string& out) {
  std::string title = section.path;
  const std::string also = alias_names(section.path);
  out +=
      fmt::format("\n## {}\n\n{}{}.\n\n", title, section.doc, also.empty() ? "" : "; also read as " + also);
  out += "| field | default | allowed | meaning | other names |\n|---|---|---|---|---|\n";
  for (const FieldSchema& field : section.fields) {
    const std::string value = field.default_text.empty() ? "" : fmt::format("`{}`", field.default_text);
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n",
                       field.name,
                       value,
                       cell(allowed_text(field)),
                       cell(field.doc),
                       alias_names(field.path));
  }
  for (const FieldSchema& field : section.fields)
    if (!field.fields.empty() && field.path != "data.valid") add_section(field, out);
}

}  // namespace

std::string markdown_reference() {
  std::string out = kIntroduction;
  const FieldSchema root = job_schema();
  for (const FieldSchema& section : root.fields)
    if (!section.fields.empty()) add_section(section, out);
  return out;
}

}  // namespace llmtrain
