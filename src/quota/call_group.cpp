#include "quota/call_group.hpp"

#include <algorithm>

#include "base/prefetch.hpp"
#include "base/same_text.hpp"
#include "limiter/meter.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::QuotaCall;
using limiter::Meter;
using limiter::MeterShape;

namespace {

// With fewer subjects than these all are in the cache.
constexpr uint32_t fetched_from = 512;

bool is_of_shard(const QuotaBatch& batch, size_t index, uint32_t place, uint32_t shard) noexcept {
  return batch.spread.empty() || batch.spread[index].shards[place] == shard;
}

}  // namespace

void CallGroup::prepare(QuotaBatch& batch, size_t first, size_t count, uint32_t shard) noexcept {
  prepare_each(
      batch, count, [first](size_t place) { return first + place; }, shard);
}

void CallGroup::prepare(QuotaBatch& batch, std::span<const uint32_t> calls,
                        uint32_t shard) noexcept {
  prepare_each(
      batch, calls.size(), [calls](size_t place) { return calls[place]; }, shard);
}

template <typename IndexOf>
inline void CallGroup::prepare_each(QuotaBatch& batch, size_t count, IndexOf index_of,
                                    uint32_t shard) noexcept {
  bool names_reservations = false;
  hashed_name_ = {};
  for (size_t place = 0; place < count; ++place) {
    const QuotaCall& call = batch.calls[index_of(place)];
    if (api::names_reservation(call.op)) {
      names_reservations = true;
      prefetch_ids(batch, index_of(place));
    } else {
      hash_subjects(batch, index_of(place), shard, hashes_[place]);
    }
  }
  for (size_t place = 0; names_reservations && place < count; ++place) {
    const QuotaCall& call = batch.calls[index_of(place)];
    if (!api::names_reservation(call.op)) continue;
    expected_[place] = reservations_.prefetch(call.reservation, static_cast<uint32_t>(place));
  }
  if (subjects_.pool().used() < fetched_from) return;
  Fetches fetches;
  for (size_t place = 0; place < count; ++place) {
    add_subjects(batch, index_of(place), shard, hashes_[place], fetches);
  }
  fetch(fetches);
  batch.subjects_fetched += static_cast<uint32_t>(fetches.size());
}

// Where the id of the call's counterpart in the next group leads: what it is, most probably. Those
// of the first group were not fetched yet.
SLUICE_PREFETCH_FUNCTION inline void CallGroup::prefetch_ids(const QuotaBatch& batch,
                                                             size_t index) const noexcept {
  if (index < calls_max) reservations_.prefetch_id(batch.calls[index].reservation);
  const size_t next = index + calls_max;
  if (next < batch.calls.size()) reservations_.prefetch_id(batch.calls[next].reservation);
}

inline void CallGroup::hash_subjects(const QuotaBatch& batch, size_t index, uint32_t shard,
                                     SubjectHashes& hashes) noexcept {
  const QuotaCall& call = batch.calls[index];
  const uint32_t count = std::min<uint32_t>(call.subjects_count, limits::call_subjects_max);
  for (uint32_t place = 0; place < count; ++place) {
    if (!is_of_shard(batch, index, place, shard)) continue;
    hashes[place] = hash_of(batch.subjects[call.first_subject + place]);
  }
}

// Calls that follow one another often name the same subject: it is hashed, and fetched, once.
inline const NameHash& CallGroup::hash_of(std::string_view name) noexcept {
  if (hashed_name_.empty() || !base::is_same_text(name, hashed_name_)) hash(name);
  return hash_;
}

void CallGroup::hash(std::string_view name) noexcept {
  hashed_name_ = name;
  hash_ = subjects_.hash(name);
  subjects_.index().prefetch(hash_.low);
}

void CallGroup::add_subjects(const QuotaBatch& batch, size_t index, uint32_t shard,
                             const SubjectHashes& hashes, Fetches& fetches) const noexcept {
  const QuotaCall& call = batch.calls[index];
  if (api::names_reservation(call.op)) {
    const Reservation* const reservation = reservations_.find(call.reservation);
    if (reservation == nullptr) return;
    for (const SubjectIndex subject : reservation->named()) {
      if (is_here(subject)) add(subject, reservation->charged_ns, fetches);
    }
    return;
  }
  const uint32_t count = std::min<uint32_t>(call.subjects_count, limits::call_subjects_max);
  for (uint32_t place = 0; place < count; ++place) {
    if (!is_of_shard(batch, index, place, shard)) continue;
    const SubjectIndex subject = subjects_.index().first_with(hashes[place].low);
    if (subject != no_subject) add(subject, clock_.ns(), fetches);
  }
}

// The subject of the call before is in the cache already.
inline void CallGroup::add(SubjectIndex subject, int64_t charged_ns,
                           Fetches& fetches) const noexcept {
  if (!fetches.empty() && fetches.back().subject == subject) return;
  fetches.push_back({subject, charged_ns});
}

SLUICE_PREFETCH_FUNCTION inline void CallGroup::fetch(const Fetches& fetches) const noexcept {
  for (const Fetch& fetch : fetches) __builtin_prefetch(&subjects_[fetch.subject]);
  for (const Fetch& fetch : fetches) {
    const Subject& subject = subjects_[fetch.subject];
    if (subject.quota == nullptr) continue;
    for (uint32_t word = 0; word < subject.quota->head_words; word += 8) {
      __builtin_prefetch(subject.words.heads + word);
    }
    if (fetch.charged_ns == clock_.ns()) continue;
    for (const MeterShape& shape : subject.quota->shapes) {
      Meter(shape, subject.words).prefetch(fetch.charged_ns, clock_.moment());
    }
  }
}

}  // namespace sluice::quota
