// Calls that are prepared together, so that the memory they need is on its way while others are
// looked at.
// Flow:   prepare() for a group of a batch -> the engine decides each call with its hashes().
// Shape:  step by step over all calls of the group: ids and hashes, then reservations, then
//         subjects, then meters.
// Lives:  one thread only; hashes until the next group. Nothing that is read ahead is relied upon:
//         a subject may be forgotten, or made, before its call is decided.
#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>

#include "api/quota.hpp"
#include "quota/call_clock.hpp"
#include "quota/members.hpp"
#include "quota/reservation_book.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

class CallGroup {
 public:
  static constexpr size_t calls_max = 16;

  CallGroup(const CallClock& clock, const SubjectTable& subjects,
            const ReservationBook& reservations) noexcept
      : clock_(clock), subjects_(subjects), reservations_(reservations) {}

  // Of `count` calls of the batch, from `first` on.
  void prepare(const api::QuotaBatch& batch, size_t first, size_t count) noexcept;

  // Of the subjects that a call names, by its place in the group.
  const SubjectHashes& hashes(size_t place) const noexcept { return hashes_[place]; }

 private:
  // A subject that a call will look at.
  struct Fetch {
    SubjectIndex subject;
    int64_t charged_ns;  // by the reservation that the call ends; now: it ends none
  };
  using Fetches = boost::container::static_vector<Fetch, calls_max * limits::call_subjects_max>;

  void hash_subjects(const api::QuotaBatch& batch, const api::QuotaCall& call,
                     SubjectHashes& hashes) noexcept;
  void add_subjects(const api::QuotaCall& call, const SubjectHashes& hashes,
                    Fetches& fetches) const noexcept;
  void fetch(const Fetches& fetches) const noexcept;

  const CallClock& clock_;
  const SubjectTable& subjects_;
  const ReservationBook& reservations_;
  std::array<SubjectHashes, calls_max> hashes_;
};

}  // namespace sluice::quota
