// A subject: a name, its quota, its usage, and the queue of its waiters.
// Lives:  in the pool of the SubjectTable, from its first use, or as long as it is configured,
//         until it is idle.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/entry.hpp"
#include "api/limit.hpp"
#include "limiter/meter_shape.hpp"
#include "quota/change_mark.hpp"
#include "quota/compiled_quota.hpp"
#include "quota/queue_place.hpp"

namespace sluice::quota {

using SubjectIndex = uint32_t;
inline constexpr SubjectIndex no_subject = 0xFFFF'FFFF;
// In the lists of reservations, from here on: a subject of another shard, or node: with its stop.
inline constexpr SubjectIndex first_remote_subject = 0xFFFF'0000;
constexpr SubjectIndex subject_of_shard(api::ShardId shard) noexcept {
  return first_remote_subject + shard;
}
constexpr api::ShardId shard_of_subject(SubjectIndex index) noexcept {
  return static_cast<api::ShardId>(index - first_remote_subject);
}
// Whether it is the index of a subject of this shard, with a quota.
constexpr bool is_here(SubjectIndex index) noexcept {
  return index < first_remote_subject;
}
constexpr bool is_remote(SubjectIndex index) noexcept {
  return index >= first_remote_subject && index != no_subject;
}

// 128 bits that stand for a name: its text is not compared.
struct NameHash {
  uint64_t low = 0;
  uint64_t high = 0;
  bool is_set() const noexcept { return low != 0 || high != 0; }
  bool operator==(const NameHash&) const = default;
};

// Which class writes which fields:
//   ReservationBook           open, held
//   WaitQueues                queue, waiting, overtaken
//   ServeList                 to_serve, next_to_serve
//   QueueServer               served_order; it adds to overtaken, too
//   BookAdoption, Engine      configured
//   HeldAmounts               has_holds, holds
//   SubjectTable, QueueScan   to_scan
//   ChangeLog                 mark, record
//   SubjectTable              all others
// The meters in `words` are charged in limited_subject_meters.cpp and reservation_charges.cpp.
struct alignas(64) Subject {
  // What every call reads: a cache line.
  NameHash hash;
  const CompiledQuota* quota = nullptr;  // null: none any more, but something refers to it
  limiter::Words words;                  // of its meters, null where they have none
  uint32_t version = 0;                  // of the book that its quota is from
  uint32_t resets = 0;                   // resets of all subjects that it has applied
  uint32_t open = 0;                     // reservations that hold a slot
  uint32_t held = 0;     // reservations that name it, also remembered ones that have ended
  uint32_t waiting = 0;  // in its queue
  uint16_t route = 0;    // of its name (proto/reservation_id.hpp)
  api::QuotaSource source : 3 = api::QuotaSource::none;
  ChangeMark mark : 2 = ChangeMark::clean;
  RecordMark record : 2 = RecordMark::none;
  bool has_holds : 1 = false;
  bool to_serve = false;  // its queue: a waiter in it may fit

  char* name = nullptr;
  uint16_t name_bytes = 0;
  bool to_scan = false;     // its queue may have waiters that its quota can never admit
  bool configured = false;  // named by the configuration file, or put: stays while it is idle
  uint32_t overtaken = 0;   // how many have overtaken its queue's present head
  Queue queue;
  uint64_t reset_order = 0;                 // of the call that reset it last
  uint64_t served_order = 0;                // of the call that served its queue last
  SubjectIndex next_to_serve = no_subject;  // behind it in the ServeList
  uint32_t holds = 0;                       // has_holds: their sum, in HeldAmounts

  bool has_waiters() const noexcept { return waiting > 0; }
};
static_assert(offsetof(Subject, name) == 64);
static_assert(sizeof(Subject) == 128);

}  // namespace sluice::quota
