#include "migration/model_quota.hpp"

#include <algorithm>
#include <string_view>

#include "base/time.hpp"
#include "policy/quota_text.hpp"

namespace sluice::migration {
namespace {

using api::Ceiling;
using api::Limit;
using api::LimitKind;
using api::Metric;

Limit limit_of(std::string_view name, Metric metric, LimitKind kind, int64_t amount) {
  Limit limit{.name = std::string(name), .metric = metric, .kind = kind, .time_zone = {}};
  limit.period_ms =
      kind == LimitKind::anchored_day ? base::ns_per_day / base::ns_per_ms : minute_ms;
  limit.ceiling = amount == 0 ? Ceiling::unlimited : Ceiling::number;
  limit.amount = static_cast<uint64_t>(amount);
  return limit;
}

std::optional<ModelLimit> model_limit_of(const Limit& limit) {
  const bool is_minute = limit.kind == LimitKind::sliding && limit.period_ms == minute_ms;
  if (limit.metric == Metric::tokens && is_minute) return ModelLimit::tpm;
  if (limit.metric != Metric::requests) return std::nullopt;
  if (is_minute) return ModelLimit::rpm;
  if (limit.kind == LimitKind::anchored_day) return ModelLimit::rpd;
  return std::nullopt;
}

// Its 0 is "unlimited": it has no word for a limit that lets nothing pass.
bool lets_nothing_pass(const Limit& limit) {
  return limit.ceiling == Ceiling::block || (limit.ceiling == Ceiling::number && limit.amount == 0);
}

// How much it admits, to compare with others.
uint64_t ceiling_of(const Limit& limit) {
  return limit.ceiling == Ceiling::unlimited ? UINT64_MAX : limit.amount;
}

int64_t& amount_in(transfer::ModelQuota& quota, ModelLimit which) {
  if (which == ModelLimit::rpm) return quota.max_rpm;
  return which == ModelLimit::tpm ? quota.max_tpm : quota.max_rpd;
}

class QuotaMapping {
 public:
  explicit QuotaMapping(const api::Quota& quota) : quota_(quota) {}

  QuotaOutThere run() {
    for (size_t at = 0; at < quota_.limits.size(); ++at) take(at);
    for (size_t which = 0; which < model_limits_count; ++which) set(static_cast<ModelLimit>(which));
    mapped_.is_known =
        quota_.limits.empty() ||
        std::ranges::any_of(mapped_.places, [](const auto& place) { return place.has_value(); });
    if (quota_.refund_expired) {
      leave_out("expired", "reservations that expire are refunded here; the library has none");
    }
    if (quota_.overtakers_max > 0) leave_out("overtakers", "the library has no queues");
    return std::move(mapped_);
  }

 private:
  void take(size_t at) {
    const Limit& limit = quota_.limits[at];
    const auto which = model_limit_of(limit);
    if (!which) {
      return leave_out(at,
                       "the library limits only requests and tokens of any minute, and "
                       "requests of a day");
    }
    if (lets_nothing_pass(limit)) {
      return leave_out(at,
                       "it lets nothing pass, for which the library has no word: it will allow "
                       "what this limit refuses");
    }
    std::optional<size_t>& place = mapped_.places[static_cast<size_t>(*which)];
    const bool is_lower = !place || ceiling_of(limit) < ceiling_of(quota_.limits[*place]);
    if (place) leave_out(is_lower ? *place : at, "another limit of the same kind is lower");
    if (is_lower) place = at;
  }

  void set(ModelLimit which) {
    const auto place = mapped_.places[static_cast<size_t>(which)];
    if (!place) return;
    const Limit& limit = quota_.limits[*place];
    const bool is_number = limit.ceiling == Ceiling::number;
    amount_in(mapped_.quota, which) = is_number ? static_cast<int64_t>(limit.amount) : 0;
  }

  void leave_out(size_t at, std::string text) {
    leave_out(policy::limit_place(at, quota_.limits[at].name), std::move(text));
  }
  void leave_out(std::string place, std::string text) {
    mapped_.left_out.push_back({.place = std::move(place), .text = std::move(text)});
  }

  const api::Quota& quota_;
  QuotaOutThere mapped_;
};

}  // namespace

api::Quota quota_of(const transfer::ModelQuota& quota) {
  api::Quota ours;
  ours.limits = {limit_of("rpm", Metric::requests, LimitKind::sliding, quota.max_rpm),
                 limit_of("tpm", Metric::tokens, LimitKind::sliding, quota.max_tpm),
                 limit_of("rpd", Metric::requests, LimitKind::anchored_day, quota.max_rpd)};
  return ours;
}

QuotaOutThere model_quota_of(const api::Quota& quota) {
  return QuotaMapping(quota).run();
}

}  // namespace sluice::migration
