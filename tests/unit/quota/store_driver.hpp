// A quota store asked one call at a time, at a time of the test's choosing.
// Shape:  one shard; its clocks begin at whole seconds, so that times in milliseconds are exact.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quota/quota_store.hpp"

namespace sluice::quota {

using Names = std::vector<std::string>;

inline std::string numbered(std::string name, int number) {
  return name.append(std::to_string(number));
}

inline api::Limit limit_of(std::string name, api::Metric metric, uint64_t amount,
                           api::LimitKind kind = api::LimitKind::fixed,
                           int64_t period_ms = 60'000) {
  return {.name = std::move(name),
          .metric = metric,
          .kind = kind,
          .amount = amount,
          .period_ms = period_ms,
          .time_zone = {}};
}

// Per minute, of the kind `fixed`: what is used is exact, and ends all at once.
inline api::Limit rpm(uint64_t amount) {
  return limit_of("rpm", api::Metric::requests, amount);
}
inline api::Limit tpm(uint64_t amount) {
  return limit_of("tpm", api::Metric::tokens, amount);
}
inline api::Limit rpd(uint64_t amount) {
  return limit_of("rpd", api::Metric::requests, amount, api::LimitKind::anchored_day, 86'400'000);
}
inline api::Limit slots(uint64_t amount) {
  return limit_of("slots", api::Metric::concurrency, amount, api::LimitKind::concurrency, 0);
}
inline api::Limit with(api::Limit limit, api::Ceiling ceiling) {
  limit.ceiling = ceiling;
  return limit;
}

inline api::Quota quota_of(std::vector<api::Limit> limits) {
  return {.limits = std::move(limits), .profile = {}};
}

// A call for these amounts; every amount is given.
inline api::QuotaCall asking(const api::Amounts& amounts) {
  return {.given_bits = 15, .lifetime_ms = 60'000, .amounts = amounts};
}
inline api::QuotaCall asking_tokens(uint64_t tokens) {
  return asking({.requests = 1, .input_tokens = tokens});
}
inline api::QuotaCall waiting(api::QuotaCall call, api::Ticket ticket, uint32_t wait_ms_max = 0) {
  call.flags |= api::quota_flag::may_wait;
  call.ticket = ticket;
  call.wait_ms_max = wait_ms_max;
  return call;
}
inline api::QuotaCall with_id(api::QuotaCall call, std::string_view id) {
  call.client_id = id;
  return call;
}
inline api::QuotaCall named(api::QuotaCall call, uint64_t reservation) {
  call.reservation = reservation;
  return call;
}

class StoreDriver {
 public:
  explicit StoreDriver(const Options& options = {.subjects_max = 100,
                                                 .reservations_max = 1'000,
                                                 .waiters_max = 100,
                                                 .name_seed = 42,
                                                 .id_seed = 42})
      : store(options) {}

  // ---------------------------------------------------------------------------- time
  base::Now now() const { return {.monotonic_ns = ns, .wall_ns = wall_ns}; }
  void advance_ns(int64_t by) {
    ns += by;
    wall_ns += by;
    store.run_due(now());
  }
  void advance_ms(int64_t by) { advance_ns(by * base::ns_per_ms); }

  // --------------------------------------------------------------------------- calls
  api::QuotaAnswer ask(api::QuotaCall call, const Names& names = {}, const api::Quota& quota = {}) {
    const api::QuotaAnswer answer = ask_unchecked(call, names, quota);
    store.check_invariants(now());
    return answer;
  }
  // For so many calls that a check of all invariants after each takes too long.
  api::QuotaAnswer ask_unchecked(api::QuotaCall call, const Names& names = {},
                                 const api::Quota& quota = {}) {
    batch.clear();
    batch.calls.push_back(call);
    batch.calls[0].subjects_count = static_cast<uint8_t>(names.size());
    asked_ = names;
    batch.subjects.assign(asked_.begin(), asked_.end());
    batch.new_quotas.push_back(quota);
    if (lent != nullptr) batch.wait_answers.assign(1, lent);
    batch.make_answers();
    store.decide(batch, now());
    return batch.answers[0];
  }
  api::QuotaAnswer op(api::QuotaOp what, api::QuotaCall call, const Names& names = {}) {
    call.op = what;
    return ask(call, names);
  }

  void put(const std::string& name, const api::Quota& quota) {
    ask({.op = api::QuotaOp::put}, {name}, quota);
  }
  void put(const std::string& name, std::vector<api::Limit> limits) {
    put(name, quota_of(std::move(limits)));
  }
  api::QuotaAnswer reserve(const Names& names, const api::QuotaCall& call) {
    return op(api::QuotaOp::reserve, call, names);
  }
  api::QuotaAnswer check(const Names& names, const api::QuotaCall& call) {
    return op(api::QuotaOp::check, call, names);
  }
  api::QuotaAnswer record(const Names& names, const api::Amounts& amounts, uint64_t cached = 0) {
    return ask({.op = api::QuotaOp::record, .amounts = amounts, .cached_input_tokens = cached},
               names);
  }
  // With requests and cost as they were reserved.
  api::QuotaAnswer settle(uint64_t reservation, uint64_t input, uint64_t output = 0,
                          uint64_t cached = 0) {
    return ask({.op = api::QuotaOp::settle,
                .given_bits = api::given::input_tokens | api::given::output_tokens,
                .amounts = {.input_tokens = input, .output_tokens = output},
                .cached_input_tokens = cached,
                .reservation = reservation});
  }
  api::QuotaAnswer cancel(uint64_t reservation, uint8_t flags = 0) {
    return ask({.op = api::QuotaOp::cancel, .flags = flags, .reservation = reservation});
  }
  api::QuotaAnswer extend(uint64_t reservation, uint32_t lifetime_ms = 0) {
    return ask(
        {.op = api::QuotaOp::extend, .lifetime_ms = lifetime_ms, .reservation = reservation});
  }
  api::QuotaAnswer remove(const std::string& name) { return op(api::QuotaOp::remove, {}, {name}); }
  api::QuotaAnswer reset_all() { return op(api::QuotaOp::reset_all, {}); }
  api::QuotaAnswer reset(const std::string& name) { return op(api::QuotaOp::reset, {}, {name}); }

  // ----------------------------------------------------------------- what is reported
  api::SubjectRow row(const std::string& name) {
    const api::QuotaAnswer answer = op(api::QuotaOp::usage, {}, {name});
    return answer.rows_count == 1 ? batch.rows[answer.first_row] : api::SubjectRow{};
  }
  api::LimitReport limit(const std::string& name, std::string_view limit_name) {
    const api::SubjectRow reported = row(name);
    for (uint32_t at = 0; at < reported.limits_count; ++at) {
      const api::LimitReport& report = batch.limits[reported.first_limit + at];
      if (report.name_text() == limit_name) return report;
    }
    return {};
  }
  uint64_t used(const std::string& name, std::string_view limit_name) {
    return limit(name, limit_name).used;
  }
  // Names of the limits that the last answer calls violated, as SUBJECT.LIMIT.
  Names violated() const {
    Names names;
    const api::QuotaAnswer& answer = batch.answers[0];
    for (uint32_t at = 0; at < answer.limits_count; ++at) {
      const api::LimitReport& report = batch.limits[answer.first_limit + at];
      if (!report.violated) continue;
      names.push_back(std::string(batch.subjects[report.subject]) + "." +
                      std::string(report.name_text()));
    }
    return names;
  }

  struct Outcome {
    api::Ticket ticket;
    api::QuotaCode code;
    bool operator==(const Outcome&) const = default;
  };
  // Outcomes of waiters since the last call, oldest first.
  std::vector<Outcome> outcomes() {
    std::vector<Outcome> reported;
    for (const api::Grant& grant : store.grants()) {
      reported.push_back({grant.ticket, grant.code});
      granted = grant.refund_claim.reservation;
    }
    store.keep_grants(0);
    store.check_invariants(now());
    return reported;
  }
  std::vector<api::Ticket> served() {
    std::vector<api::Ticket> tickets;
    for (const Outcome& outcome : outcomes()) {
      if (api::admits(outcome.code)) tickets.push_back(outcome.ticket);
    }
    return tickets;
  }

  QuotaStore store;
  api::WaitAnswer* lent = nullptr;  // with the next calls
  api::QuotaBatch batch;
  int64_t ns = 1'000 * base::ns_per_s;
  int64_t wall_ns = 1'750'000'000 * base::ns_per_s;
  uint64_t granted = 0;  // the reservation of the last one that was served

 private:
  Names asked_;  // of the last call
};

}  // namespace sluice::quota
