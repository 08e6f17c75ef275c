// The reservations of one shard: open ones, ended ones that are remembered, and their ids.
// Flow:   open(), or hold() -> release() -> admit() or drop() -> extend() -> end() by settling or
//         cancelling, or expire() by the timer -> a record of the end remains, under the id.
// Shape:  a pool of reservations, their lifetimes in the store's timer wheel; their ids, and the
//         records of those that are gone (id_book.hpp); the ended ones that still have their place,
//         in the order in which they are forgotten. Each counts in the `open` and `held` of the
//         subjects that it names.
// Errors: none; open() and hold() need has_room().
// Lives:  one thread only. An expired reservation keeps its place for one more lifetime, since it
//         may be settled late; an ended one with a client's id until its lifetime ends; unless the
//         place is needed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/object_pool.hpp"
#include "base/prefetch.hpp"
#include "base/timer_wheel.hpp"
#include "quota/call_clock.hpp"
#include "quota/change_log.hpp"
#include "quota/client_ids.hpp"
#include "quota/connection_bindings.hpp"
#include "quota/id_book.hpp"
#include "quota/owner_names.hpp"
#include "quota/quota_store.hpp"
#include "quota/reservation.hpp"
#include "quota/subject_table.hpp"
#include "quota/timer_tag.hpp"

namespace sluice::quota {

// Where the home of a reservation is, as one of its shards sees it.
enum class Home : uint8_t { here, other_shard, other_node };

// What a hold becomes.
struct Admitted {
  uint64_t id = 0;  // a part's: of its home
  api::QuotaCode code = api::QuotaCode::ok;
  uint64_t connection = 0;
  std::string_view owner;
};

class ReservationBook {
 public:
  using Pool = base::ObjectPool<Reservation>;

  ReservationBook(const Options& options, const CallClock& clock, SubjectTable& subjects,
                  base::TimerWheel& wheel, OwnerNames& owners, ClientIds& client_ids,
                  ChangeLog& log);

  // open() and hold() may have to forget an ended one.
  bool has_room() const noexcept { return pool_.used() < pool_.capacity() || !ended_.empty(); }
  // For so many: ended ones are forgotten for them.
  uint32_t free_count() const noexcept { return pool_.capacity() - pool_.used() + ended_count_; }
  // Opens a reservation for a request that was charged.
  Reservation& open(const Request& request, api::QuotaCode admission,
                    std::string_view owner) noexcept;

  // A request with a client's id was charged for good: a repeat gets the same answer until the
  // lifetime ends, unless the place is needed.
  void remember(const Request& request, api::QuotaCode admission) noexcept;
  // Likewise where a hold has its place.
  void remember(Reservation& held, const Admitted& admitted) noexcept;

  // Takes a place for a call that other shards decide, too. Until the verdict its amounts count at
  // its subjects, and nothing is charged. The shard of the first subject is its home. Only a record
  // needs no slot of a limit on concurrency; a consume does, until its verdict.
  Pool::Index hold(const Request& request, Home home, bool takes_slot,
                   const api::QuotaBatch& batch) noexcept;
  // There is a verdict: the amounts no longer count. admit() or drop() follows.
  void release(const Reservation& held) noexcept;
  // The call is admitted, and charged by the caller.
  void admit(Reservation& held, const Admitted& admitted) noexcept;
  // It is refused, or has to be decided again.
  void drop(Reservation& held) noexcept;

  // A record of usage is to charge the subject, or a waiter to join its queue: it stays until then,
  // as if a reservation named it.
  void keep(SubjectIndex subject) noexcept {
    ++subjects_[subject].held;
    ++kept_count_;
  }
  void unkeep(SubjectIndex subject) noexcept {
    --subjects_[subject].held;
    --kept_count_;
  }

  // Null: the id is unknown, or only its record is left. The id of another shard is unknown, and 0
  // is none.
  Reservation* find(uint64_t id) noexcept;
  const Reservation* find(uint64_t id) const noexcept;
  // The same, looked for at `expected` first, which prefetch() has returned.
  Reservation* find_at(Pool::Index expected, uint64_t id) noexcept;
  std::optional<IdRecord> find_record(uint64_t id) const noexcept;
  static IdRecord record_of(const Reservation& reservation) noexcept;

