#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "llmtrain/checkpoint/file_record.hpp"

// FileRecord as JSON, shared by the control message and the manifest.
namespace llmtrain {

nlohmann::json to_json(const FileRecord& record);
Result<FileRecord> file_record_of(const nlohmann::json& value, const std::string& where);

std::string hex8(std::uint32_t crc);

}  // namespace llmtrain
