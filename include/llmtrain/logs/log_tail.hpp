#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// The end of a worker's log, for the person who has to find out why it left.
namespace llmtrain {

// The last lines of a text, or of a file of any size, at most `max_lines` of them and at most 16 KiB in all;
// an unterminated last line counts. Bytes that a terminal could act on are replaced. Empty when the file is
// not there.
std::vector<std::string> last_lines_of(std::string_view text, std::size_t max_lines);
std::vector<std::string> last_lines(const std::string& path, std::size_t max_lines);

}  // namespace llmtrain
