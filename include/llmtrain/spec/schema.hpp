#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/spec/fields.hpp"

// The job spec described as data, made from fields.hpp: what hints, the reference page and the JSON
// schema are written from.
namespace llmtrain {

struct FieldSchema {
  enum class Kind {
    kFlag,
    kWhole,
    kNumber,
    kText,
    kWord,
    kQuantity,
    kNumbers,
    kWholes,
    kNodeCount,
    kTexts,
    kWords,
    kTextMap,
    kSection,
    kSections
  };

  std::string name;
  std::string path;  // "optimizer.lr"; "faults[].kind" inside a list
  std::string doc;
  Kind kind = Kind::kSection;
  bool can_be_auto = false;
  Allowed allowed;
  std::vector<std::string_view> words;  // of kWord and kWords, or of a kText with a fixed set
  std::string default_text;             // as YAML; empty for sections and for what has none
  std::vector<FieldSchema> fields;      // of kSection and kSections

  const FieldSchema* find(std::string_view field) const;
};

FieldSchema job_schema();

// "a whole number from 1 to 1000000, or auto": the words used by messages and the reference page.
std::string allowed_text(const FieldSchema& field);

// JSON Schema (draft 2020-12) of a job file.
std::string json_schema();

// docs/JOB_SPEC.md.
std::string markdown_reference();

}  // namespace llmtrain
