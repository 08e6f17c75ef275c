// Writes what survives a restart: a cut has what has changed since the last one, as of its instant,
// and a part of a lap over everything else that lives.
// Flow:   begin(sink) at the instant -> write_some() between calls, until nothing is left; a call
//         that changes what is not written yet has it written first (CopyFirst). -> facts() for the
//         header of the cut's parts.
// Shape:  those that are gone, then subjects and reservations that have changed, then the lap: as
//         many records as the cut has of changes, at least lap_records_min. A lap skips what has a
//         record from it, and what has changed since the cut: the next cut writes that. So one cut
//         after the lap has passed everything, all records from before it are superseded.
// Bounds: a cut has at most two records about a place of a subject or a reservation: of what was
//         there and is gone, and of what is there now; and one of each remembered end.
// Lives:  one thread only; the sink from begin() until write_some() returns false.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "quota/call_clock.hpp"
#include "quota/change_log.hpp"
#include "quota/cut.hpp"
#include "quota/lap.hpp"
#include "quota/record_writer.hpp"
#include "quota/reservation_book.hpp"
#include "quota/subject_table.hpp"
#include "state/state_sink.hpp"

namespace sluice::quota {

// Records of the lap in each cut, while there are that many.
inline constexpr uint32_t lap_records_min = 1'000;

class CutWriter final : public CopyFirst {
 public:
  CutWriter(const CallClock& clock, SubjectTable& subjects, ReservationBook& reservations,
            ChangeLog& log) noexcept
      : clock_(clock),
        subjects_(subjects),
        reservations_(reservations),
        log_(log),
        writer_(subjects, reservations, log),
        lap_(clock, subjects, reservations, log) {
    log_.set_copier(*this);
  }
  CutWriter(const CutWriter&) = delete;
  CutWriter& operator=(const CutWriter&) = delete;

  void begin(state::StateSink& sink, const CutStart& start) noexcept;
  // Writes about so many records. False: the cut has all of its.
  bool write_some(uint32_t records) noexcept;
  CutFacts facts() const noexcept;
  bool is_under_way() const noexcept { return is_under_way_; }
  // Whether the next cut has more than the log knows of.
  bool has_more() const noexcept {
    return writes_all_ || subjects_.resets().order != resets_.order;
  }

  // The next cut has everything that lives.
  void write_all() noexcept { writes_all_ = true; }

  void copy_subject(SubjectIndex index) noexcept override { writer_.write_subject(index); }
  void copy_reservation(uint32_t index) noexcept override { writer_.write_reservation(index); }

 private:
  using Places = std::span<const uint32_t>;
  // Written together, so that the memory of some is fetched while others are written.
  static constexpr size_t group_max = 16;

  void mark_all() noexcept;
  bool write_changes(int64_t& records) noexcept;
  void write_gone(int64_t& records) noexcept;
  void write_subjects(int64_t& records) noexcept;
  void write_reservations(int64_t& records) noexcept;
  void begin_lap_share() noexcept;
  bool write_lap(int64_t records) noexcept;
  template <typename FetchPlace, typename FetchMore, typename FetchLast>
  Places next_group(ChangedPlaces& changed, FetchPlace fetch_place, FetchMore fetch_more,
                    FetchLast fetch_last) noexcept;
  void fetch_meters(Places places) const noexcept;
  void fetch_rings(Places places) const noexcept;
  void fetch_subjects_of(Places places) const noexcept;
  void write_places(Places places, Lap::Stage stage) noexcept;
  void end_cut() noexcept;

  const CallClock& clock_;
  SubjectTable& subjects_;
  ReservationBook& reservations_;
  ChangeLog& log_;
  RecordWriter writer_;
  Lap lap_;
  SubjectTable::Resets resets_;  // as of the cut
  std::array<uint32_t, 4 * group_max> next_{};
  size_t forgotten_at_ = 0;
  size_t departed_at_ = 0;
  int64_t lap_checks_ = 0;  // the lap's share that is left of the cut; negative: to be set
  uint64_t complete_since_ = 0;
  bool is_under_way_ = false;
  bool writes_all_ = false;  // the next cut
  bool is_whole_ = false;    // this cut has everything
};

}  // namespace sluice::quota
