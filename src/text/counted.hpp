// A number of things, for people: "1 request", "2 requests".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::text {

inline std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  std::string text = std::to_string(count);
  return text.append(" ").append(count == 1 ? one : many);
}

}  // namespace sluice::text
