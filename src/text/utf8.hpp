// Cuts UTF-8 into characters.
// Shape:  by Go's rules: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::text {

// Without a value: a byte that is not UTF-8.
struct Character {
  std::optional<uint32_t> value;
  size_t bytes = 1;
};

// `text` must not be empty.
Character first_character(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

}  // namespace sluice::text
