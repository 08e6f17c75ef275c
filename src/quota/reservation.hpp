// A reservation: amounts that were charged, and have to be settled. Of one whose subjects several
// shards have, each has a part: the first subject's shard, its home, has its lifetime and its
// holder; the others act on the home's word. A part whose home is another node has a lifetime, too:
// its home may be gone.
// Shape:  all of it is in the Reservation but the owner's name, which few have: that lies in an
//         arena.
// Lives:  in the pool of the ReservationBook, which decides for how long.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <span>

#include "api/quota.hpp"
#include "base/assert.hpp"
#include "base/timer_wheel.hpp"
#include "quota/change_mark.hpp"
#include "quota/owner_names.hpp"
#include "quota/request.hpp"
#include "quota/subject.hpp"

namespace sluice::quota {

// A part stays for a late settle a little longer than its home, which decides about that: so much
// longer on the home's node; Options::node_part_slack_ms on others.
inline constexpr uint32_t part_slack_ms = 1'000;

// Three cache lines with its place in the pool: what every pair of calls reads lies in the first
// two, and at the beginning of the third.
struct Reservation
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  static constexpr uint32_t not_bound = 0xFFFF'FFFF;

  explicit Reservation(uint64_t timer_tag) noexcept : timer(timer_tag) {}

  base::Timer timer;  // when its lifetime ends, or when it is forgotten
  uint64_t id = 0;
  uint32_t lifetime_ms = 0;
  uint8_t subjects_count = 0;
  uint8_t refunded = 0;  // a bit for each subject that was refunded when it expired
  api::ReservationState state : 3 = api::ReservationState::open;  // none: a hold, not admitted yet
  RecordMark record : 2 = RecordMark::none;                       // of ChangeLog, as `mark`
  bool is_part : 1 = false;                                       // its home is not on this shard
  bool takes_slot : 1 = true;  // as long as it is a hold: of limits on concurrency
  bool repeated : 1 = false;   // a repeat was answered, perhaps on another connection
  uint8_t admission_bits : 2 = static_cast<uint8_t>(api::QuotaCode::ok);  // as admission()
  // A home's, on other shards. Its id says so, too, if it was made with them: a start with more
  // shards may have parted its subjects since then.
  bool has_parts : 1 = false;
  // Of a part: then it has a lifetime of its own.
  bool has_home_at_other_node : 1 = false;
  ChangeMark mark : 2 = ChangeMark::clean;

  api::Amounts amounts;  // charged now; settled: what was used
  std::array<SubjectIndex, limits::call_subjects_max> subjects{};

  int64_t charged_ns = 0;
  uint64_t order = 0;            // of the call that charged it
  uint64_t expired_order = 0;    // when its lifetime ended; 0: it has not
  uint32_t binding = not_bound;  // of its connection, in ConnectionBindings; never changes
  OwnerNames::Block owner = OwnerNames::none;
  NameHash client_id;
  uint64_t request_hash = 0;

  // What it was admitted with.
  api::QuotaCode admission() const noexcept { return static_cast<api::QuotaCode>(admission_bits); }
  void set_admission(api::QuotaCode code) noexcept {
    static_assert(static_cast<int>(api::QuotaCode::unknown_subject_allowed) == 3);
    DEBUG_ASSERT(api::admits(code));
    admission_bits = static_cast<uint8_t>(code) & 3U;
  }
  std::span<const SubjectIndex> named() const noexcept { return {subjects.data(), subjects_count}; }
  bool is_connection_bound() const noexcept { return binding != not_bound; }
  // Settled or cancelled: an expired one may still be settled.
  bool has_ended() const noexcept {
    return state == api::ReservationState::settled || state == api::ReservationState::cancelled;
  }
  // Nobody else ends it: it has a timer while it is open.
  bool has_lifetime() const noexcept { return !is_part || has_home_at_other_node; }
  bool is_held() const noexcept { return state == api::ReservationState::none; }
  bool has_expired() const noexcept { return expired_order != 0; }
};

static_assert(sizeof(Reservation) == 184);  // 192 with its link in the pool's list of free places

using Reservations =
    boost::intrusive::list<Reservation, boost::intrusive::constant_time_size<false>>;

}  // namespace sluice::quota
