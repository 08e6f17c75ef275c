// Prepares calls together, so that the memory that one needs is fetched while others are prepared.
// Flow:   prepare() for a group of a batch -> the engine decides each call with its hashes().
// Shape:  step by step over all calls of the group: ids and hashes, then reservations, then
//         subjects, then meters.
// Lives:  one thread only; hashes until the next group. Decisions do not rely on what was fetched
//         ahead: a subject may be forgotten, or made, before its call is decided.
#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <span>
#include <string_view>

#include "api/quota.hpp"
#include "quota/call_clock.hpp"
#include "quota/limited_subjects.hpp"
#include "quota/reservation_book.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

class CallGroup {
 public:
  static constexpr size_t calls_max = 16;

  CallGroup(const CallClock& clock, const SubjectTable& subjects,
            const ReservationBook& reservations) noexcept
      : clock_(clock), subjects_(subjects), reservations_(reservations) {}

  // Prepares `count` calls of the batch, from `first` on, as far as this shard decides them.
  void prepare(api::QuotaBatch& batch, size_t first, size_t count, uint32_t shard) noexcept;
  // The same for these calls; their places in the group are those in the list.
  void prepare(api::QuotaBatch& batch, std::span<const uint32_t> calls, uint32_t shard) noexcept;

  // The hashes of the subjects that a call names, by the call's place in the group.
  const SubjectHashes& hashes(size_t place) const noexcept { return hashes_[place]; }
  // Where the reservation that a call names most probably is, likewise.
  ReservationBook::Pool::Index expected_reservation(size_t place) const noexcept {
    return expected_[place];
  }

 private:
  // A subject that a call will use.
  struct Fetch {
    SubjectIndex subject;
    int64_t charged_ns;  // when the call's reservation was; now: it names none
  };
  using Fetches = boost::container::static_vector<Fetch, calls_max * limits::call_subjects_max>;

  template <typename IndexOf>
  void prepare_each(api::QuotaBatch& batch, size_t count, IndexOf index_of,
                    uint32_t shard) noexcept;
  void prefetch_ids(const api::QuotaBatch& batch, size_t index) const noexcept;
  void hash_subjects(const api::QuotaBatch& batch, size_t index, uint32_t shard,
                     SubjectHashes& hashes) noexcept;
  const NameHash& hash_of(std::string_view name) noexcept;
  [[gnu::noinline]] void hash(std::string_view name) noexcept;
  void add_subjects(const api::QuotaBatch& batch, size_t index, uint32_t shard,
                    const SubjectHashes& hashes, Fetches& fetches) const noexcept;
  void add(SubjectIndex subject, int64_t charged_ns, Fetches& fetches) const noexcept;
  void fetch(const Fetches& fetches) const noexcept;

  const CallClock& clock_;
  const SubjectTable& subjects_;
  const ReservationBook& reservations_;
  std::array<SubjectHashes, calls_max> hashes_;
  std::array<ReservationBook::Pool::Index, calls_max> expected_{};
  std::string_view hashed_name_;  // the last one of this group, with its hash
  NameHash hash_;
};

}  // namespace sluice::quota