  static Pool::Index index_of(const Reservation& reservation) noexcept {
    return TimerTag::of(reservation.timer).index;
  }

  // Announces a change of what its record has: also before end(), end_part() and expire().
  void touch(Reservation& reservation) noexcept { log_.touch(reservation, index_of(reservation)); }

  // Begins the lifetime of an open reservation anew; 0: as long as the last one.
  void extend(Reservation& reservation, uint32_t lifetime_ms) noexcept;
  // The same of a part whose home is another node. It does not end earlier for that: the home may
  // fail to extend other parts, and then keeps the old deadline. A shorter one ends by its word.
  void extend_part(Reservation& part, uint32_t lifetime_ms) noexcept;
  // Settles or cancels a reservation that is open or has expired. It is gone afterwards, unless it
  // has a client's id, under which it may be asked for again.
  void end(Reservation& reservation, api::ReservationState state) noexcept;
  // The same for a part. If it has a client's id, it is kept for as long as its home.
  void end_part(Reservation& part, api::ReservationState state, uint32_t left_ms) noexcept;
  void expire(Reservation& reservation) noexcept;
  // The time is over for which its end is remembered.
  void forget(Reservation& reservation) noexcept;

  // ---- at the start (ReservationRestorer)
  // Its id leads to it after adopt().
  enum class Role : uint8_t { home, part };
  using Subjects = std::array<SubjectIndex, limits::call_subjects_max>;
  Reservation& restore(const state::ReservationRecord& from, const Subjects& subjects, Role role);
  void adopt(Reservation& restored) noexcept;
  // Shards that have those subjects of a home that it does not know itself.
  void add_parts(Reservation& home, const Subjects& subjects) noexcept;
  // The file has a record that says the same.
  void set_restored(Reservation& restored) noexcept {
    log_.set_restored(restored, index_of(restored));
  }
  // False: there is no place left.
  bool restore_end(const state::EndedReservation& from) noexcept;
  // The subjects of a part in the same state become those of the reservation, or of another part.
  void merge(Reservation& into, Reservation& part) noexcept;
  // Frees a part that has no id here.
  void discard(Reservation& part) noexcept;
  // Those that were bound to a connection before the start expire.
  void expire_lost_connections() noexcept { bindings_.end(lost_connection); }

  // Reservations that end with their connections.
  ConnectionBindings& bindings() noexcept { return bindings_; }
  const ConnectionBindings& bindings() const noexcept { return bindings_; }

  const Pool& pool() const noexcept { return pool_; }
  const IdBook& ids() const noexcept { return ids_; }
  Reservation& operator[](Pool::Index index) noexcept { return pool_[index]; }
  const Reservation& operator[](Pool::Index index) const noexcept { return pool_[index]; }
  std::string_view owner_of(const Reservation& reservation) const noexcept {
    return owners_.at(reservation.owner);
  }
  uint32_t lifetime_left_ms(const Reservation& reservation) const noexcept;
  uint32_t open_count() const noexcept { return open_count_; }

  // Fetch ahead what calls will read: where an id leads, then the reservation itself, whose index
  // it most probably returns, and the record that its end will take.
  SLUICE_PREFETCH_FUNCTION void prefetch_id(uint64_t id) const noexcept { ids_.prefetch(id); }
  SLUICE_PREFETCH_FUNCTION Pool::Index prefetch(uint64_t id, uint32_t ahead) const noexcept {
    const Pool::Index index = ids_.first_with(id);
    if (index != Pool::none) pool_.prefetch(index);
    ids_.prefetch_next_end(ahead);
    return index;
  }

  uint64_t reserved_bytes() const noexcept;
  void check_invariants() const noexcept;

 private:
  static constexpr uint64_t lost_connection = UINT64_MAX;  // stands for all that are gone

