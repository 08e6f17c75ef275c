#include "sluicegate/go_ratelimit.hpp"

#include <utility>

#include "option_bounds.hpp"

namespace sluicegate::go_ratelimit {
namespace {

constexpr uint64_t minute_ms = 60'000;
constexpr uint64_t day_ms = 86'400'000;

ReserveOptions request_of(uint64_t tokens) {
  return {.input_tokens = tokens, .max_output_tokens = 0};
}

template <typename Visit>
void for_each_subject(Client& client, Visit visit) {
  uint64_t cursor = 0;
  do {
    SubjectPage page = client.usage_page(cursor);
    for (SubjectState& each : page.subjects) visit(each);
    cursor = page.cursor;
  } while (cursor != 0);
}

}  // namespace

Stats stats_of(const std::vector<LimitState>& limits) {
  Stats stats;
  bool has_rpm = false, has_tpm = false, has_rpd = false;
  const auto take = [](const LimitState& limit, bool& has, uint64_t& used, uint64_t& most) {
    if (limit.subject != 0 || std::exchange(has, true)) return;
    used = limit.used;
    most = limit.ceiling == Ceiling::number ? limit.amount : 0;
  };
  for (const LimitState& limit : limits) {
    if (limit.metric == Metric::requests && limit.period_ms == minute_ms) {
      take(limit, has_rpm, stats.rpm, stats.max_rpm);
    } else if (limit.metric == Metric::tokens && limit.period_ms == minute_ms) {
      take(limit, has_tpm, stats.tpm, stats.max_tpm);
    } else if (limit.metric == Metric::requests && limit.period_ms == day_ms) {
      take(limit, has_rpd, stats.rpd, stats.max_rpd);
    }
  }
  return stats;
}

bool can_send(Client& client, std::string_view model, uint64_t tokens) {
  return client.check(model, request_of(tokens)).admitted();
}

Decision decide(Client& client, std::string_view model, int64_t tokens) {
  if (tokens < 0) {
    return {.code = "invalid_tokens",
            .reason = "estimated tokens must be non-negative",
            .retry_after_ms = -1};
  }
  ReserveOptions options = request_of(static_cast<uint64_t>(tokens));
  options.wants_limits = true;
  const QuotaOutcome outcome = client.check(model, options);
  const bool has_quota = outcome.code != QuotaCode::unknown_subject_allowed;
  return {.allowed = outcome.admitted(),
          .code = name(outcome.code),
          .reason = has_quota ? reason(outcome.code) : "model has no configured quota",
          .retry_after_ms = outcome.admitted() ? 0 : outcome.retry_after_ms,
          .stats = stats_of(outcome.limits),
          .failure = outcome.failure};
}

QuotaOutcome record_usage(Client& client, std::string_view model, uint64_t prompt_tokens,
                          uint64_t output_tokens) {
  return client.record(model, {.input_tokens = prompt_tokens, .output_tokens = output_tokens});
}

Reservation wait_for_capacity(Client& client, std::string_view model, uint64_t tokens,
                              std::chrono::milliseconds timeout, uint32_t lifetime_ms) {
  Bound bound = wait_limit_bound;
  bound.name = "timeout";
  require_within(bound, counted_value(timeout));
  ReserveOptions options = request_of(tokens);
  options.may_wait = true;
  options.wait_limit_ms = static_cast<uint32_t>(timeout.count());
  options.lifetime_ms = lifetime_ms;
  return client.reserve(model, options);
}

Stats stats(Client& client, std::string_view model) {
  return stats_of(client.usage(model).limits);
}

std::map<std::string, Stats> all_stats(Client& client) {
  std::map<std::string, Stats> all;
  for_each_subject(client, [&](SubjectState& each) { all[each.name] = stats_of(each.limits); });
  return all;
}

std::vector<std::string> models(Client& client) {
  std::vector<std::string> names;
  for_each_subject(client, [&](SubjectState& each) { names.push_back(std::move(each.name)); });
  return names;
}

}  // namespace sluicegate::go_ratelimit
