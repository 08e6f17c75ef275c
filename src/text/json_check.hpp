// Checks whether a text is JSON, piece by piece, without building anything of it: a long text can
// be checked in slices, so that none of them takes long.
// Flow:   the pieces, in their order -> add() -> is_whole(), behind the last one.
// Shape:  one value by RFC 8259, in UTF-8, with white space around it. Escaped surrogates need no
//         partner, and names may repeat: the grammar permits both.
// Bounds: depth_max open objects and arrays; a text with more is refused.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::text {

class JsonCheck {
 public:
  static constexpr uint32_t depth_max = 64;

  // False: the text is not JSON, whatever follows.
  bool add(std::string_view piece) noexcept;
  // What was added is one whole value.
  bool is_whole() const noexcept;

 private:
  enum class State : uint8_t {
    value,         // it must follow
    first_value,   // of an array; or the array's end
    first_name,    // of an object; or the object's end
    name,          // it must follow
    colon,         // likewise
    behind_value,  // a comma or the end of what is open must follow
    string,
    escape,     // behind a backslash
    hex,        // of an escape
    character,  // within one of several bytes
    literal,    // true, false or null
    minus,
    zero,
    integer,
    point,
    fraction,
    exponent,
    exponent_sign,
    exponent_digits,
    refused,
  };

  State next(char c) noexcept;
  State next_in_structure(char c) noexcept;
  State next_in_string(char c) noexcept;
  State next_in_escape(char c) noexcept;
  State next_in_number(char c) const noexcept;
  State begin_value(char c) noexcept;
  State begin_literal(std::string_view rest) noexcept;
  State begin_character(uint8_t byte) noexcept;
  State open(bool is_object) noexcept;
  State close(bool is_object) noexcept;
  bool is_in_number() const noexcept;
  bool is_number_whole() const noexcept;

  State state_ = State::value;
  bool is_name_ = false;      // the string is one
  uint8_t units_left_ = 0;    // digits of the escape, or bytes of the character
  uint8_t byte_min_ = 0x80;   // of the character's next byte
  uint8_t byte_max_ = 0xBF;   // likewise
  uint32_t depth_ = 0;        // of open objects and arrays
  uint64_t objects_ = 0;      // a bit each, the innermost last: it is an object
  std::string_view literal_;  // what must follow of it
};

}  // namespace sluice::text
