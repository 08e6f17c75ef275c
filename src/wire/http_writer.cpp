#include "wire/http_writer.hpp"

#include <array>
#include <charconv>
#include <chrono>

#include "base/assert.hpp"
#include "base/time.hpp"

namespace sluice::wire {

namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

// The bytes of the UTF-8 sequence that `text` begins with; 0 when it is none. As Go judges: no
// overlong forms, no surrogates, nothing above U+10FFFF.
size_t utf8_sequence_bytes(std::string_view text) noexcept {
  const auto byte = [text](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto continues = [byte](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint32_t first = byte(0);
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

constexpr bool needs_no_escape(unsigned char c) noexcept {
  return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

constexpr bool is_line_separator(std::string_view sequence) noexcept {
  return sequence == "\xE2\x80\xA8" || sequence == "\xE2\x80\xA9";
}

}  // namespace

void HttpWriter::decimal(int64_t value) noexcept {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), value).ptr;
  text({digits.begin(), end});
}

void HttpWriter::decimal_unsigned(uint64_t value) noexcept {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), value).ptr;
  text({digits.begin(), end});
}

void HttpWriter::hexadecimal(uint64_t value) noexcept {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), value, 16).ptr;
  text({digits.begin(), end});
}

void HttpWriter::date(int64_t wall_ns) noexcept {
  static constexpr std::string_view weekdays = "SunMonTueWedThuFriSat";
  static constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  using namespace std::chrono;
  const sys_seconds now = floor<seconds>(sys_time<nanoseconds>{nanoseconds{wall_ns}});
  const sys_days day = floor<days>(now);
  const year_month_day date{day};
  const hh_mm_ss<seconds> time{now - day};
  text(weekdays.substr(3 * weekday{day}.c_encoding(), 3));
  text(", ");
  two_digits(unsigned{date.day()});
  text(" ");
  text(months.substr(3 * (unsigned{date.month()} - 1), 3));
  text(" ");
  decimal(int{date.year()});
  text(" ");
  two_digits(static_cast<uint32_t>(time.hours().count()));
  text(":");
  two_digits(static_cast<uint32_t>(time.minutes().count()));
  text(":");
  two_digits(static_cast<uint32_t>(time.seconds().count()));
  text(" GMT");
}

void HttpWriter::two_digits(uint32_t value) noexcept {
  ASSERT(value < 100);
  const char digits[2] = {static_cast<char>('0' + value / 10), static_cast<char>('0' + value % 10)};
  text({digits, 2});
}

void HttpWriter::json_string(std::string_view value) noexcept {
  text("\"");
  while (!value.empty()) {
    size_t plain_bytes = 0;
    while (plain_bytes < value.size() && needs_no_escape(value[plain_bytes])) ++plain_bytes;
    text(value.substr(0, plain_bytes));
    value.remove_prefix(plain_bytes);
    if (value.empty()) break;
    const auto c = static_cast<unsigned char>(value[0]);
    if (c < 0x80) {
      json_escape(c);
      value.remove_prefix(1);
      continue;
    }
    const size_t bytes = utf8_sequence_bytes(value);
    const std::string_view sequence = value.substr(0, bytes);
    if (bytes == 0) {
      text("\\ufffd");
    } else if (is_line_separator(sequence)) {
      text(sequence.back() == '\xA8' ? "\\u2028" : "\\u2029");
    } else {
      text(sequence);
    }
    value.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  text("\"");
}

void HttpWriter::json_escape(unsigned char c) noexcept {
  switch (c) {
    case '"':
      return text("\\\"");
    case '\\':
      return text("\\\\");
    case '\b':
      return text("\\b");
    case '\f':
      return text("\\f");
    case '\n':
      return text("\\n");
    case '\r':
      return text("\\r");
    case '\t':
      return text("\\t");
    default:
      text("\\u00");
      text(hex_digits.substr(c >> 4, 1));
      text(hex_digits.substr(c & 15, 1));
  }
}

void HttpWriter::append_tail(size_t tail_start, size_t tail_bytes) noexcept {
  ASSERT(size_bytes_ <= tail_start);
  ASSERT(tail_start <= out_.size());
  ASSERT(tail_bytes <= out_.size() - tail_start);
  std::memmove(out_.data() + size_bytes_, out_.data() + tail_start, tail_bytes);
  size_bytes_ += tail_bytes;
}

}  // namespace sluice::wire
