#include "quota/claims.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "quota/limited_subject_meters.hpp"

namespace sluice::quota {
namespace {

// So many claims of earlier calls are added up; a call behind more waits until there are fewer.
constexpr uint32_t added_up_max = 16;

constexpr api::Arrival before_all{.ns = INT64_MIN};

using Sums = std::array<Held, limits::call_subjects_max>;

// Counts the sum as held of the subject, too.
void add_to_held(const Held& claimed, Held& sum, LimitedSubject& each) noexcept {
  sum = each.held == nullptr ? Held{} : *each.held;
  sum.add(claimed);
  each.held = &sum;
}

}  // namespace

bool Claims::Earlier::operator()(const Claim& one, const Claim& other) const noexcept {
  return one.arrival < other.arrival;
}
bool Claims::Earlier::operator()(const Place& one, const Place& other) const noexcept {
  return one.claim->arrival < other.claim->arrival;
}
bool Claims::Earlier::operator()(const api::Arrival& one, const Claim& other) const noexcept {
  return one < other.arrival;
}
bool Claims::Earlier::operator()(const Claim& one, const api::Arrival& other) const noexcept {
  return one.arrival < other;
}

bool Claims::ByAsker::operator()(const Place& one, const Place& other) const noexcept {
  return (*this)(one, {other.claim->asker, other.claim->arrival});
}
bool Claims::ByAsker::operator()(const Place& one, const Key& other) const noexcept {
  return Key{one.claim->asker, one.claim->arrival} < other;
}

Claims::Claim& Claims::take() {
  if (free_.empty()) return claims_.emplace_back();
  Claim& claim = *free_.back();
  free_.pop_back();
  return claim;
}

void Claims::add(const api::QuotaBatch& batch, size_t index, std::span<const SubjectIndex> subjects,
                 const api::Amounts& amounts) {
  Claim& claim = take();
  claim.arrival = batch.arrival_of(index);
  claim.asker = batch.asker;
  claim.amounts = amounts;
  claim.places_count = 0;
  ASSERT(calls_.insert(claim).second);
  for (const SubjectIndex subject : subjects) {
    if (!is_here(subject)) continue;
    reservations_.keep(subject);
    Place& place = claim.places[claim.places_count++];
    place.claim = &claim;
    place.subject = subject;
    OfSubject& claims = subjects_[subject];
    claims.by_arrival.insert(place);
    claims.by_asker.insert(place);
    claims.sum.add(amounts);
    ++claims.sum.count;
    ++claims.sum.slots;
  }
}

bool Claims::remove(const api::QuotaBatch& batch, size_t index) noexcept {
  const auto call = calls_.find(batch.arrival_of(index), Earlier());
  if (call == calls_.end()) return false;
  Claim& claim = *call;
  for (Place& place : std::span(claim.places).first(claim.places_count)) {
    const auto found = subjects_.find(place.subject);
    OfSubject& claims = found->second;
    claims.by_arrival.erase(claims.by_arrival.iterator_to(place));
    claims.by_asker.erase(claims.by_asker.iterator_to(place));
    claims.sum.subtract(claim.amounts);
    --claims.sum.slots;
    if (--claims.sum.count == 0) subjects_.erase(found);
    reservations_.unkeep(place.subject);
  }
  calls_.erase(call);
  free_.push_back(&claim);
  return true;
}

const Claims::OfSubject* Claims::of(SubjectIndex subject) const noexcept {
  const auto found = subjects_.find(subject);
  return found == subjects_.end() ? nullptr : &found->second;
}

bool Claims::has_earlier_of_asker(const api::QuotaBatch& batch, size_t index,
                                  SubjectIndex subject) const noexcept {
  const OfSubject* const claims = of(subject);
  if (claims == nullptr) return false;
  // Calls of a worker have no connection: they have an order in their batch alone.
  const bool has_connection = batch.asker != api::no_asker;
  const ByAsker::Key since{batch.asker, has_connection ? before_all : batch.arrival};
  const auto first = claims->by_asker.lower_bound(since, ByAsker());
  return first != claims->by_asker.end() && first->claim->asker == batch.asker &&
         first->claim->arrival < batch.arrival_of(index);
}

bool Claims::has_earlier_of_asker(const api::QuotaBatch& batch, size_t index,
                                  std::span<const SubjectIndex> subjects) const noexcept {
  return std::any_of(subjects.begin(), subjects.end(), [&](SubjectIndex subject) {
    return has_earlier_of_asker(batch, index, subject);
  });
}

// Most often there is room for all of them, those of later calls included.
bool Claims::leave_room(const api::QuotaBatch& batch, size_t index, const LimitedSubjects& limited,
                        const limiter::Shares& shares, const limiter::Moment& now) const noexcept {
  Sums sums;
  LimitedSubjects beside = limited;
  for (size_t at = 0; at < limited.size(); ++at) {
    const OfSubject* const claims = of(limited[at].index);
    if (claims != nullptr) add_to_held(claims->sum, sums[at], beside[at]);
  }
  return subjects_fit(beside, shares, now) ||
         fits_beside_earlier(batch, index, limited, shares, now);
}

bool Claims::fits_beside_earlier(const api::QuotaBatch& batch, size_t index,
                                 const LimitedSubjects& limited, const limiter::Shares& shares,
                                 const limiter::Moment& now) const noexcept {
  const api::Arrival arrival = batch.arrival_of(index);
  Sums sums;
  LimitedSubjects beside = limited;
  for (size_t at = 0; at < limited.size(); ++at) {
    const OfSubject* const claims = of(limited[at].index);
    if (claims == nullptr) continue;
    Held earlier;
    for (const Place& place : claims->by_arrival) {
      if (place.claim->arrival >= arrival) break;
      if (earlier.count == added_up_max) return false;
      earlier.add(place.claim->amounts);
      ++earlier.count;
      ++earlier.slots;
    }
    add_to_held(earlier, sums[at], beside[at]);
  }
  return subjects_fit(beside, shares, now);
}

// Each claim counts as one that needs a place.
bool Claims::leave_place(const api::QuotaBatch& batch, size_t index) const noexcept {
  const size_t free = reservations_.free_count();
  if (free > calls_.size()) return true;
  const api::Arrival arrival = batch.arrival_of(index);
  size_t earlier = 0;
  for (auto call = calls_.begin(); call != calls_.end() && call->arrival < arrival; ++call) {
    if (++earlier >= free || earlier > added_up_max) return false;
  }
  return true;
}

void Claims::check_invariants() const noexcept {
  size_t places = 0;
  for (const Claim& claim : calls_) places += claim.places_count;
  for (const auto& [subject, claims] : subjects_) {
    ASSERT(claims.by_arrival.size() == claims.by_asker.size());
    ASSERT(claims.sum.count == claims.by_arrival.size());
    for (const Place& place : claims.by_arrival) ASSERT(place.subject == subject);
    places -= claims.by_arrival.size();
  }
  ASSERT(places == 0);
  ASSERT(calls_.size() + free_.size() == claims_.size());
}

}  // namespace sluice::quota
