#include "transfer/yaml_source.hpp"

#include <algorithm>
#include <cstdint>

#include "text/utf8.hpp"

namespace sluice::transfer {
namespace {

constexpr size_t piece_bytes = 4'096;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// YAML 1.2, "c-printable", without the byte order mark. Go's yaml has the same.
bool is_printable(uint32_t character) noexcept {
  if (character < 0x20) return character == '\t' || character == '\n' || character == '\r';
  if (character < 0x7F) return true;
  if (character < 0xA0) return character == 0x85;
  return character != 0xFEFF && character != 0xFFFE && character != 0xFFFF;
}

}  // namespace

std::string place_of(TextPosition position) {
  return "line " + std::to_string(position.line) + ", column " + std::to_string(position.column);
}

std::optional<TextPosition> find_bad_character(std::string_view text) noexcept {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  TextPosition position;
  while (!text.empty()) {
    const text::Character character = text::first_character(text);
    if (!character.value || !is_printable(*character.value)) return position;
    position.column += character.bytes;
    if (*character.value == '\n') position = {.line = position.line + 1};
    text.remove_prefix(character.bytes);
  }
  return std::nullopt;
}

YamlSource::int_type YamlSource::underflow() {
  is_too_far_ = is_too_far_ || read_ > reported_ + yaml_ahead_bytes_max;
  if (is_too_far_ || read_ == text_.size()) return traits_type::eof();
  const std::string_view piece = text_.substr(read_, piece_bytes);
  read_ += piece.size();
  char* const begin = const_cast<char*>(piece.data());  // a get area is never written to
  setg(begin, begin, begin + piece.size());
  return traits_type::to_int_type(*begin);
}

}  // namespace sluice::transfer
