// Makes a shard's reservations from their records, once it has its subjects.
// Flow:   records(): take() each, those of later epochs first -> homes(), if there are parts here:
//         the same again -> finish().
// Shape:  a reservation goes to the shard that its id leads to, its subjects to theirs. With the
//         number of shards that wrote the records, these are the ones that had them. With another
//         one, parts of a reservation that come to one shard become one; and where subjects of one
//         shard come apart, the home keeps its own, and the other shards have parts from now on.
//         A part is kept if its home says that the reservation is open, ends as it did if the home
//         says how, and is refunded if there is no home: then there was no verdict yet.
// Errors: none; what finds no room is left out.
// Lives:  while the store is restored.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "quota/call_clock.hpp"
#include "quota/reservation_book.hpp"
#include "quota/stored_state.hpp"
#include "quota/subject_table.hpp"

namespace sluice::quota {

class ReservationRestorer {
 public:
  ReservationRestorer(const Options& options, const CallClock& clock, SubjectTable& subjects,
                      ReservationBook& reservations, uint32_t stored_shards)
      : options_(options),
        clock_(clock),
        subjects_(subjects),
        reservations_(reservations),
        has_other_shards_(stored_shards != options.shards) {}
  ReservationRestorer(const ReservationRestorer&) = delete;
  ReservationRestorer& operator=(const ReservationRestorer&) = delete;

  RecordTaker& records() noexcept { return records_; }
  bool needs_homes() const noexcept { return !pieces_.empty(); }
  RecordTaker& homes() noexcept { return homes_; }
  void finish() noexcept;

  uint64_t count() const noexcept { return reservations_.pool().used(); }
  uint64_t ends_count() const noexcept { return ends_count_; }
  uint64_t left_out_count() const noexcept { return left_out_count_; }
  uint64_t refunded_count() const noexcept { return refunded_count_; }

 private:
  using Subjects = std::array<SubjectIndex, limits::call_subjects_max>;

  // What a record is about: a reservation at its home, or the part that a shard had.
  struct Thing {
    uint64_t id = 0;
    uint16_t shard = 0;  // of a part; that had it
    bool is_part = false;
    bool operator==(const Thing&) const = default;
  };
  struct HashOfThing {
    size_t operator()(const Thing& thing) const noexcept;
  };

  // What its home says about a reservation.
  struct Home {
    enum class Says : uint8_t { nothing_yet, unknown, open, expired, ended };
    Says says = Says::nothing_yet;
    api::ReservationState end = api::ReservationState::none;
    api::Amounts amounts;
    uint32_t lifetime_ms = 0;
    int64_t due_ms = 0;  // of an end: until when it is remembered
  };
  // A part that this shard has now.
  struct Piece {
    Thing of;
    ReservationBook::Pool::Index index;
    Home home;
  };

  // The two readings.
  struct Records final : RecordTaker {
    explicit Records(ReservationRestorer& of) noexcept : restorer(of) {}
    bool take(const state::StoredRecord& record, const RecordOrigin& origin) override;
    ReservationRestorer& restorer;
  };
  struct Homes final : RecordTaker {
    explicit Homes(ReservationRestorer& of) noexcept : restorer(of) {}
    bool take(const state::StoredRecord& record, const RecordOrigin& origin) override;
    ReservationRestorer& restorer;
  };

  void take_home(const state::ReservationRecord& record);
  void take_part(const state::ReservationRecord& record, uint16_t shard);
  void take_end(const state::EndedReservation& end);
  void restore_home(const state::ReservationRecord& record);
  void add_piece(const state::ReservationRecord& record, const Thing& of, const Home& home);
  void note_shards(const state::ReservationRecord& part);
  void set_home(uint64_t id, const Home& home);
  void settle(Piece& piece) noexcept;
  void expire(Reservation& part, const Home& home) noexcept;
  void keep(Reservation& part) noexcept;
  void refund(Reservation& part) noexcept;

  static Home home_of(const state::ReservationRecord& record) noexcept;
  bool is_home_here(uint64_t id) const noexcept;
  bool is_other_node(uint32_t node) const noexcept;
  bool is_here(const state::ReservedSubject& subject) const noexcept;
  bool has_any_here(const state::ReservationRecord& record) const noexcept;
  bool has_room() noexcept;
  bool is_known(const Thing& thing) const;
  bool is_over(const state::ReservationRecord& record) const noexcept;
  SubjectIndex find(const state::ReservedSubject& subject) const noexcept;
  Subjects subjects_here(const state::ReservationRecord& record) const noexcept;
  Subjects subjects_of_home(const state::ReservationRecord& record) const noexcept;

  const Options& options_;
  const CallClock& clock_;
  SubjectTable& subjects_;
  ReservationBook& reservations_;
  const bool has_other_shards_;
  Records records_{*this};
  Homes homes_{*this};
  // Older records about these do not count.
  std::unordered_set<Thing, HashOfThing> past_;
  std::vector<Piece> pieces_;
  std::unordered_multimap<uint64_t, size_t> pieces_of_;  // by id: in the list
  // With other shards: which of them have the subjects of reservations that have their homes here.
  std::unordered_map<uint64_t, Subjects> shards_of_;
  uint64_t ends_count_ = 0;
  uint64_t left_out_count_ = 0;
  uint64_t refunded_count_ = 0;
};

}  // namespace sluice::quota
