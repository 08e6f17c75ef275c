// The calls of a Client by the names of go-ratelimit, for programs that move in from it
// (docs/moving-in.md).
// Shape:  a model is a subject; one request and its tokens are asked for at a time.
// Errors: as the calls of Client that they stand for.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluicegate/client.hpp"

namespace sluicegate::go_ratelimit {

// Requests and tokens of this minute, requests of this day; a maximum of 0 is no limit.
struct Stats {
  uint64_t rpm = 0;
  uint64_t max_rpm = 0;
  uint64_t tpm = 0;
  uint64_t max_tpm = 0;
  uint64_t rpd = 0;
  uint64_t max_rpd = 0;

  bool operator==(const Stats&) const = default;
};

struct [[nodiscard]] Decision {
  bool allowed = false;
  std::string_view code{};     // "ok", "tpm_exceeded", ...; "invalid_tokens": nothing was sent
  std::string_view reason{};   // its sentence
  int64_t retry_after_ms = 0;  // -1: waiting does not help
  Stats stats{};
  Failure failure = Failure::none;  // none: the server has decided

  explicit operator bool() const noexcept { return allowed; }
};

// Whether a request of so many tokens would be admitted now. Other callers may use the quota
// before it is made: only a reservation is certain.
bool can_send(Client& client, std::string_view model, uint64_t tokens);
// The same with its reason; for a negative number of tokens the code is "invalid_tokens".
Decision decide(Client& client, std::string_view model, int64_t tokens);
// One request that was made.
QuotaOutcome record_usage(Client& client, std::string_view model, uint64_t prompt_tokens,
                          uint64_t output_tokens);
// Reserves one request, waiting for at most `timeout` (0: as long as the server allows).
Reservation wait_for_capacity(Client& client, std::string_view model, uint64_t tokens,
                              std::chrono::milliseconds timeout = {}, uint32_t lifetime_ms = 0);
Stats stats(Client& client, std::string_view model);
// Of all subjects, page by page.
std::map<std::string, Stats> all_stats(Client& client);
std::vector<std::string> models(Client& client);

// The figures among these limits: the first one for each.
Stats stats_of(const std::vector<LimitState>& limits);

}  // namespace sluicegate::go_ratelimit
