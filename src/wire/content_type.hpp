// The content types of REST's answers.
#pragma once

#include <string_view>

namespace sluice::wire {

inline constexpr std::string_view text_plain = "text/plain; charset=UTF-8";
inline constexpr std::string_view application_json = "application/json";

}  // namespace sluice::wire
