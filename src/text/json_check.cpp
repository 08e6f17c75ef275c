#include "text/json_check.hpp"

namespace sluice::text {
namespace {

bool is_space(char c) noexcept {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_hex_digit(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
// Of a string: neither its end, nor an escape, a control or a part of a longer character.
bool is_plain(char c) noexcept {
  return c != '"' && c != '\\' && c >= 0x20 && static_cast<uint8_t>(c) < 0x80;
}

}  // namespace

bool JsonCheck::add(std::string_view piece) noexcept {
  for (const char c : piece) {
    if (state_ == State::string && is_plain(c)) continue;
    state_ = next(c);
    if (state_ == State::refused) return false;
  }
  return state_ != State::refused;
}

bool JsonCheck::is_whole() const noexcept {
  return depth_ == 0 && (state_ == State::behind_value || is_number_whole());
}

JsonCheck::State JsonCheck::next(char c) noexcept {
  if (is_in_number()) {
    const State in_number = next_in_number(c);
    if (in_number != State::refused || !is_number_whole()) return in_number;
    state_ = State::behind_value;  // a number ends with what follows it
  }
  switch (state_) {
    case State::string:
      return next_in_string(c);
    case State::escape:
      return next_in_escape(c);
    case State::hex:
      if (!is_hex_digit(c)) return State::refused;
      return --units_left_ > 0 ? State::hex : State::string;
    case State::character: {
      const auto byte = static_cast<uint8_t>(c);
      if (byte < byte_min_ || byte > byte_max_) return State::refused;
      byte_min_ = 0x80;
      byte_max_ = 0xBF;
      return --units_left_ > 0 ? State::character : State::string;
    }
    case State::literal:
      if (c != literal_.front()) return State::refused;
      return begin_literal(literal_.substr(1));
    default:
      return next_in_structure(c);
  }
}

// --- Objects and arrays --------------------------------------------------------------------

JsonCheck::State JsonCheck::next_in_structure(char c) noexcept {
  if (is_space(c)) return state_;
  switch (state_) {
    case State::value:
      return begin_value(c);
    case State::first_value:
      return c == ']' ? close(false) : begin_value(c);
    case State::first_name:
      if (c == '}') return close(true);
      [[fallthrough]];
    case State::name:
      is_name_ = true;
      return c == '"' ? State::string : State::refused;
    case State::colon:
      return c == ':' ? State::value : State::refused;
    case State::behind_value:
      if (c == '}' || c == ']') return close(c == '}');
      if (c != ',' || depth_ == 0) return State::refused;
      return (objects_ & 1) != 0 ? State::name : State::value;
    default:
      return State::refused;
  }
}

JsonCheck::State JsonCheck::begin_value(char c) noexcept {
  switch (c) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      is_name_ = false;
      return State::string;
    case 't':
      return begin_literal("rue");
    case 'f':
      return begin_literal("alse");
    case 'n':
      return begin_literal("ull");
    case '-':
      return State::minus;
    case '0':
      return State::zero;
    default:
      return is_digit(c) ? State::integer : State::refused;
  }
}

JsonCheck::State JsonCheck::begin_literal(std::string_view rest) noexcept {
  literal_ = rest;
  return rest.empty() ? State::behind_value : State::literal;
}

JsonCheck::State JsonCheck::open(bool is_object) noexcept {
  if (depth_ == depth_max) return State::refused;
  ++depth_;
  objects_ = objects_ << 1 | static_cast<uint64_t>(is_object);
  return is_object ? State::first_name : State::first_value;
}

JsonCheck::State JsonCheck::close(bool is_object) noexcept {
  if (depth_ == 0 || ((objects_ & 1) != 0) != is_object) return State::refused;
  --depth_;
  objects_ >>= 1;
  return State::behind_value;
}

// --- Strings -------------------------------------------------------------------------------

JsonCheck::State JsonCheck::next_in_string(char c) noexcept {
  if (c == '"') return is_name_ ? State::colon : State::behind_value;
  if (c == '\\') return State::escape;
  const auto byte = static_cast<uint8_t>(c);
  if (byte < 0x20) return State::refused;
  return byte < 0x80 ? State::string : begin_character(byte);
}

JsonCheck::State JsonCheck::next_in_escape(char c) noexcept {
  constexpr std::string_view escapes = "\"\\/bfnrt";
  if (c == 'u') {
    units_left_ = 4;
    return State::hex;
  }
  return escapes.find(c) != escapes.npos ? State::string : State::refused;
}

// The first byte of several: no overlong forms, no surrogates, nothing above U+10FFFF.
JsonCheck::State JsonCheck::begin_character(uint8_t byte) noexcept {
  if (byte < 0xC2 || byte > 0xF4) return State::refused;
  units_left_ = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
  if (byte == 0xE0) byte_min_ = 0xA0;
  if (byte == 0xED) byte_max_ = 0x9F;
  if (byte == 0xF0) byte_min_ = 0x90;
  if (byte == 0xF4) byte_max_ = 0x8F;
  return State::character;
}

// --- Numbers -------------------------------------------------------------------------------

bool JsonCheck::is_in_number() const noexcept {
  return state_ >= State::minus && state_ <= State::exponent_digits;
}

bool JsonCheck::is_number_whole() const noexcept {
  return state_ == State::zero || state_ == State::integer || state_ == State::fraction ||
         state_ == State::exponent_digits;
}

JsonCheck::State JsonCheck::next_in_number(char c) const noexcept {
  const bool is_exponent = c == 'e' || c == 'E';
  switch (state_) {
    case State::minus:
      if (c == '0') return State::zero;
      return is_digit(c) ? State::integer : State::refused;
    case State::zero:
    case State::integer:
      if (c == '.') return State::point;
      if (is_exponent) return State::exponent;
      return state_ == State::integer && is_digit(c) ? State::integer : State::refused;
    case State::point:
      return is_digit(c) ? State::fraction : State::refused;
    case State::fraction:
      if (is_exponent) return State::exponent;
      return is_digit(c) ? State::fraction : State::refused;
    case State::exponent:
      if (c == '+' || c == '-') return State::exponent_sign;
      [[fallthrough]];
    case State::exponent_sign:
    case State::exponent_digits:
      return is_digit(c) ? State::exponent_digits : State::refused;
    default:
      return State::refused;
  }
}

}  // namespace sluice::text
