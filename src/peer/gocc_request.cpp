#include "peer/gocc_request.hpp"

#include <charconv>

namespace sluice::peer {
namespace {

// Go's net/url leaves these as they are in a path, and '/', which would end the key.
bool is_plain(char c) noexcept {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const bool is_digit = c >= '0' && c <= '9';
  constexpr std::string_view others = "-_.~$&+,:;=@";
  return is_letter || is_digit || others.find(c) != others.npos;
}

std::string escaped(std::string_view key) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text;
  for (const char c : key) {
    if (is_plain(c)) {
      text += c;
      continue;
    }
    const auto byte = static_cast<uint8_t>(c);
    text += {'%', digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

}  // namespace

std::optional<GoccRequest> gocc_request(const api::Entry& entry) {
  const api::Overrides& overrides = entry.overrides();
  const bool is_known =
      entry.op != api::Op::look && entry.cost == 1 && overrides.window_ms == api::keep_window;
  if (!is_known) return {};
  const std::string path = "/rate/" + escaped(entry.key());
  // gocc takes any id for that of a request.
  if (entry.op == api::Op::release) {
    return GoccRequest{"DELETE", path + "/0?ik=true", overrides.correlation_id};
  }
  GoccRequest request{"GET", path + "?ik=true", overrides.correlation_id};
  // Without a ticket its node has no room for a waiter, who would wait for ever.
  const bool may_wait = (entry.flags & api::flag::may_wait) != 0 && entry.ticket != api::no_ticket;
  if (may_wait) request.path += "&canWait=true";
  if (overrides.max_requests != api::keep) {
    request.path += "&maxRequests=" + std::to_string(overrides.max_requests);
  }
  if (overrides.max_requests_in_queue != api::keep) {
    request.path += "&maxRequestsInQueue=" + std::to_string(overrides.max_requests_in_queue);
  }
  return request;
}

api::Verdict denial_of(const api::Entry& entry) noexcept {
  if ((entry.flags & api::flag::waiters_full) != 0) return api::Verdict::waiters_full;
  if ((entry.flags & api::flag::connection_waiters_full) != 0) {
    return api::Verdict::connection_waiters_full;
  }
  return api::Verdict::denied;
}

api::Verdict verdict_of(const GoccAnswer& answer) noexcept {
  switch (answer.status) {
    case 200:
      return api::Verdict::approved;
    case 429:
      return api::Verdict::denied;
    case 400:
    case 403:
      return api::Verdict::not_allowed;
    default:
      return api::Verdict::owner_unreachable;
  }
}

uint64_t request_id_of(const GoccAnswer& answer) noexcept {
  uint64_t id = 0;
  std::from_chars(answer.body.data(), answer.body.data() + answer.body.size(), id);
  return id;
}

}  // namespace sluice::peer
