// The small grammars of REST: header bytes, percent escapes, white space, query pairs.
// Shape:  as Go's net/url and strings.TrimSpace have it, so that the server accepts and refuses the
//         same texts as gocc.
// Errors: std::nullopt for a text that does not parse; never throws, never allocates.
// Lives:  a decoded text lies in the caller's buffer, one without escapes is a view of its source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice::wire {

// RFC 9110: the characters of methods and field names.
bool is_token_char(char c) noexcept;

// RFC 9110: the characters of field values: no control character but the tabulator.
constexpr bool is_field_char(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return (byte >= 0x20 && byte != 0x7F) || c == '\t';
}

// Whether `value` has only characters of a URI's authority; Go's server checks Host by the same
// list.
bool is_valid_authority(std::string_view value) noexcept;

// Path and query of a request's target, or "*". Requests to proxies have the whole URL (RFC 9112,
// 3.2.2). Empty for any other target.
std::string_view origin_form(std::string_view target) noexcept;

// Base64 for URLs without padding (RFC 4648, 5); nullopt for any other text.
std::optional<std::string> decode_base64url(std::string_view text);

// What a field takes up as a line of HTTP/1.1; every version's bounds count this.
constexpr size_t field_line_bytes(std::string_view name, std::string_view value) noexcept {
  constexpr std::string_view separators = ": \r\n";
  return name.size() + value.size() + separators.size();
}

// ASCII letters of either case are equal.
bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept;

// True when every '%' begins an escape.
bool escapes_are_valid(std::string_view text) noexcept;

// A bump allocator over a caller's buffer, for texts that decode to something shorter.
class DecodeBuffer {
 public:
  explicit DecodeBuffer(std::span<char> buffer) noexcept : unused_(buffer) {}

  // `text` with its escapes decoded once. Text without any is returned as it is.
  std::optional<std::string_view> percent_decode(std::string_view text) noexcept;

  // The same for form data, where '+' is a blank as well.
  std::optional<std::string_view> form_decode(std::string_view text) noexcept;

 private:
  std::optional<std::string_view> decode(std::string_view text, bool plus_is_space) noexcept;

  std::span<char> unused_;
};

// Removes Unicode white space at both ends; bytes that are not UTF-8 stay.
std::string_view trim_white_space(std::string_view text) noexcept;

// Takes the next `name=value` off the query, still encoded; nullopt for pairs that Go's parser
// drops for their form (a ';', no name).
struct QueryPair {
  std::string_view name;
  std::string_view value;
};
std::optional<QueryPair> take_query_pair(std::string_view& query) noexcept;

// Whether an Accept header names application/json (with a q above 0). `*/*` does not name it.
bool accepts_json(std::string_view accept) noexcept;

}  // namespace sluice::wire
