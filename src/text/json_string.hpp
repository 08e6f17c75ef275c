// Cuts a text into the pieces of a JSON string: runs without escapes, and escapes.
// Flow:   JsonWriter -> JsonStringPieces -> its output; no allocation.
// Shape:  as Go's encoding/json: short escapes such as \n, \u00XX for other controls, \u2028 and
//         \u2029 (some readers take them for line ends), \ufffd for every byte that is not UTF-8.
// Lives:  borrows the text; a piece until the next one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::text {

enum class Escapes : uint8_t {
  plain,
  html,   // also '<', '>' and '&': Go's default, so gocc's replies have them
  ascii,  // also everything but printable ASCII: safe on a terminal
};

class JsonStringPieces {
 public:
  JsonStringPieces(std::string_view text, Escapes escapes) noexcept
      : text_(text), escapes_(escapes) {}

  bool is_done() const noexcept { return text_.empty(); }
  // Must not be called when is_done().
  std::string_view next() noexcept;

 private:
  bool is_unescaped(uint32_t character) const noexcept;
  size_t run_bytes() const noexcept;
  std::string_view escape() noexcept;

  std::string_view text_;
  Escapes escapes_;
  std::array<char, 12> escape_;  // of the longest: a surrogate pair
};

}  // namespace sluice::text
