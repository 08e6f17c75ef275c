#include "text/json_string.hpp"

#include "text/number.hpp"
#include "text/utf8.hpp"

namespace sluice::text {
namespace {

// Whether a byte never needs an escape; bytes beyond ASCII depend on their neighbours.
consteval std::array<bool, 256> plain_bytes(Escapes escapes) noexcept {
  std::array<bool, 256> plain{};
  for (size_t byte = 0x20; byte < 0x80; ++byte) plain[byte] = true;
  plain['"'] = plain['\\'] = false;
  if (escapes == Escapes::html) plain['<'] = plain['>'] = plain['&'] = false;
  if (escapes == Escapes::ascii) plain[0x7F] = false;
  return plain;
}

constexpr std::array<std::array<bool, 256>, 3> plain_bytes_of{
    {plain_bytes(Escapes::plain), plain_bytes(Escapes::html), plain_bytes(Escapes::ascii)}};

// The letters of short escapes; 0: the character has none.
consteval std::array<char, 256> short_names() noexcept {
  std::array<char, 256> names{};
  names['"'] = '"';
  names['\\'] = '\\';
  names['\b'] = 'b';
  names['\f'] = 'f';
  names['\n'] = 'n';
  names['\r'] = 'r';
  names['\t'] = 't';
  return names;
}

constexpr std::array<char, 256> names = short_names();

}  // namespace

// Whether a character beyond ASCII needs no escape.
bool JsonStringPieces::is_unescaped(uint32_t character) const noexcept {
  return escapes_ != Escapes::ascii && character != 0x2028 && character != 0x2029;
}

size_t JsonStringPieces::run_bytes() const noexcept {
  const auto& plain = plain_bytes_of[static_cast<size_t>(escapes_)];
  size_t bytes = 0;
  for (;;) {
    while (bytes < text_.size() && plain[static_cast<unsigned char>(text_[bytes])]) ++bytes;
    if (bytes == text_.size() || static_cast<unsigned char>(text_[bytes]) < 0x80) return bytes;
    const Character character = first_character(text_.substr(bytes));
    if (!character.value || !is_unescaped(*character.value)) return bytes;
    bytes += character.bytes;
  }
}

std::string_view JsonStringPieces::next() noexcept {
  const size_t bytes = run_bytes();
  if (bytes == 0) return escape();
  const std::string_view run = text_.substr(0, bytes);
  text_.remove_prefix(bytes);
  return run;
}

std::string_view JsonStringPieces::escape() noexcept {
  const Character character = first_character(text_);
  const char name = names[static_cast<unsigned char>(text_[0])];
  text_.remove_prefix(character.bytes);
  escape_[0] = '\\';
  if (name != 0) {
    escape_[1] = name;
    return {escape_.data(), 2};
  }
  const uint32_t value = character.value.value_or(0xFFFD);
  const bool is_pair = value >= 0x10000;
  escape_[1] = 'u';
  write_hex(is_pair ? 0xD800 + ((value - 0x10000) >> 10) : value, &escape_[2], 4);
  if (!is_pair) return {escape_.data(), 6};
  escape_[6] = '\\';
  escape_[7] = 'u';
  write_hex(0xDC00 + ((value - 0x10000) & 0x3FF), &escape_[8], 4);
  return {escape_.data(), 12};
}

}  // namespace sluice::text
