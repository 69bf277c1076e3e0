#include <cmath>

#include <nlohmann/json.hpp>

#include "llmtrain/spec/schema.hpp"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

Json section_of(const FieldSchema& section);

void add_range(Json& json, const FieldSchema& field) {
  if (std::isfinite(field.allowed.min))
    json[field.allowed.above_min ? "exclusiveMinimum" : "minimum"] = field.allowed.min;
  if (std::isfinite(field.allowed.max)) json["maximum"] = field.allowed.max;
}

Json value_of(const FieldSchema& field) {
  Json json;
  switch (field.kind) {
    case FieldSchema::Kind::kFlag: json["type"] = "boolean"; break;
    case FieldSchema::Kind::kWhole:
      json["type"] = "integer";
      add_range(json, field);
      break;
    case FieldSchema::Kind::kNumber:
      json["type"] = "number";
      add_range(json, field);
      break;
    case FieldSchema::Kind::kText:
    case FieldSchema::Kind::kWord:
      json["type"] = "string";
      if (!field.words.empty()) json["enum"] = field.words;
      break;
    case FieldSchema::Kind::kQuantity:
      json["type"] = {"integer", "string"};
      json["pattern"] = "^[0-9.]+([eE][+-]?[0-9]+)?[KkMBT]? *(steps?|tokens?|samples?|%|percent)?$";
      break;
    case FieldSchema::Kind::kNumbers:
      json = {{"type", "array"}, {"minItems", 2}, {"maxItems", 2}, {"items", {{"type", "number"}}}};
      add_range(json["items"], field);
      break;
    case FieldSchema::Kind::kWholes:
      json = {{"type", "array"}, {"items", {{"type", "integer"}}}};
      add_range(json["items"], field);
      break;
    case FieldSchema::Kind::kNodeCount:
      json = {{"type", {"integer", "string"}}, {"pattern", "^[0-9]+(:[0-9]+)?$"}};
      break;
    case FieldSchema::Kind::kTexts:
    case FieldSchema::Kind::kWords:
      json = {{"type", "array"}, {"items", {{"type", "string"}}}};
      if (!field.words.empty()) json["items"]["enum"] = field.words;
      json = {{"anyOf", {json, json["items"]}}};
      break;
    case FieldSchema::Kind::kTextMap:
      json = {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
      break;
    case FieldSchema::Kind::kSection: json = section_of(field); break;
    case FieldSchema::Kind::kSections: json = {{"type", "array"}, {"items", section_of(field)}}; break;
  }
  return json;
}

Json field_of(const FieldSchema& field) {
  Json json = value_of(field);
  if (field.can_be_auto) json = {{"anyOf", {json, {{"const", "auto"}}}}};
  if (field.path == "data.train" || field.path == "data.valid")
    json = {{"anyOf", {json, json["items"], {{"type", "string"}}}}};
  json["description"] = field.doc;
  return json;
}

Json section_of(const FieldSchema& section) {
  Json json = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
  for (const FieldSchema& field : section.fields) json["properties"][field.name] = field_of(field);
  return json;
}

}  // namespace

std::string json_schema() {
  Json json = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "llmtrain job"}};
  json.update(section_of(job_schema()));
  json["required"] = {"version", "model", "data", "batch", "train"};
  return json.dump(2) + "\n";
}

}  // namespace llmtrain
