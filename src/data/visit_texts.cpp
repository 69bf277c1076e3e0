#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/data/text_input.hpp"
#include "llmtrain/data/utf8.hpp"

namespace llmtrain {
namespace {

using nlohmann::json;

constexpr std::string_view kBom = "\xEF\xBB\xBF";

std::string with_unix_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out.push_back(text[i]);
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      out.push_back('\n');  // a lone CR; that of a CRLF is dropped
    }
  }
  return out;
}

class Visitor {
 public:
  Visitor(const TextRules& rules,
          TextCounts& counts,
          const std::function<Status(std::string_view, bool)>& visit)
      : rules_(rules), counts_(counts), visit_(visit) {}

  // One stretch of a plain file. Only a whole file can be blank: later stretches follow other text.
  Status plain(const TextPiece& piece) {
    std::string_view text = piece.text;
    if (piece.begins_file && text.starts_with(kBom)) {
      ++counts_.with_bom;
      if (rules_.strip_bom) text.remove_prefix(kBom.size());
    }
    return keep(text, piece.begins_file && piece.ends_file, piece.ends_file);
  }

  Status lines(const TextPiece& piece) {
    std::string_view rest = piece.text;
    if (piece.begins_file && rest.starts_with(kBom)) {  // JSON may not begin with one
      ++counts_.with_bom;
      rest.remove_prefix(kBom.size());
    }
    if (piece.begins_file && piece.ends_file && rest.empty()) ++counts_.empty;
    for (std::int64_t number = piece.first_line; !rest.empty(); ++number) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      LLMTRAIN_TRY(line(rest.substr(0, end), fmt::format("{}:{}", piece.file->path(), number)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return ok_status();
  }

 private:
  Status line(std::string_view bytes, const std::string& where) {
    if (is_blank(bytes)) {
      ++counts_.blank_lines;
      return ok_status();
    }
    json object;
    try {
      object = json::parse(bytes);
    } catch (const json::exception& error) {
      return refuse(where, fmt::format("not valid JSON: {}", error.what()));
    }
    if (!object.is_object()) return refuse(where, "the line holds no JSON object");
    const auto found = object.find(rules_.text_key);
    if (found == object.end()) {
      std::string keys;
      for (const auto& [key, value] : object.items()) keys += (keys.empty() ? "" : ", ") + key;
      return refuse(where, fmt::format("there is no key `{}`; the line has: {}", rules_.text_key, keys));
    }
    if (found->is_null()) {
      ++counts_.null;
      return ok_status();
    }
    if (!found->is_string()) {
      return refuse(where, fmt::format("`{}` is a {}, not a string", rules_.text_key, found->type_name()));
    }
    std::string_view text = found->get_ref<const std::string&>();
    if (rules_.strip_bom && text.starts_with(kBom)) text.remove_prefix(kBom.size());
    return keep(text, true, true);
  }

  Error refuse(const std::string& where, const std::string& what) const {
    return {ErrorCode::kData,
            fmt::format("{}: {}", where, what),
            "each line is an object with the text under --text-key; repair or remove the line"};
  }

  Status keep(std::string_view text, bool whole, bool ends_document) {
    if (whole && text.empty()) {
      ++counts_.empty;
      return ok_status();
    }
    if (whole && is_blank(text)) {
      ++counts_.blank;
      return ok_status();
    }
    if (text.find("\r\n") != std::string_view::npos) ++counts_.with_crlf;
    if (valid_utf8_prefix(text) != text.size()) ++counts_.invalid_utf8;
    if (ends_document) ++counts_.texts;
    if (!rules_.normalize_newlines || text.find('\r') == std::string_view::npos)
      return give(text, ends_document);
    return give(with_unix_newlines(text), ends_document);
  }

  Status give(std::string_view text, bool ends_document) {
    counts_.bytes += static_cast<std::int64_t>(text.size());
    return visit_(text, ends_document);
  }

  const TextRules& rules_;
  TextCounts& counts_;
  const std::function<Status(std::string_view, bool)>& visit_;
};

}  // namespace

void TextCounts::add(const TextCounts& other) {
  texts += other.texts;
  bytes += other.bytes;
  empty += other.empty;
  blank += other.blank;
  null += other.null;
  blank_lines += other.blank_lines;
  with_bom += other.with_bom;
  with_crlf += other.with_crlf;
  invalid_utf8 += other.invalid_utf8;
}

Status visit_texts(const TextPiece& piece,
                   const TextRules& rules,
                   TextCounts& counts,
                   const std::function<Status(std::string_view, bool)>& visit) {
  Visitor visitor(rules, counts, visit);
  return piece.kind == TextKind::kPlain ? visitor.plain(piece) : visitor.lines(piece);
}

}  // namespace llmtrain
