// Joins words as a sentence lists them: "fixed, sliding or gcra".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice::text {

// `last` joins the last two words: "or" or "and". Without words the list is empty.
std::string joined_list(std::span<const std::string_view> words, std::string_view last);

}  // namespace sluice::text
