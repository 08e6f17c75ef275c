// What a group of calls will look at, fetched ahead of deciding them.
#include <algorithm>

#include "quota/engine.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::QuotaCall;
using limiter::Meter;
using limiter::MeterShape;

namespace {

// Fewer subjects than these are in the cache.
constexpr uint32_t fetched_from = 512;

}  // namespace

// Hashes the subjects and fetches what will be looked at, step by step: while one call's line is
// under way, the others' are asked for. Nothing that is read here is relied upon.
void Engine::prepare(const QuotaBatch& batch, size_t first, size_t count) noexcept {
  for (size_t index = 0; index < count; ++index) {
    const QuotaCall& call = batch.calls[first + index];
    if (api::names_reservation(call.op)) {
      reservations_.prefetch_record(call.reservation);
    } else {
      hash_subjects(batch, call, prepared_[index]);
      reservations_.prefetch_next_record(static_cast<uint32_t>(index));
    }
  }
  for (size_t index = 0; index < count; ++index) {
    const QuotaCall& call = batch.calls[first + index];
    if (api::names_reservation(call.op)) reservations_.prefetch(call.reservation);
  }
  if (subjects_.pool().used() < fetched_from) return;
  Fetched fetched;
  for (size_t index = 0; index < count; ++index) {
    add_subjects(batch.calls[first + index], prepared_[index], fetched);
  }
  for (const Fetch& fetch : fetched) __builtin_prefetch(&subjects_[fetch.subject]);
  for (const Fetch& fetch : fetched) {
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

void Engine::hash_subjects(const QuotaBatch& batch, const QuotaCall& call,
                           SubjectHashes& hashes) noexcept {
  const uint32_t count = std::min<uint32_t>(call.subjects_count, limits::call_subjects_max);
  for (uint32_t place = 0; place < count; ++place) {
    hashes[place] = subjects_.hash(batch.subjects[call.first_subject + place]);
    subjects_.index().prefetch(hashes[place].low);
  }
}

void Engine::add_subjects(const QuotaCall& call, const SubjectHashes& hashes,
                          Fetched& fetched) noexcept {
  if (api::names_reservation(call.op)) {
    const Reservation* const reservation = reservations_.find(call.reservation);
    if (reservation == nullptr) return;
    for (uint8_t place = 0; place < reservation->subjects_count; ++place) {
      const SubjectIndex subject = reservation->subjects[place];
      if (subject != no_subject) fetched.push_back({subject, reservation->charged_ns});
    }
    return;
  }
  const uint32_t count = std::min<uint32_t>(call.subjects_count, limits::call_subjects_max);
  for (uint32_t place = 0; place < count; ++place) {
    const SubjectIndex subject = subjects_.index().first_with(hashes[place].low);
    if (subject != no_subject) fetched.push_back({subject, clock_.ns()});
  }
}

}  // namespace sluice::quota
