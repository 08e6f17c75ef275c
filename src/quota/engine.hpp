// The work of a QuotaStore: decisions over the limits of all subjects of a call, reservations, and
// the lines of those who wait.
// Flow:   decide(): in groups, whose memory is fetched ahead -> a Party of the call's subjects ->
//         admit, deny or join the lines. What gives something back serves the lines it may help.
// Shape:  engine_prepare.cpp (fetching ahead), engine_decide.cpp (reserve, check, record),
//         engine_end.cpp (settle, cancel, extend, expiry), engine_line.cpp (waiters),
//         engine_subject.cpp (quotas that change),
//         engine_tell.cpp (limits and rows of answers).
// Units:  as QuotaStore.
// Errors: none: every outcome is a QuotaCode.
// Lives:  as QuotaStore, which is its public face.
#pragma once

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "base/object_pool.hpp"
#include "base/timer_wheel.hpp"
#include "limiter/meter.hpp"
#include "quota/answer_sources.hpp"
#include "quota/book_adoption.hpp"
#include "quota/call_clock.hpp"
#include "quota/client_ids.hpp"
#include "quota/current_book.hpp"
#include "quota/obstacle.hpp"
#include "quota/owner_names.hpp"
#include "quota/party.hpp"
#include "quota/party_meters.hpp"
#include "quota/queue_server.hpp"
#include "quota/quota_class.hpp"
#include "quota/quota_store.hpp"
#include "quota/reservation.hpp"
#include "quota/reservation_book.hpp"
#include "quota/subject.hpp"
#include "quota/subject_table.hpp"
#include "quota/timer_owner.hpp"
#include "quota/wait_queues.hpp"
#include "quota/work_budget.hpp"

namespace sluice::quota {

class Engine {
 public:
  explicit Engine(const Options& options);

  // As in QuotaStore.
  void decide(api::QuotaBatch& batch, base::Now now, api::CoreId origin) noexcept;
  bool withdraw(api::WaiterId waiter, api::Ticket ticket, base::Now now,
                api::CoreId origin) noexcept;
  bool abandon(api::WaiterId waiter, api::Ticket ticket, base::Now now,
               api::CoreId origin) noexcept;
  bool give_back(uint64_t reservation, base::Now now) noexcept;
  void drain(base::Now now) noexcept;
  void adopt(policy::QuotaBook& book, base::Now now) noexcept;
  void run_due(base::Now now) noexcept;
  int64_t next_due_ns() const noexcept;
  std::span<api::Grant> grants() noexcept { return server_.grants(); }
  void keep_grants(size_t count) noexcept { server_.keep_grants(count); }
  std::string_view unknown_subject() const noexcept { return unknown_subject_; }
  uint32_t subjects_count() const noexcept { return subjects_.pool().used(); }
  uint32_t reservations_count() const noexcept { return reservations_.open_count(); }
  uint32_t waiters_count() const noexcept { return queues_.pool().used(); }
  const Statistics& statistics() const noexcept { return statistics_; }
  uint64_t reserved_bytes() const noexcept;
  void check_invariants(base::Now now) const noexcept;

 private:
  // Calls that are prepared together, and the subjects of all of them.
  static constexpr size_t group_calls = 16;
  struct Fetch {
    SubjectIndex subject;
    int64_t charged_ns;  // when what is ended was; now: nothing is
  };
  using Fetched = boost::container::static_vector<Fetch, group_calls * limits::call_subjects_max>;

  // engine.cpp
  void fire_timers() noexcept;

  // engine_prepare.cpp
  void prepare(const api::QuotaBatch& batch, size_t first, size_t count) noexcept;
  void hash_subjects(const api::QuotaBatch& batch, const api::QuotaCall& call,
                     SubjectHashes& hashes) noexcept;
  void add_subjects(const api::QuotaCall& call, const SubjectHashes& hashes,
                    Fetched& fetched) noexcept;

