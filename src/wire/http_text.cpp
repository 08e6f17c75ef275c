#include "wire/http_text.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "text/number.hpp"

namespace sluice::wire {

namespace {

using text::hex_digit;

// Digits, letters, and `others`.
consteval std::array<bool, 256> make_chars(std::string_view others) {
  std::array<bool, 256> has{};
  for (char c = '0'; c <= '9'; ++c) has[static_cast<unsigned char>(c)] = true;
  for (char c = 'a'; c <= 'z'; ++c) has[static_cast<unsigned char>(c)] = true;
  for (char c = 'A'; c <= 'Z'; ++c) has[static_cast<unsigned char>(c)] = true;
  for (char c : others) has[static_cast<unsigned char>(c)] = true;
  return has;
}

constexpr std::array<bool, 256> token_chars = make_chars("!#$%&'*+-.^_`|~");
constexpr std::array<bool, 256> authority_chars = make_chars("!$%&'()*+,-.:;=[]_~");

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr bool is_ascii_space(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Unicode's white space beyond ASCII, as UTF-8: U+0085, U+00A0, U+1680, U+2000 to U+200A,
// U+2028, U+2029, U+202F, U+205F, U+3000.
bool is_unicode_space(std::string_view character) noexcept {
  if (character == "\xC2\x85" || character == "\xC2\xA0") return true;
  if (character == "\xE1\x9A\x80" || character == "\xE2\x81\x9F" || character == "\xE3\x80\x80")
    return true;
  if (character.size() != 3 || !character.starts_with("\xE2\x80")) return false;
  const auto last = static_cast<unsigned char>(character[2]);
  return (last >= 0x80 && last <= 0x8A) || last == 0xA8 || last == 0xA9 || last == 0xAF;
}

size_t leading_space_bytes(std::string_view text) noexcept {
  if (text.empty()) return 0;
  if (is_ascii_space(text[0])) return 1;
  if (static_cast<unsigned char>(text[0]) < 0x80) return 0;
  for (size_t bytes : {2, 3}) {
    if (is_unicode_space(text.substr(0, bytes))) return bytes;
  }
  return 0;
}

size_t trailing_space_bytes(std::string_view text) noexcept {
  if (text.empty()) return 0;
  if (is_ascii_space(text.back())) return 1;
  if (static_cast<unsigned char>(text.back()) < 0x80) return 0;
  for (size_t bytes : {2, 3}) {
    if (text.size() >= bytes && is_unicode_space(text.substr(text.size() - bytes))) return bytes;
  }
  return 0;
}

std::string_view trim_blanks(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Takes the part before the first `separator` off `text`, with the separator.
std::string_view take_until(std::string_view& text, char separator) noexcept {
  const size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return taken;
}

// "q=0", "q=0.", "q=0.000".
bool is_zero_weight(std::string_view parameter) noexcept {
  parameter = trim_blanks(parameter);
  if (parameter.size() < 3 || lower(parameter[0]) != 'q' || parameter[1] != '=') return false;
  parameter.remove_prefix(2);
  return parameter[0] == '0' && parameter.find_first_not_of("0.") == std::string_view::npos;
}

bool has_zero_weight(std::string_view parameters) noexcept {
  while (!parameters.empty()) {
    if (is_zero_weight(take_until(parameters, ';'))) return true;
  }
  return false;
}

}  // namespace

bool is_token_char(char c) noexcept {
  return token_chars[static_cast<unsigned char>(c)];
}

bool is_valid_authority(std::string_view value) noexcept {
  return std::all_of(value.begin(), value.end(),
                     [](char c) { return authority_chars[static_cast<unsigned char>(c)]; });
}

std::string_view origin_form(std::string_view target) noexcept {
  constexpr std::string_view scheme = "http://";
  if (target.starts_with('/') || target == "*") return target;
  if (!equals_ignoring_case(target.substr(0, scheme.size()), scheme)) return {};
  target.remove_prefix(scheme.size());
  const size_t host_bytes = std::min(target.find_first_of("/?#"), target.size());
  if (host_bytes == 0 || !is_valid_authority(target.substr(0, host_bytes))) return {};
  target.remove_prefix(host_bytes);
  if (target.empty()) return "/";
  return target.front() == '/' ? target : std::string_view{};
}

std::optional<std::string> decode_base64url(std::string_view text) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  constexpr uint32_t digit_bits = 6;
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  uint32_t bits = 0;
  uint32_t bits_count = 0;
  for (const char c : text) {
    const size_t digit = digits.find(c);
    if (digit == digits.npos) return std::nullopt;
    bits = bits << digit_bits | static_cast<uint32_t>(digit);
    bits_count += digit_bits;
    if (bits_count < 8) continue;
    bits_count -= 8;
    bytes.push_back(static_cast<char>(bits >> bits_count & 0xFF));
  }
  return bytes;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool escapes_are_valid(std::string_view text) noexcept {
  for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 3)) {
    if (text.size() - at < 3) return false;
    if (hex_digit(text[at + 1]) < 0 || hex_digit(text[at + 2]) < 0) return false;
  }
  return true;
}

std::optional<std::string_view> DecodeBuffer::percent_decode(std::string_view text) noexcept {
  return decode(text, false);
}

std::optional<std::string_view> DecodeBuffer::form_decode(std::string_view text) noexcept {
  return decode(text, true);
}

std::optional<std::string_view> DecodeBuffer::decode(std::string_view text,
                                                     bool plus_is_space) noexcept {
  const bool has_plus = plus_is_space && text.find('+') != std::string_view::npos;
  if (!has_plus && text.find('%') == std::string_view::npos) return text;
  if (!escapes_are_valid(text)) return std::nullopt;
  ASSERT(unused_.size() >= text.size());
  size_t bytes = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      c = static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    unused_[bytes++] = c;
  }
  const std::string_view decoded{unused_.data(), bytes};
  unused_ = unused_.subspan(bytes);
  return decoded;
}

std::string_view trim_white_space(std::string_view text) noexcept {
  while (const size_t bytes = leading_space_bytes(text)) text.remove_prefix(bytes);
  while (const size_t bytes = trailing_space_bytes(text)) text.remove_suffix(bytes);
  return text;
}

std::optional<QueryPair> take_query_pair(std::string_view& query) noexcept {
  std::string_view value = take_until(query, '&');
  if (value.empty() || value.find(';') != std::string_view::npos) return std::nullopt;
  const std::string_view name = take_until(value, '=');
  return QueryPair{name, value};
}

bool accepts_json(std::string_view accept) noexcept {
  while (!accept.empty()) {
    std::string_view parameters = take_until(accept, ',');
    const std::string_view range = trim_blanks(take_until(parameters, ';'));
    if (equals_ignoring_case(range, "application/json")) return !has_zero_weight(parameters);
  }
  return false;
}

}  // namespace sluice::wire
