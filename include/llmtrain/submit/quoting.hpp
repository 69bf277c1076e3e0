#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// One value in the notations of what is generated, whatever characters it holds.
//
// Every text that comes from a job or a command line passes through one of these before it stands in a script
// or a manifest; no generator writes a bare one. Control characters are the callers' to refuse where a
// notation cannot hold them (is_printable).
namespace llmtrain {

// A word of a POSIX shell: bare when it is harmless, else in single quotes.
std::string shell_quoted(std::string_view text);
std::string shell_words(const std::vector<std::string>& words);

// The value of a `#SBATCH --option=`: bare or in double quotes, as sbatch reads its directives (no
// expansion).
std::string sbatch_quoted(std::string_view text);

// A YAML scalar in double quotes: a text to every reader, never a number or a boolean.
std::string yaml_quoted(std::string_view text);
// The same where Kubernetes would expand $(NAME): commands, arguments and values of the environment.
std::string kubernetes_quoted(std::string_view text);

// A name that RFC 1123 allows for a label: lower-case letters, digits and `-`, no longer than `limit`. What
// is cut or replaced is made up for by a checksum, so that two jobs of different names keep different ones.
std::string dns_name(std::string_view text, std::size_t limit);

// No control characters: the text stays on its line.
bool is_printable(std::string_view text);

}  // namespace llmtrain
