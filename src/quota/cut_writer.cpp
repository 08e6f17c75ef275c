#include "quota/cut_writer.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/assert.hpp"
#include "base/prefetch.hpp"
#include "limiter/ring_meter.hpp"

namespace sluice::quota {
namespace {

// A record of the lap counts as so many places that need none.
constexpr int64_t checks_per_record = 8;
constexpr int64_t unlimited = std::numeric_limits<int64_t>::max() / 2;

}  // namespace

void CutWriter::begin(state::StateSink& sink, const CutStart& start) noexcept {
  ASSERT(log_.is_on() && !is_under_way_);
  is_under_way_ = true;
  is_whole_ = std::exchange(writes_all_, false);
  if (is_whole_) mark_all();
  log_.begin_cut();
  resets_ = subjects_.resets();
  forgotten_at_ = 0;
  departed_at_ = 0;
  lap_checks_ = -1;
  writer_.begin(sink, resets_);
  if (!is_whole_ && (lap_.is_under_way() || !start.begins_lap)) return;
  lap_.begin(start.epoch);
  log_.begin_lap();
  writer_.begin_lap();
}

void CutWriter::mark_all() noexcept {
  for (SubjectIndex index = 0; index < subjects_.pool().index_end(); ++index) {
    if (subjects_.pool().holds(index)) log_.touch(subjects_[index], index);
  }
  for (uint32_t index = 0; index < reservations_.pool().index_end(); ++index) {
    if (!reservations_.pool().holds(index) || reservations_[index].is_held()) continue;
    log_.touch(reservations_[index], index);
  }
}

bool CutWriter::write_some(uint32_t records) noexcept {
  ASSERT(is_under_way_);
  int64_t left = records;
  if (!write_changes(left)) return true;
  if (lap_checks_ < 0) begin_lap_share();
  if (!write_lap(left)) return true;
  end_cut();
  return false;
}

// Whether all are written.
bool CutWriter::write_changes(int64_t& records) noexcept {
  write_gone(records);
  write_subjects(records);
  write_reservations(records);
  return forgotten_at_ == log_.forgotten().size() && departed_at_ == log_.departed().size() &&
         !log_.subjects().has_frozen() && !log_.reservations().has_frozen();
}

void CutWriter::write_gone(int64_t& records) noexcept {
  for (; records > 0 && forgotten_at_ < log_.forgotten().size(); --records) {
    writer_.write(log_.forgotten()[forgotten_at_++]);
  }
  for (; records > 0 && departed_at_ < log_.departed().size(); --records) {
    writer_.write(log_.departed()[departed_at_++]);
  }
}

SLUICE_PREFETCH_FUNCTION inline void CutWriter::fetch_meters(Places places) const noexcept {
  for (const uint32_t place : places) {
    const Subject& subject = subjects_[place];
    __builtin_prefetch(subject.name);
    if (subject.quota == nullptr) continue;
    for (uint32_t word = 0; word < subject.quota->head_words; word += 8) {
      __builtin_prefetch(subject.words.heads + word);
    }
  }
}

// Most of what a record costs is waiting for these: no call has read them lately.
SLUICE_PREFETCH_FUNCTION inline void CutWriter::fetch_rings(Places places) const noexcept {
  for (const uint32_t place : places) {
    const Subject& subject = subjects_[place];
    if (subject.quota == nullptr) continue;
    for (const limiter::MeterShape& shape : subject.quota->shapes) {
      if (shape.ring_mask == 0) continue;
      limiter::RingMeter(shape, subject.words).prefetch_ring();
    }
  }
}

// The hashes of their names are in the records.
SLUICE_PREFETCH_FUNCTION inline void CutWriter::fetch_subjects_of(Places places) const noexcept {
  for (const uint32_t place : places) {
    for (const SubjectIndex subject : reservations_[place].named()) {
      if (is_here(subject)) __builtin_prefetch(&subjects_[subject]);
    }
  }
}

// The objects of the last group ahead are fetched, of the one before what they lead to, and of the
// next one what that leads to.
template <typename FetchPlace, typename FetchMore, typename FetchLast>
inline CutWriter::Places CutWriter::next_group(ChangedPlaces& changed, FetchPlace fetch_place,
                                               FetchMore fetch_more,
                                               FetchLast fetch_last) noexcept {
  const Places places(next_.data(), changed.next_frozen(next_));
  const auto group = [places](size_t number) {
    const Places rest = places.subspan(std::min(number * group_max, places.size()));
    return rest.first(std::min(rest.size(), group_max));
  };
  for (const uint32_t place : group(3)) fetch_place(place);
  fetch_more(group(2));
  fetch_last(group(1));
  return group(0);
}

void CutWriter::write_subjects(int64_t& records) noexcept {
  const auto fetch_place = [this](uint32_t place) { subjects_.pool().prefetch(place); };
  const auto fetch_more = [this](Places places) { fetch_meters(places); };
  const auto fetch_last = [this](Places places) { fetch_rings(places); };
  while (records > 0 && log_.subjects().has_frozen()) {
    const Places places = next_group(log_.subjects(), fetch_place, fetch_more, fetch_last);
    for (const uint32_t place : places) writer_.write_subject(place);
    records -= static_cast<int64_t>(places.size());
  }
}

void CutWriter::write_reservations(int64_t& records) noexcept {
  const auto fetch_place = [this](uint32_t place) { reservations_.pool().prefetch(place); };
  const auto fetch_more = [this](Places places) { fetch_subjects_of(places); };
  while (records > 0 && log_.reservations().has_frozen()) {
    const Places places = next_group(log_.reservations(), fetch_place, fetch_more, [](Places) {});
    for (const uint32_t place : places) writer_.write_reservation(place);
    records -= static_cast<int64_t>(places.size());
  }
}

void CutWriter::begin_lap_share() noexcept {
  const auto changes = static_cast<int64_t>(writer_.records_count());
  lap_checks_ =
      is_whole_ ? unlimited : checks_per_record * std::max<int64_t>(changes, lap_records_min);
}

// Whether the cut has the lap's share.
bool CutWriter::write_lap(int64_t records) noexcept {
  int64_t checks = std::min(records * checks_per_record, lap_checks_);
  lap_checks_ -= checks;
  std::array<uint32_t, group_max> places;
  while (checks > 0 && lap_.is_under_way() && !lap_.has_passed()) {
    const Lap::Stage stage = lap_.stage();
    const size_t found = lap_.next(places, checks);
    write_places({places.data(), found}, stage);
    checks -= static_cast<int64_t>(found) * (checks_per_record - 1);
  }
  return lap_checks_ == 0 || !lap_.is_under_way() || lap_.has_passed();
}

void CutWriter::write_places(Places places, Lap::Stage stage) noexcept {
  switch (stage) {
    case Lap::Stage::subjects:
      fetch_meters(places);
      fetch_rings(places);
      for (const uint32_t place : places) writer_.write_subject(place);
      return;
    case Lap::Stage::reservations:
      fetch_subjects_of(places);
      for (const uint32_t place : places) writer_.write_reservation(place);
      return;
    case Lap::Stage::ends:
      for (const uint32_t place : places) writer_.write(reservations_.ids().end_at(place));
      return;
    case Lap::Stage::none:
    case Lap::Stage::passed:
    case Lap::Stage::passed_before:
      return;
  }
}

void CutWriter::end_cut() noexcept {
  is_under_way_ = false;
  if (lap_.end_cut(is_whole_)) complete_since_ = lap_.epoch();
}

CutFacts CutWriter::facts() const noexcept {
  return {.order = clock_.order(),
          .calendar_wall_ns = clock_.moment().wall_ns,
          .reset_all_order = resets_.order,
          .alive_count = uint64_t{subjects_.pool().used()} + reservations_.pool().used() +
                         reservations_.ids().recorded_count(),
          .complete_since_epoch = complete_since_};
}

}  // namespace sluice::quota
