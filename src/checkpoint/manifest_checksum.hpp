#pragma once

#include <string>

// The last line of a manifest: its checksum over every byte before that line.
namespace llmtrain {

// Appends the line and the closing brace to `text`, which ends behind a comma and a newline.
std::string with_manifest_checksum(std::string text);

}  // namespace llmtrain