  Pool::Index find_index(uint64_t id) const noexcept;
  Pool::Index take() noexcept;
  uint16_t route_of(const Request& request) const noexcept;
  Reservation& make(const Request& request, bool is_open) noexcept;
  void begin(Reservation& reservation, api::QuotaCode admission) noexcept;
  void begin_home(Reservation& home, uint64_t connection, std::string_view owner) noexcept;
  void close(Reservation& reservation, api::ReservationState state) noexcept;
  void keep_ended(Reservation& reservation) noexcept;
  void free(Reservation& reservation) noexcept;

  const CallClock& clock_;
  SubjectTable& subjects_;
  base::TimerWheel& wheel_;
  OwnerNames& owners_;
  ClientIds& client_ids_;
  ChangeLog& log_;
  const uint32_t node_part_slack_ms_;
  Pool pool_;
  IdBook ids_;
  Reservations ended_;
  uint32_t ended_count_ = 0;
  ConnectionBindings bindings_;
  uint32_t open_count_ = 0;
  uint64_t kept_count_ = 0;  // by keep()
};

// --------------------------------------------------------------------------- used by every settle

// `none`: only its record is left, or it is unknown.
inline ReservationBook::Pool::Index ReservationBook::find_index(uint64_t id) const noexcept {
  static_assert(IdBook::none == Pool::none);
  if (id == 0) return Pool::none;
  return ids_.find(id, [this](uint32_t index) {
    const Reservation& found = pool_[index];
    return found.is_held() ? 0 : found.id;
  });
}

inline Reservation* ReservationBook::find(uint64_t id) noexcept {
  const Pool::Index index = find_index(id);
  return index == Pool::none ? nullptr : &pool_[index];
}

inline Reservation* ReservationBook::find_at(Pool::Index expected, uint64_t id) noexcept {
  if (id != 0 && pool_.holds(expected)) {
    Reservation& found = pool_[expected];
    if (found.id == id && !found.is_held()) return &found;
  }
  return find(id);
}

inline const Reservation* ReservationBook::find(uint64_t id) const noexcept {
  const Pool::Index index = find_index(id);
  return index == Pool::none ? nullptr : &pool_[index];
}

// Frees its slots, unless they were free before.
inline void ReservationBook::close(Reservation& reservation, api::ReservationState state) noexcept {
  if (reservation.state == api::ReservationState::open) {
    if (!reservation.is_part) --open_count_;
    if (reservation.is_connection_bound()) bindings_.unbind(reservation);
    for (uint8_t at = 0; at < reservation.subjects_count; ++at) {
      if (is_here(reservation.subjects[at])) --subjects_[reservation.subjects[at]].open;
    }
  }
  reservation.state = state;
}

// Frees the place of an ended reservation; its id no longer leads to it.
inline void ReservationBook::free(Reservation& reservation) noexcept {
  DEBUG_ASSERT(reservation.state != api::ReservationState::open);
  const Pool::Index index = index_of(reservation);
  if (reservation.client_id.is_set()) client_ids_.remove(reservation.client_id, {.index = index});
  owners_.drop(reservation.owner);
  for (uint8_t at = 0; at < reservation.subjects_count; ++at) {
    if (is_here(reservation.subjects[at])) --subjects_[reservation.subjects[at]].held;
  }
  base::TimerWheel::cancel(reservation.timer);
  if (reservation.is_linked()) --ended_count_;
  pool_.free(index);
}

// Rounded up, but at most the lifetime that it was given. A part whose home is another node ends
// later than that by itself.
inline uint32_t ReservationBook::lifetime_left_ms(const Reservation& reservation) const noexcept {
  const int64_t longer_ms = reservation.has_home_at_other_node ? node_part_slack_ms_ : 0;
  const int64_t due_ms = reservation.timer.due_ms() - longer_ms;
  const int64_t left = std::max<int64_t>(due_ms - clock_.ms(), 0);
  return static_cast<uint32_t>(std::min<int64_t>(left, reservation.lifetime_ms));
}

}  // namespace sluice::quota
