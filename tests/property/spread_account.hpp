// What calls over several shards must have charged: every charge remembered, from the calls and
// their answers alone, and compared with the usage that the shards report.
// Shape:  for each subject a LimitModel of every limit (quota_model.hpp) and its open reservations.
// Lives:  compare() only while no call is under way: a charge is noted when its call is answered.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "property/quota_model.hpp"

namespace sluice::quota {

class SpreadAccount {
 public:
  using Names = std::vector<std::string>;

  void put(const std::string& name, const api::Quota& quota, base::Now now) {
    Subject subject{.quota = quota, .limits = {}};
    for (const api::Limit& limit : quota.limits) {
      subject.limits.emplace(limit.name, LimitModel(limit, now.monotonic_ns));
    }
    subjects_[name] = std::move(subject);
  }

  // A reservation that was admitted.
  void open(uint64_t id, const Names& names, const api::QuotaCall& call, base::Now now) {
    const int64_t due_ns = now.monotonic_ns + call.lifetime_ms * base::ns_per_ms;
    const Held held{.subjects = names, .amounts = call.amounts, .due_ns = due_ns, .refunded = {}};
    ASSERT_TRUE(held_.emplace(id, held).second) << "an id was given twice";
    for (const std::string& name : names) {
      ++subjects_.at(name).open;
      for_each_limit(name, [&](LimitModel& limit) {
        limit.charge(share(limit, call.amounts), id, true, now.monotonic_ns, now.wall_ns);
      });
    }
  }

  // What was charged for good: admitted, or recorded without being asked.
  void charge(const Names& names, const api::QuotaCall& call, base::Now now) {
    for (const std::string& name : names) {
      for_each_limit(name, [&](LimitModel& limit) {
        const uint64_t amount = share(limit, call.amounts);
        if (call.op == api::QuotaOp::record) {
          limit.record(amount, now.monotonic_ns, now.wall_ns);
        } else {
          limit.charge(amount, 0, false, now.monotonic_ns, now.wall_ns);
        }
      });
    }
  }

  // A settle or cancel was answered. A repeat changes nothing.
  void end(const api::QuotaCall& call, const api::QuotaAnswer& answer, base::Now now) {
    ASSERT_EQ(answer.code, api::QuotaCode::ok) << api::code_name(answer.code);
    Held& held = held_.at(call.reservation);
    if (!held.is_ended) replace(call.reservation, held, actual(call, held), now);
    ASSERT_EQ(answer.amounts, held.amounts);
  }

  void expire(base::Now now) {
    for (auto& [id, held] : held_) {
      if (held.is_ended || held.is_expired || held.due_ns > now.monotonic_ns) continue;
      held.is_expired = true;
      for (const std::string& name : held.subjects) expire_part(id, held, name, now);
    }
  }

  void compare(const std::string& name, const api::QuotaBatch& usage, base::Now now) {
    const api::SubjectRow& row = usage.rows.at(0);
    Subject& subject = subjects_.at(name);
    ASSERT_EQ(row.open_reservations, subject.open) << name;
    ASSERT_EQ(row.limits_count, subject.quota.limits.size()) << name;
    for (const api::LimitReport& reported : usage.limits) {
      if (reported.kind == api::LimitKind::concurrency) {
        ASSERT_EQ(reported.used, subject.open) << name;
        ASSERT_LE(subject.open, reported.amount) << name;
      } else {
        compare(name, reported, subject.limits.at(std::string(reported.name_text())), now);
      }
    }
  }

 private:
  struct Subject {
    api::Quota quota;
    std::map<std::string, LimitModel> limits;
    uint32_t open = 0;
  };
  struct Held {
    Names subjects;
    api::Amounts amounts;
    int64_t due_ns = 0;
    bool is_expired = false;
    bool is_ended = false;  // settled or cancelled
    std::set<std::string> refunded;
  };

  static uint64_t share(const LimitModel& limit, const api::Amounts& amounts) {
    return model_share(limit.limit(), amounts, 0);
  }

  template <typename Change>
  void for_each_limit(const std::string& name, Change change) {
    for (auto& [_, limit] : subjects_.at(name).limits) change(limit);
  }

  static api::Amounts actual(const api::QuotaCall& call, const Held& held) {
    if (call.op == api::QuotaOp::cancel) {
      const bool keeps = (call.flags & api::quota_flag::keep_requests) != 0;
      return {.requests = keeps ? held.amounts.requests : 0};
    }
    const auto given = [&](uint8_t bit) { return (call.given_bits & bit) != 0; };
    api::Amounts amounts = held.amounts;
    if (given(api::given::requests)) amounts.requests = call.amounts.requests;
    if (given(api::given::input_tokens)) amounts.input_tokens = call.amounts.input_tokens;
    if (given(api::given::output_tokens)) amounts.output_tokens = call.amounts.output_tokens;
    if (given(api::given::cost)) amounts.cost = call.amounts.cost;
    return amounts;
  }

  void replace(uint64_t id, Held& held, const api::Amounts& actual, base::Now now) {
    for (const std::string& name : held.subjects) {
      if (!held.is_expired) --subjects_.at(name).open;
      for_each_limit(name, [&](LimitModel& limit) {
        const uint64_t after = share(limit, actual);
        if (held.refunded.contains(name)) {
          limit.record(after, now.monotonic_ns, now.wall_ns);
        } else {
          limit.replace(id, after, share(limit, held.amounts), now.monotonic_ns, now.wall_ns);
        }
      });
    }
    held.amounts = actual;
    held.is_ended = true;
  }

  void expire_part(uint64_t id, Held& held, const std::string& name, base::Now now) {
    Subject& subject = subjects_.at(name);
    --subject.open;
    for_each_limit(name, [&](LimitModel& limit) {
      limit.close(id);
      if (!subject.quota.refund_expired) return;
      limit.replace(id, 0, share(limit, held.amounts), now.monotonic_ns, now.wall_ns);
    });
    if (subject.quota.refund_expired) held.refunded.insert(name);
  }

  static void compare(const std::string& name, const api::LimitReport& reported, LimitModel& model,
                      base::Now now) {
    const auto expect_within = [&](uint64_t value, const Bounds& bounds, const char* what) {
      ASSERT_TRUE(bounds.least <= value && value <= bounds.most)
          << name << "." << reported.name_text() << ", " << api::kind_name(reported.kind) << ": "
          << what << " is " << value << ", but " << bounds.least << " to " << bounds.most
          << " were charged";
    };
    expect_within(reported.used, model.used(now.monotonic_ns, now.wall_ns), "used");
    expect_within(reported.reserved, model.open(now.monotonic_ns, now.wall_ns), "reserved");
    ASSERT_LE(model.admitted(now.monotonic_ns, now.wall_ns).least, reported.amount)
        << name << "." << reported.name_text() << ": more was admitted than the limit allows";
  }

  std::map<std::string, Subject> subjects_;
  std::map<uint64_t, Held> held_;
};

}  // namespace sluice::quota
