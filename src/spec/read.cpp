#include "llmtrain/spec/read.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "llmtrain/spec/describe.hpp"
#include "llmtrain/spec/scalars.hpp"

#include "hints.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMaxListed = 10000;  // texts or words of one list
constexpr std::size_t kShown = 60;         // characters of a value that a message repeats

std::string shown(const std::string& text) {
  if (text.empty()) return "\"\"";
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

// Where a value stands: what a message needs to name it.
struct Place {
  const YamlNode& node;
  const FieldSchema& field;
  const std::string& path;
};

class Reader {
 public:
  explicit Reader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  template <class Section>
  void read_section(const YamlNode& node, Section& section, const std::string& path) {
    if (node.kind == YamlNode::Kind::kNull) return;  // `monitoring:` with nothing below it
    if (!node.is_map()) {
      diagnostics_.error(
          node.origin, path, fmt::format("{} where a map of fields belongs", to_string(node.kind)));
      return;
    }
    std::size_t known = 0;
    visit_fields(section, [&](const FieldInfo& info, auto& member) {
      const YamlNode* child = node.find(info.name);
      if (child == nullptr) return;
      ++known;
      const std::string child_path = path.empty() ? info.name : path + "." + info.name;
      const FieldSchema field = describe<std::remove_cvref_t<decltype(member)>>(info);
      read({*child, field, child_path}, member);
    });
    if (known != node.entries.size()) report_unknown(node, section, path);
  }

 private:
  template <class Section>
  void report_unknown(const YamlNode& node, const Section& section, const std::string& path) {
    for (const YamlEntry& entry : node.entries) {
      bool is_field = false;
      visit_fields(section, [&](const FieldInfo& info, const auto&) {
        is_field = is_field || entry.key == info.name;
      });
      if (is_field) continue;
      const std::string full = path.empty() ? entry.key : path + "." + entry.key;
      const std::string hint = diagnostics_.is_full() ? "" : "; " + unknown_key_hint(path, entry.key);
      diagnostics_.error(entry.key_origin, shown(full), "unknown key" + hint);
    }
  }

  // Why a value is refused, what it is, and what is allowed.
  void refuse(const Place& at, const std::string& why) {
    std::string found = at.node.is_scalar() ? fmt::format("= {}: ", shown(at.node.text)) : "";
    diagnostics_.error(
        at.node.origin, at.path, fmt::format("{}{}; allowed: {}", found, why, allowed_text(at.field)));
  }

  bool want(const Place& at, YamlNode::Kind kind) {
    if (at.node.kind == kind) return true;
    refuse(at,
           at.node.kind == YamlNode::Kind::kNull
               ? "empty"
               : fmt::format("{} does not fit here", to_string(at.node.kind)));
    return false;
  }

  template <class T>
  bool read_number(const Place& at, T& member) {
    T value{};
    const ScalarFault fault = parse_scalar(at.node.text, value);
    if (fault == ScalarFault::kMalformed) {
      refuse(at,
             at.node.text.empty()    ? "empty"
             : std::is_integral_v<T> ? "not a whole number"
                                     : "not a number");
      return false;
    }
    const Allowed& allowed = at.field.allowed;
    const double number = static_cast<double>(value);
    if (fault == ScalarFault::kOutOfRange || number < allowed.min || number > allowed.max ||
        (allowed.above_min && number == allowed.min)) {
      refuse(at, "out of range");
      return false;
    }
    member = value;
    return true;
  }

  void read(const Place& at, int& member) {
    if (!want(at, YamlNode::Kind::kScalar) || explain_sequence_parallel(at) || read_strategy(at, member))
      return;
    read_number(at, member);
  }
  void read(const Place& at, std::int64_t& member) {
    if (want(at, YamlNode::Kind::kScalar)) read_number(at, member);
  }
  void read(const Place& at, std::uint64_t& member) {
    if (want(at, YamlNode::Kind::kScalar)) read_number(at, member);
  }
  void read(const Place& at, double& member) {
    if (want(at, YamlNode::Kind::kScalar)) read_number(at, member);
  }
  void read(const Place& at, bool& member) {
    if (want(at, YamlNode::Kind::kScalar) && parse_scalar(at.node.text, member) != ScalarFault::kNone)
      refuse(at, "not a flag");
  }

  void read(const Place& at, std::string& member) {
    if (!want(at, YamlNode::Kind::kScalar)) return;
    const auto& allowed = at.field.words;
    if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), at.node.text) == allowed.end())
      return refuse(at, "unknown");
    if (at.node.text.size() > kMaxText) return refuse(at, fmt::format("longer than {} characters", kMaxText));
    member = at.path == "parallelism.schedule" ? own_schedule_name(at.node.text) : at.node.text;
  }

  // What others call pipeline schedules: torch in capitals, nanotron gpipe by its order.
  static std::string own_schedule_name(const std::string& name) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNames = {
        {{"GPipe", "gpipe"},
         {"afab", "gpipe"},
         {"1F1B", "1f1b"},
         {"Interleaved1F1B", "interleaved"},
         {"ZBVZeroBubble", "zbv"}}};
    for (const auto& [theirs, own] : kNames)
      if (name == theirs) return std::string(own);
    return name;
  }

  template <NamedEnum E>
  void read(const Place& at, E& member) {
    if (!want(at, YamlNode::Kind::kScalar)) return;
    for (const auto& [word, value] : EnumNames<E>::kAll) {
      if (word != at.node.text) continue;
      member = value;
      return;
    }
    refuse(at, "unknown");
  }

  void read(const Place& at, Quantity& member) {
    if (!want(at, YamlNode::Kind::kScalar)) return;
    const auto quantity = parse_quantity(at.node.text);
    if (quantity) {
      member = *quantity;
    } else {
      diagnostics_.error(at.node.origin, at.path, to_string(quantity.error()));
    }
  }

  void read(const Place& at, NodeCount& member) {
    if (!want(at, YamlNode::Kind::kScalar)) return;
    const auto count = parse_node_count(at.node.text);
    if (count) {
      member = *count;
    } else {
      diagnostics_.error(at.node.origin, at.path, to_string(count.error()));
    }
  }

  void read(const Place& at, std::vector<std::string>& member) { read_list(at, member); }
  template <NamedEnum E>
  void read(const Place& at, std::vector<E>& member) {
    read_list(at, member);
  }

  // A list of scalars; one alone stands for a list of one.
  template <class T>
  void read_list(const Place& at, std::vector<T>& member) {
    if (!at.node.is_scalar() && !want(at, YamlNode::Kind::kList)) return;
    const std::size_t count = at.node.is_scalar() ? 1 : at.node.items.size();
    if (count > kMaxListed) return refuse(at, fmt::format("{} values", count));
    member.assign(count, T{});
    for (std::size_t i = 0; i < count; ++i)
      read({at.node.is_scalar() ? at.node : at.node.items[i], at.field, fmt::format("{}[{}]", at.path, i)},
           member[i]);
  }

  template <class T>
  void read(const Place& at, std::optional<T>& member) {
    // -1 is how other launchers write "the rest of the ranks".
    const bool rest = at.path == "parallelism.dp" && at.node.text == "-1";
    if (at.node.is_scalar() && (at.node.text == "auto" || rest)) {
      member.reset();
      return;
    }
    const std::size_t before = diagnostics_.error_count();
    T value{};
    read(at, value);
    if (diagnostics_.error_count() == before) member = value;
  }

  void read(const Place& at, std::array<double, 2>& member) {
    if (!want(at, YamlNode::Kind::kList)) return;
    if (at.node.items.size() != member.size())
      return refuse(at, fmt::format("{} values", at.node.items.size()));
    for (std::size_t i = 0; i < member.size(); ++i)
      read({at.node.items[i], at.field, fmt::format("{}[{}]", at.path, i)}, member[i]);
  }

  void read(const Place& at, std::vector<std::int64_t>& member) {
    if (!want(at, YamlNode::Kind::kList)) return;
    member.resize(at.node.items.size());
    for (std::size_t i = 0; i < member.size(); ++i)
      read({at.node.items[i], at.field, fmt::format("{}[{}]", at.path, i)}, member[i]);
  }

  void read(const Place& at, std::map<std::string, std::string>& member) {
    if (at.node.kind == YamlNode::Kind::kNull || !want(at, YamlNode::Kind::kMap)) return;
    member.clear();
    FieldSchema text;
    text.kind = FieldSchema::Kind::kText;
    for (const YamlEntry& entry : at.node.entries)
      read({entry.value, text, at.path + "." + entry.key}, member[entry.key]);
  }

  // One map, or a bare path for data sources, stands for a list of one.
  template <class Section>
  void read(const Place& at, std::vector<Section>& member) {
    if (at.node.kind == YamlNode::Kind::kNull) return;
    std::vector<const YamlNode*> items;
    if (at.node.is_list()) {
      for (const YamlNode& item : at.node.items) items.push_back(&item);
    } else {
      items.push_back(&at.node);
    }
    member.clear();
    for (std::size_t i = 0; i < items.size(); ++i)
      read_item(*items[i], member.emplace_back(), fmt::format("{}[{}]", at.path, i));
  }

  void read_item(const YamlNode& node, DataSourceSpec& source, const std::string& path) {
    if (node.is_scalar()) {
      source.path = node.text;
    } else {
      read_section(node, source, path);
    }
  }
  void read_item(const YamlNode& node, FaultSpec& fault, const std::string& path) {
    if (node.kind == YamlNode::Kind::kMap && node.find("kind") == nullptr)
      diagnostics_.error(node.origin, path + ".kind", "missing; a fault says what happens");
    read_section(node, fault, path);
  }

  template <class Section>
  requires(FieldShape<Section>::kKind == FieldSchema::Kind::kSection) void read(const Place& at,
                                                                                Section& member) {
    read_section(at.node, member, at.path);
  }

  // What others call the stages of sharding: FSDP in capitals, Megatron in small letters.
  static bool read_strategy(const Place& at, int& member) {
    if (at.path != "parallelism.zero_stage") return false;
    constexpr std::array<std::pair<std::string_view, int>, 7> kStrategies = {{{"NO_SHARD", 0},
                                                                              {"SHARD_GRAD_OP", 2},
                                                                              {"FULL_SHARD", 3},
                                                                              {"no_shard", 0},
                                                                              {"optim", 1},
                                                                              {"optim_grads", 2},
                                                                              {"optim_grads_params", 3}}};
    for (const auto& [name, stage] : kStrategies)
      if (at.node.text == name) return member = stage, true;
    return false;
  }

  bool explain_sequence_parallel(const Place& at) {
    bool flag = false;
    if (at.path != "parallelism.sp" || parse_scalar(at.node.text, flag) != ScalarFault::kNone) return false;
    diagnostics_.error(
        at.node.origin,
        at.path,
        fmt::format("= {}: a flag where a number of ranks belongs. \"Sequence parallel\" means two things: "
                    "here sp is the number of ranks that share one sequence in attention (context "
                    "parallelism); Megatron's flag, which cuts the activations inside a tensor parallel "
                    "group, is parallelism.tp_shard_sequence and comes with tensor parallelism. "
                    "Allowed: a whole number, 1 for none",
                    at.node.text));
    return true;
  }

  Diagnostics& diagnostics_;
};

}  // namespace

void read_spec(const YamlNode& tree, JobSpec& spec, Diagnostics& diagnostics) {
  Reader(diagnostics).read_section(tree, spec, "");
}

}  // namespace llmtrain
