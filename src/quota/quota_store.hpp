// One core's quotas: decides what is reserved, settled, recorded and asked, for the subjects that
// are its own.
// Flow:   a batch of calls -> decide(), in order -> answers in the batch; waiters served later, or
//         never, come out as grants.
// Shape:  subjects by name, each with the usage of its limits and a line of waiters; reservations
//         by id; a timer wheel for lifetimes, wait limits, and when the head of a line may fit.
// Units:  as in api/quota.hpp.
// Errors: none: every outcome is a QuotaCode. When full: subjects_full, reservations_full,
//         waiters_full.
// Lives:  one core only; reads no clock, draws no random number.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "base/time.hpp"
#include "policy/quota_book.hpp"

namespace sluice::quota {

struct Options {
  uint32_t shard = 0;  // stands in the ids of reservations
  uint32_t shards = 1;
  uint64_t routing_seed = 0;  // which subjects are this core's
  uint32_t subjects_max = 1'000'000;
  uint32_t reservations_max = 1'000'000;  // open; as many that have ended are remembered
  uint32_t waiters_max = 100'000;
  uint32_t name_bytes_max = 1'024;
  uint32_t step_work = 2'048;  // what one step does where many move at once: subjects looked at
  uint64_t seed = 0;  // of hashes and ids, drawn at start: ids of another start are unknown
  uint32_t adopt_work = 2'048;  // of another book at once: units of about a tenth of a microsecond
};

struct Statistics {
  std::array<uint64_t, api::quota_codes_count>
      reserves{};  // by outcome; queued and its outcome both
  uint64_t settled = 0;
  uint64_t cancelled = 0;
  uint64_t expired = 0;
  uint64_t recorded = 0;
  uint64_t waited = 0;            // admitted after they had waited
  uint64_t tokens_refunded = 0;   // input and output
  uint64_t unknown_subjects = 0;  // calls that named one
  uint64_t subjects_forgotten = 0;
};

class Engine;

class QuotaStore {
 public:
  explicit QuotaStore(const Options& options);
  ~QuotaStore();
  QuotaStore(const QuotaStore&) = delete;
  QuotaStore& operator=(const QuotaStore&) = delete;

  // Decides the calls of the batch whose `core` is this one, in their order.
  void decide(api::QuotaBatch& batch, base::Now now, api::CoreId origin = 0) noexcept;

  // As of shard::Shard. A waiter that is given back after its grant: its reservation is cancelled.
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::CoreId origin = 0) noexcept;
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::CoreId origin = 0) noexcept;
  bool give_back(uint64_t reservation, base::Now now) noexcept;
  void drain(base::Now now) noexcept;

  // Quotas that hold from now on, for whoever is asked for. The book outlives the next adopt().
  // Usage against a limit that stays the same but for its amount is kept. What there is to do for
  // all subjects and names is begun, and left to run_due().
  void adopt(policy::QuotaBook& book, base::Now now) noexcept;

  // Lifetimes that end, wait limits, lines whose head may fit, a book that is being adopted, and
  // what a call that moves many has left to do; bounded work, call again while next_due_ns() has
  // passed.
  void run_due(base::Now now) noexcept;
  int64_t next_due_ns() const noexcept;

  // Outcomes that nobody has fetched, oldest first.
  std::span<api::Grant> grants() noexcept;
  void keep_grants(size_t count) noexcept;

  // One that the last decide() was asked for and that has no quota; empty: there was none. Until
  // its batch changes.
  std::string_view unknown_subject() const noexcept;

  uint32_t subjects_count() const noexcept;
  uint32_t reservations_count() const noexcept;  // open
  uint32_t waiters_count() const noexcept;
  const Statistics& statistics() const noexcept;
  uint64_t reserved_bytes() const noexcept;

  // Walks everything; aborts on a broken invariant. For tests.
  void check_invariants(base::Now now) const noexcept;

 private:
  std::unique_ptr<Engine> engine_;
};

// The core that an id names; it may be none of ours.
constexpr uint32_t shard_of(uint64_t reservation) noexcept {
  return static_cast<uint32_t>(reservation >> 56);
}

}  // namespace sluice::quota
