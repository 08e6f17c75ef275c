// The tables of a store without the engine above them, at a time of the test's choosing.
// Lives:  limited subjects are built in the order in which they refer to each other.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "quota/reservation_book.hpp"
#include "quota/subject_table.hpp"
#include "quota/timer_tag.hpp"
#include "quota/wait_queues.hpp"
#include "unit/quota/store_driver.hpp"

namespace sluice::quota {

class TableDriver {
 public:
  explicit TableDriver(const Options& with = {.subjects_max = 8,
                                              .reservations_max = 4,
                                              .waiters_max = 8,  // one subject has half of them
                                              .name_seed = 42,
                                              .id_seed = 42})
      : options(with) {
    advance_ms(0);
  }

  void advance_ms(int64_t by) {
    ns += by * base::ns_per_ms;
    clock.begin({.monotonic_ns = ns, .wall_ns = ns});
  }

  // A subject with this quota, as put at run time. no_subject: there is no room.
  SubjectIndex make(const std::string& name, std::vector<api::Limit> limits,
                    const LimitedSubjects& kept = no_limited_subjects) {
    return make(name, quota_of(std::move(limits)), kept);
  }
  SubjectIndex make(const std::string& name, const api::Quota& quota,
                    const LimitedSubjects& kept = no_limited_subjects) {
    const CompiledQuota* const held = book.classes().hold(quota);
    const SubjectIndex made =
        subjects.make(subjects.hash(name), name, {held, api::QuotaSource::run_time}, kept);
    book.classes().drop_reference(held);
    return made;
  }
  SubjectIndex find(const std::string& name) const { return subjects.find(subjects.hash(name)); }

  // Usage of the subject's only limit.
  limiter::Meter meter(SubjectIndex index) {
    const Subject& subject = subjects.current(index);
    limiter::Meter meter(subject.quota->shapes[0], subject.words);
    meter.roll(clock.moment());
    return meter;
  }
  void use(SubjectIndex index, uint64_t amount, bool is_open = false) {
    meter(index).charge(amount, is_open, clock.moment());
  }
  uint64_t used(SubjectIndex index) { return meter(index).used(); }

  // Rules that name subjects, each with its limits, hold from now on.
  void adopt(std::vector<policy::QuotaRule> rules) {
    books_.push_back(std::make_unique<policy::QuotaBook>(
        policy::QuotaRules{.rules = std::move(rules), .unknown_quota = {}}));
    book.adopt(*books_.back());
  }
  static policy::QuotaRule rule(std::string name, std::vector<api::Limit> limits) {
    return {.subject = std::move(name), .quota = quota_of(std::move(limits))};
  }

  // A request for so many tokens of one subject.
  static Request request(SubjectIndex subject, uint64_t tokens = 1) {
    Request made{.amounts = {.requests = 1, .input_tokens = tokens},
                 .lifetime_ms = 1'000,
                 .subjects_count = 1};
    made.subjects.fill(no_subject);
    made.subjects[0] = subject;
    return made;
  }
  // For one token of each of these subjects.
  static Request request_of_all(std::initializer_list<SubjectIndex> subjects) {
    Request made = request(no_subject);
    made.subjects_count = 0;
    for (const SubjectIndex subject : subjects) made.subjects[made.subjects_count++] = subject;
    return made;
  }
  Reservation& open(const Request& asked, std::string_view owner = {}) {
    return reservations.open(asked, api::QuotaCode::ok, owner);
  }
  // The reservation with the next due timer, which the engine would take; null: none is due.
  Reservation* due() {
    wheel.advance(clock.ms());
    const base::Timer* const timer = wheel.pop_due();
    return timer == nullptr ? nullptr : &reservations[TimerTag::of(*timer).index];
  }

  int64_t ns = base::ns_per_s;
  const Options options;
  Statistics statistics;
  CallClock clock;

 private:
  std::vector<std::unique_ptr<policy::QuotaBook>> books_;

 public:
  CurrentBook book;
  ChangeLog log{options};
  SubjectTable subjects{options, clock, book, log, statistics};
  base::TimerWheel wheel{0};
  OwnerNames owners{options.reservations_max};
  ClientIds client_ids{options.reservations_max, options.waiters_max};
  ReservationBook reservations{options, clock, subjects, wheel, owners, client_ids, log};
  WaitQueues queues{options, clock, subjects, wheel, owners, client_ids};
};

}  // namespace sluice::quota
