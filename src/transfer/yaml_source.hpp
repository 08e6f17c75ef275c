// The text of a YAML file, handed to yaml-cpp piece by piece.
// Flow:   find_bad_character(text) -> YamlSource -> std::istream -> YAML::Parser.
// Bounds: yaml-cpp keeps every token of a flow collection ("[1, 2, 3") in memory, a hundred bytes
//         for one of text, until it knows that no colon follows. So the text ends when it has read
//         yaml_ahead_bytes_max more than it has reported; then is_too_far() is true.
#pragma once

#include <cstddef>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>

namespace sluice::transfer {

inline constexpr size_t yaml_ahead_bytes_max = 256 * 1'024;

struct TextPosition {
  size_t line = 1;
  size_t column = 1;  // in bytes
};

// "line 12, column 3"
std::string place_of(TextPosition position);

// The first that YAML does not allow: bytes that are not UTF-8, control characters. yaml-cpp would
// take one of them for the end of the text.
std::optional<TextPosition> find_bad_character(std::string_view text) noexcept;

class YamlSource : public std::streambuf {
 public:
  explicit YamlSource(std::string_view text) noexcept : text_(text) {}

  void reported_up_to(size_t position) noexcept { reported_ = position; }
  bool is_too_far() const noexcept { return is_too_far_; }

 protected:
  int_type underflow() override;

 private:
  std::string_view text_;
  size_t read_ = 0;
  size_t reported_ = 0;
  bool is_too_far_ = false;
};

}  // namespace sluice::transfer
