// The small grammars of REST: header bytes, percent escapes, white space, query pairs.
// Shape:  as Go's net/url and strings.TrimSpace judge, so that what gocc took is taken and what it
//         refused is refused.
// Errors: std::nullopt for what does not parse; never throws, never allocates.
// Lives:  a decoded text lies in the buffer given, an unescaped one is a view of its source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice::wire {

// RFC 9110: what methods and field names are made of.
bool is_token_char(char c) noexcept;

// RFC 9110: what field values are made of: no control character but the tabulator.
constexpr bool is_field_char(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return (byte >= 0x20 && byte != 0x7F) || c == '\t';
}

// What a URI's authority is made of; Go's server judges Host by the same list.
bool is_host(std::string_view value) noexcept;

// Path and query of a request's target, or "*": proxies are asked for the whole URL (RFC 9112,
// 3.2.2). Empty when it is none of these.
std::string_view origin_form(std::string_view target) noexcept;

// ASCII letters of either case are equal.
bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept;

// True when every '%' begins an escape.
bool escapes_are_valid(std::string_view text) noexcept;

// A bump allocator over a caller's buffer, for texts that decode to something shorter.
class DecodeBuffer {
 public:
  explicit DecodeBuffer(std::span<char> buffer) noexcept : free_(buffer) {}

  // `text` with its escapes decoded once. Text without any is returned as it is.
  std::optional<std::string_view> percent_decode(std::string_view text) noexcept;

  // The same for form data, where '+' is a blank as well.
  std::optional<std::string_view> form_decode(std::string_view text) noexcept;

 private:
  std::optional<std::string_view> decode(std::string_view text, bool plus_is_blank) noexcept;

  std::span<char> free_;
};

// Without Unicode white space at both ends; bytes that are not UTF-8 stay.
std::string_view trim_white_space(std::string_view text) noexcept;

// The next `name=value` of a query, still encoded; `query` loses it. Pairs that Go's parser drops
// for their form (a ';', no name) come out as nothing.
struct QueryPair {
  std::string_view name;
  std::string_view value;
};
std::optional<QueryPair> take_query_pair(std::string_view& query) noexcept;

// Whether an Accept header names application/json (with a q above 0). `*/*` does not name it.
bool accepts_json(std::string_view accept) noexcept;

}  // namespace sluice::wire
