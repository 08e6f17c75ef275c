// Goal: the request path allocates nothing once it is warm.
// Method: operator new aborts while reservations come, wait, end and expire, and subjects are made
//         and forgotten; without patterns, for RE2 allocates.
#include <gtest/gtest.h>

#include <array>

#include "support/allocation_guard.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {
namespace {

using api::LimitKind;
using api::Metric;
using api::QuotaCall;
using api::QuotaOp;

constexpr uint8_t reported_limits = api::quota_flag::wants_limits;

// A batch that is filled again and again, as a session does.
class Traffic {
 public:
  Traffic() {
    api::Limit day = limit_of("day", Metric::tokens, 5'000'000, LimitKind::calendar, 0);
    day.unit = api::CalendarUnit::day;
    day.time_zone = "America/Los_Angeles";
    driver_.put("{t}a", {rpm(400), slots(40), day});
    driver_.put("{t}b", {limit_of("s", Metric::tokens, 9'000, LimitKind::sliding),
                         limit_of("g", Metric::cost, 9'000, LimitKind::gcra)});
    policy::QuotaRules rules;
    rules.unknown = policy::UnknownSubjects::use_quota;
    rules.unknown_quota = quota_of({rpm(3)});
    book_ = std::make_unique<policy::QuotaBook>(rules);
    driver_.store.adopt(*book_, driver_.now());
    for (int name = 0; name < 40; ++name) names_.push_back(numbered("new", name));
  }

  void step(uint32_t number) {
    batch_.clear();
    reserve(number);
    end(number);
    batch_.make_answers();
    driver_.store.decide(batch_, driver_.now());
    for (const api::QuotaAnswer& answer : batch_.answers) {
      if (api::admits(answer.code) && answer.reservation != 0) keep(answer.reservation);
    }
    driver_.advance_ms(number % 7 * 20);
    for (const api::Grant& grant : driver_.store.grants()) {
      if (grant.refund_claim.reservation != 0) keep(grant.refund_claim.reservation);
    }
    granted_ += driver_.store.grants().size();
    driver_.store.keep_grants(0);
    if (number % 50 == 0) driver_.store.withdraw(number % 100, number % 100, driver_.now());
  }
  uint64_t granted() const { return granted_; }
  const QuotaStore& store() const { return driver_.store; }
  base::Now now() const { return driver_.now(); }

 private:
  void add(QuotaCall call, std::string_view first, std::string_view second = {}) {
    call.first_subject = static_cast<uint32_t>(batch_.subjects.size());
    call.subjects_count = second.empty() ? 1 : 2;
    batch_.subjects.push_back(first);
    if (!second.empty()) batch_.subjects.push_back(second);
    batch_.calls.push_back(call);
  }
  void reserve(uint32_t number) {
    QuotaCall call = asking({.requests = 1, .input_tokens = number % 90, .cost = number % 70});
    call.lifetime_ms = 100 + number % 900;
    call.flags = reported_limits;
    call.binding = number % 5;
    call.owner = "worker 7";
    add(call, "{t}a", "{t}b");
    add(waiting(call, number % 100, 1'000), "{t}b");
    if (number % 3 == 0) call.client_id = names_[number % names_.size()];
    add(call, "{t}b", "{t}a");
    add(call, names_[number % names_.size()]);
    call.op = QuotaOp::check;
    add(call, "{t}a", "{t}b");
    call.op = QuotaOp::record;
    add(call, "{t}a");
  }
  void end(uint32_t number) {
    QuotaCall call{
        .given_bits = 15, .amounts = {.requests = 1, .input_tokens = 5}, .reservation = held()};
    call.op = std::array{QuotaOp::settle, QuotaOp::cancel, QuotaOp::extend}[number % 3];
    batch_.calls.push_back(call);
    if (number % 40 == 0)
      batch_.calls.push_back({.op = QuotaOp::end_binding, .binding = number % 5});
  }
  void keep(uint64_t reservation) { held_[held_count_++ % held_.size()] = reservation; }
  uint64_t held() { return held_[ended_++ % held_.size()]; }

  std::unique_ptr<policy::QuotaBook> book_;
  StoreDriver driver_;
  api::QuotaBatch batch_;
  Names names_;
  std::array<uint64_t, 64> held_{};
  size_t held_count_ = 0;
  size_t ended_ = 0;
  uint64_t granted_ = 0;
};

TEST(Engine, allocates_nothing_for_requests_once_it_is_warm) {
  Traffic traffic;
  for (uint32_t number = 0; number < 2'000; ++number) traffic.step(number);
  {
    const support::ForbidAllocation forbidden;
    for (uint32_t number = 2'000; number < 20'000; ++number) traffic.step(number);
  }
  traffic.store().check_invariants(traffic.now());
  const Statistics& statistics = traffic.store().statistics();
  EXPECT_GT(statistics.settled, 300U);
  EXPECT_GT(statistics.cancelled, 300U);
  EXPECT_GT(statistics.expired, 1'000U);
  EXPECT_GT(statistics.waited, 100U);
  EXPECT_GT(statistics.recorded, 1'000U);
  EXPECT_GT(traffic.granted(), statistics.waited);
}

}  // namespace
}  // namespace sluice::quota
