#pragma once

#include <string>
#include <vector>

#include "llmtrain/checkpoint/file_record.hpp"
#include "llmtrain/core/result.hpp"

// How ranks tell each other about a save: the records of the files written, or why writing failed.
//
// A failure is told like a success, so that all ranks leave the collective and fail alike.
namespace llmtrain {

std::string encode_shard_report(const Result<std::vector<FileRecord>>& written);
Result<std::vector<FileRecord>> decode_shard_report(const std::string& text);

std::string encode_status(const Status& status);
Status decode_status(const std::string& text);

}  // namespace llmtrain
