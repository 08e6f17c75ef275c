// Cuts a text into the pieces of a JSON string: runs that stand as they are, and escapes.
// Flow:   JsonWriter -> JsonStringPieces -> its output; no allocation.
// Shape:  as Go's encoding/json: \n and its like, \u00XX for other controls, \u2028 and \u2029
// (some
//         readers take them for ends of lines), \ufffd for every byte that is no UTF-8.
// Lives:  borrows the text; a piece until the next one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::text {

enum class Escapes : uint8_t {
  plain,
  html,   // '<', '>' and '&', too: Go's default, so gocc's replies have them
  ascii,  // everything but printable ASCII, too: safe on a terminal
};

class JsonStringPieces {
 public:
  JsonStringPieces(std::string_view text, Escapes escapes) noexcept
      : text_(text), escapes_(escapes) {}

  bool is_done() const noexcept { return text_.empty(); }
  // Not once it is done.
  std::string_view next() noexcept;

 private:
  bool stands(uint32_t character) const noexcept;
  size_t run_bytes() const noexcept;
  std::string_view escape() noexcept;

  std::string_view text_;
  Escapes escapes_;
  std::array<char, 12> escape_;  // of the longest: a surrogate pair
};

}  // namespace sluice::text
