#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Text to numbers and flags, strictly: the whole text, no surprises, the same in every locale.
//
// Numbers may be quoted in YAML: the schema decides the type, not the quotes.
namespace llmtrain {

enum class ScalarFault { kNone, kMalformed, kOutOfRange };

// Decimal or exponent notation (1e-4, 1E-4, .0001); never nan, inf or hexadecimal.
ScalarFault parse_scalar(std::string_view text, double& value);
// Decimal digits with an optional sign; 2.0 and 1e3 are malformed.
ScalarFault parse_scalar(std::string_view text, std::int32_t& value);
ScalarFault parse_scalar(std::string_view text, std::int64_t& value);
ScalarFault parse_scalar(std::string_view text, std::uint64_t& value);
// true, True, TRUE, false, False, FALSE: nothing else.
ScalarFault parse_scalar(std::string_view text, bool& value);

// Whether the text is well-formed UTF-8 without NUL, which is all that a job file can hold.
bool is_utf8(std::string_view text);

// The shortest text that reads back as the same number; whole numbers without a fraction.
std::string format_number(double value);

}  // namespace llmtrain
