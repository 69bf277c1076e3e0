#include "llmtrain/spec/schema.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "llmtrain/spec/write.hpp"

#include "encode.hpp"

namespace llmtrain {
namespace {

template <class Section>
std::vector<FieldSchema> fields_of(const Section& defaults, const std::string& prefix);

template <class T>
void add_inner(FieldSchema& field, const T& value) {
  if constexpr (FieldShape<T>::kKind == FieldSchema::Kind::kSections) {
    field.fields = fields_of(typename T::value_type{}, field.path + "[].");
    field.default_text = "[]";
  } else if constexpr (FieldShape<T>::kKind == FieldSchema::Kind::kSection) {
    field.fields = fields_of(value, field.path + ".");
  } else {
    std::string text = to_yaml(encode(value));
    while (text.ends_with('\n')) text.pop_back();
    double number = 0;
    const bool stand_in = parse_scalar(text, number) == ScalarFault::kNone && number < field.allowed.min;
    field.default_text = stand_in ? "" : std::move(text);
  }
}

template <class Section>
std::vector<FieldSchema> fields_of(const Section& defaults, const std::string& prefix) {
  std::vector<FieldSchema> fields;
  visit_fields(defaults, [&](const FieldInfo& info, const auto& member) {
    FieldSchema field = describe<std::remove_cvref_t<decltype(member)>>(info);
    field.path = prefix + info.name;
    add_inner(field, member);
    fields.push_back(std::move(field));
  });
  return fields;
}

std::string range_text(const Allowed& allowed, const std::string& noun) {
  const bool has_min = std::isfinite(allowed.min);
  const bool has_max = std::isfinite(allowed.max) && allowed.max < 9e18;
  if (has_min && has_max && allowed.min == allowed.max) return format_number(allowed.min);
  if (allowed.above_min && has_min) return fmt::format("{} above {}", noun, format_number(allowed.min));
  if (has_min && has_max)
    return fmt::format("{} from {} to {}", noun, format_number(allowed.min), format_number(allowed.max));
  if (has_min && allowed.max > 1.8e19 && std::isfinite(allowed.max))
    return noun + " from 0 to 18446744073709551615";
  if (has_min) return fmt::format("{} of at least {}", noun, format_number(allowed.min));
  return noun;
}

std::string one_of(const std::vector<std::string_view>& words) {
  return fmt::format("one of {}", fmt::join(words, ", "));
}

}  // namespace

std::vector<std::string_view> split_words(const char* words) {
  std::vector<std::string_view> out;
  std::string_view rest = words;
  while (true) {
    const std::size_t end = rest.find('|');
    out.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) return out;
    rest.remove_prefix(end + 1);
  }
}

const FieldSchema* FieldSchema::find(std::string_view field) const {
  const auto found = std::find_if(fields.begin(), fields.end(), [field](const FieldSchema& candidate) {
    return candidate.name == field;
  });
  return found == fields.end() ? nullptr : &*found;
}

FieldSchema job_schema() {
  FieldSchema root;
  root.fields = fields_of(JobSpec{}, "");
  return root;
}

std::string allowed_text(const FieldSchema& field) {
  std::string text;
  switch (field.kind) {
    case FieldSchema::Kind::kFlag: text = "true or false"; break;
    case FieldSchema::Kind::kWhole: text = range_text(field.allowed, "a whole number"); break;
    case FieldSchema::Kind::kNumber: text = range_text(field.allowed, "a number"); break;
    case FieldSchema::Kind::kText: text = field.words.empty() ? "text" : one_of(field.words); break;
    case FieldSchema::Kind::kWord: text = one_of(field.words); break;
    case FieldSchema::Kind::kQuantity: text = "steps (2000), `100B tokens`, `1M samples` or `10%`"; break;
    case FieldSchema::Kind::kNumbers: text = "a list of two: " + range_text(field.allowed, "a number"); break;
    case FieldSchema::Kind::kWholes:
      text = "a list: each " + range_text(field.allowed, "a whole number");
      break;
    case FieldSchema::Kind::kNodeCount: text = "a whole number of at least 1, or MIN:MAX"; break;
    case FieldSchema::Kind::kTexts: text = "a list of texts"; break;
    case FieldSchema::Kind::kWords: text = "a list, each " + one_of(field.words); break;
    case FieldSchema::Kind::kTextMap: text = "a map of texts"; break;
    case FieldSchema::Kind::kSection: text = "a map"; break;
    case FieldSchema::Kind::kSections: text = "a list of maps"; break;
  }
  return field.can_be_auto ? text + ", or auto" : text;
}

}  // namespace llmtrain