  // engine_decide.cpp
  void decide_one(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                  api::CoreId origin) noexcept;
  void reserve(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
               api::CoreId origin) noexcept;
  void check(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  void record(api::QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept;
  api::QuotaCode gather(const api::QuotaBatch& batch, const api::QuotaCall& call,
                        const SubjectHashes& hashes, bool may_make, Party& party) noexcept;
  [[gnu::noinline]] bool meet(std::string_view name, const NameHash& hashed, bool may_make,
                              Party& party) noexcept;
  [[gnu::noinline]] api::QuotaCode meet_unknown(std::string_view name) noexcept;
  static std::span<const std::string_view> names_of(const api::QuotaBatch& batch,
                                                    const api::QuotaCall& call) noexcept {
    DEBUG_ASSERT(call.first_subject + size_t{call.subjects_count} <= batch.subjects.size());
    return std::span(batch.subjects).subspan(call.first_subject, call.subjects_count);
  }
  // If not, the answer says so.
  bool has_valid_names(api::QuotaBatch& batch, size_t index) const noexcept;
  bool are_valid(std::span<const std::string_view> names) const noexcept;
  Request request_of(const api::QuotaBatch& batch, const api::QuotaCall& call,
                     const Party& party) const noexcept;
  [[gnu::noinline]] void identify(Request& request, const api::QuotaBatch& batch,
                                  const api::QuotaCall& call) const noexcept;
  uint64_t default_output(const Party& party, const api::Amounts& amounts) const noexcept;
  void stand_behind(Obstacle& against, const Party& party) const noexcept;
  std::optional<ClientIds::Entry> find_repeated(const Request& request) const noexcept;
  api::QuotaCode repeated_code(const Request& request, ClientIds::Entry found) const noexcept;
  bool answer_repeat(const Request& request, api::QuotaAnswer& answer) noexcept;
  static void set_retry(api::QuotaAnswer& answer) noexcept;
  void deny(api::QuotaBatch& batch, size_t index, const Party& party, const Request& request,
            api::QuotaCode code, const Obstacle& obstacle) noexcept;

  // engine_end.cpp
  void settle(const api::QuotaCall& call, api::QuotaAnswer& answer) noexcept;
  void cancel(const api::QuotaCall& call, api::QuotaAnswer& answer) noexcept;
  void extend(const api::QuotaCall& call, api::QuotaAnswer& answer) noexcept;
  void end_connection(uint64_t connection) noexcept;
  void expire_bound() noexcept;
  void replace(Reservation& reservation, const api::Amounts& actual, uint64_t cached) noexcept;
  void expire(Reservation& reservation) noexcept;
  void end_lifetime(Reservation& reservation) noexcept;
  void answer_ending(Reservation& reservation, api::ReservationState state,
                     api::QuotaAnswer& answer) noexcept;
  void answer_ended(api::ReservationState wanted, api::QuotaAnswer& answer) noexcept;

  // engine_quota.cpp
  bool names_one(api::QuotaBatch& batch, size_t index) const noexcept;
  void put(api::QuotaBatch& batch, size_t index, const NameHash& hash) noexcept;
  void remove(api::QuotaBatch& batch, size_t index, const NameHash& hash) noexcept;
  void reset(api::QuotaBatch& batch, size_t index, const NameHash& hash) noexcept;
  void reset_all() noexcept;

  AnswerSources sources() noexcept { return {clock_, book_, subjects_, reservations_}; }

  const Options options_;
  Statistics statistics_;
  CallClock clock_;
  WorkBudget budget_;

  CurrentBook book_;
  SubjectTable subjects_;
  BookAdoption adoption_;

  base::TimerWheel wheel_{0};
  OwnerNames owners_;
  ClientIds client_ids_;
  ReservationBook reservations_;

  WaitQueues queues_;
  QueueServer server_;

  std::string_view unknown_subject_;  // of the batch that is decided, or was

  std::array<SubjectHashes, group_calls> prepared_;
};

}  // namespace sluice::quota
