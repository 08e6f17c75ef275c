// Claims: what calls ask for that have no verdict yet and hold nothing, since they await those on
// other calls. Later calls leave room for them, so that none is passed for ever.
// Flow:   a call awaits a verdict, or its round ends without one -> add() -> it is asked for, or
//         decided, again -> remove().
// Shape:  of each subject on this shard in the order of the calls' arrivals, and by connection. A
//         call counts claims of earlier ones only, so that no two wait for each other.
// Errors: none.
// Bounds: the calls of tasks under way; their memory is kept.
// Lives:  one thread only. A subject with claims is not forgotten.
// Source: docs/adr/0019-undecided-calls-have-claims.md.
#pragma once

#include <array>
#include <boost/intrusive/set.hpp>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "api/quota.hpp"
#include "quota/held_amounts.hpp"
#include "quota/limited_subjects.hpp"
#include "quota/reservation_book.hpp"

namespace sluice::quota {

class Claims {
 public:
  explicit Claims(ReservationBook& reservations) noexcept : reservations_(reservations) {}

  bool has_any() const noexcept { return !calls_.empty(); }

  // Of a call of this batch, which has none. Subjects of other shards are left out.
  void add(const api::QuotaBatch& batch, size_t index, std::span<const SubjectIndex> subjects,
           const api::Amounts& amounts);
  // True: the call had a claim.
  bool remove(const api::QuotaBatch& batch, size_t index) noexcept;

  // Whether a call before this one, of the batch's connection or of the batch, has a claim on one
  // of these subjects.
  bool has_earlier_of_asker(const api::QuotaBatch& batch, size_t index,
                            std::span<const SubjectIndex> subjects) const noexcept;
  // Whether this call, which fits, does so beside all claims of earlier ones; and takes none of the
  // places for reservations that these need.
  bool leave_room(const api::QuotaBatch& batch, size_t index, const LimitedSubjects& limited,
                  const limiter::Shares& shares, const limiter::Moment& now) const noexcept;
  bool leave_place(const api::QuotaBatch& batch, size_t index) const noexcept;

  void check_invariants() const noexcept;

 private:
  struct Claim;
  struct ByArrivalTag;
  struct ByAskerTag;
  template <typename Tag>
  using Hook =
      boost::intrusive::set_base_hook<boost::intrusive::tag<Tag>,
                                      boost::intrusive::link_mode<boost::intrusive::normal_link>>;

  // A claim at one of its subjects.
  struct Place : Hook<ByArrivalTag>, Hook<ByAskerTag> {
    const Claim* claim = nullptr;
    SubjectIndex subject = no_subject;
  };
  struct Claim : Hook<ByArrivalTag> {
    api::Arrival arrival;
    uint64_t asker = 0;
    api::Amounts amounts;
    uint8_t places_count = 0;
    std::array<Place, limits::call_subjects_max> places;
  };

  // In the order of arrival; in that of connections, and then of arrival.
  struct Earlier {
    bool operator()(const Claim& one, const Claim& other) const noexcept;
    bool operator()(const Place& one, const Place& other) const noexcept;
    bool operator()(const api::Arrival& one, const Claim& other) const noexcept;
    bool operator()(const Claim& one, const api::Arrival& other) const noexcept;
  };
  struct ByAsker {
    struct Key {
      uint64_t asker;
      api::Arrival arrival;
      auto operator<=>(const Key&) const = default;
    };
    bool operator()(const Place& one, const Place& other) const noexcept;
    bool operator()(const Place& one, const Key& other) const noexcept;
  };
  template <typename Value, typename Tag, typename Compare>
  using Set = boost::intrusive::set<Value, boost::intrusive::base_hook<Hook<Tag>>,
                                    boost::intrusive::compare<Compare>>;

  struct OfSubject {
    Set<Place, ByArrivalTag, Earlier> by_arrival;
    Set<Place, ByAskerTag, ByAsker> by_asker;
    Held sum;  // of all
  };

  Claim& take();
  const OfSubject* of(SubjectIndex subject) const noexcept;
  bool fits_beside_earlier(const api::QuotaBatch& batch, size_t index,
                           const LimitedSubjects& limited, const limiter::Shares& shares,
                           const limiter::Moment& now) const noexcept;
  bool has_earlier_of_asker(const api::QuotaBatch& batch, size_t index,
                            SubjectIndex subject) const noexcept;

  ReservationBook& reservations_;
  std::deque<Claim> claims_;  // as many as there have been at a time
  std::vector<Claim*> free_;  // of these
  Set<Claim, ByArrivalTag, Earlier> calls_;
  std::unordered_map<SubjectIndex, OfSubject> subjects_;
};

}  // namespace sluice::quota
