#include "rest_answer.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace sluice::simulation {

std::optional<RestAnswer> take_rest_answer(Bytes& inbox) {
  const std::string text(reinterpret_cast<const char*>(inbox.data()), inbox.size());
  const size_t head_end = text.find("\r\n\r\n");
  if (head_end == std::string::npos) return std::nullopt;
  std::string head = text.substr(0, head_end + 2);
  std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::string_view length_name = "\r\ncontent-length: ";
  size_t body_bytes = 0;
  if (const size_t at = head.find(length_name); at != std::string::npos) {
    body_bytes = std::stoul(head.substr(at + length_name.size()));
  }
  if (text.size() < head_end + 4 + body_bytes) return std::nullopt;
  inbox.erase(inbox.begin(), inbox.begin() + static_cast<ptrdiff_t>(head_end + 4 + body_bytes));
  return RestAnswer{.status = std::stoi(head.substr(9, 3)),
                    .is_degraded = head.find("\r\nsluicegate-degraded") != std::string::npos};
}

}  // namespace sluice::simulation
