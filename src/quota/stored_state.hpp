// What was stored before an earlier end of the server, as a shard's store reads it at its start.
// Flow:   the state file -> StoredState -> QuotaDecider::restore() -> Restored, for the log.
// Shape:  each shard reads the records several times: those that it has written itself, or, where
//         the number of shards was another one, all of them, and takes what is its own now.
// Units:  state time.
// Lives:  until restore() returns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/limit.hpp"
#include "limiter/meter_shape.hpp"
#include "state/record.hpp"

namespace sluice::quota {

// Where a record was: in a part of this epoch and shard, whose header has this moment.
struct RecordOrigin {
  uint64_t epoch = 0;
  uint16_t shard = 0;
  limiter::Moment latest;
};

class RecordTaker {
 public:
  virtual ~RecordTaker() = default;
  // False: it contradicts what was read before, and no more is needed.
  virtual bool take(const state::StoredRecord& record, const RecordOrigin& origin) = 0;
};

class StoredRecords {
 public:
  virtual ~StoredRecords() = default;
  // Passes on the records of this shard, or of all, those of later epochs first. Records that are
  // older than some with another number of shards are none of them. False: it could not, or take()
  // returned false.
  virtual bool read(RecordTaker& taker, std::optional<uint32_t> of_shard) = 0;
};

// Of a shard: from the header of its newest part.
struct StoredShard {
  limiter::Moment last;
  uint64_t reset_all_order = 0;
};

// A quota as JSON, by its class.
struct StoredClass {
  uint64_t id = 0;
  std::string_view quota;
};

// A quota that was put at run time, likewise.
struct StoredQuota {
  std::string_view name;
  std::string_view quota;
};

struct StoredState {
  StoredRecords& records;
  std::span<const StoredShard> shards;  // by their numbers: as many as wrote the records
  std::span<const StoredClass> classes;
  std::span<const StoredQuota> run_time_quotas;
};

// A quota that was put at run time for a subject that another node owns now.
struct MovedQuota {
  std::string name;
  api::Quota quota;
};

struct Restored {
  std::string damage;  // why nothing can be restored; empty: it was
  // The records are sound, but a quota of theirs needs what this machine or program lacks.
  bool is_unusable = false;
  uint64_t subjects = 0;
  uint64_t reservations = 0;  // with a place
  uint64_t ends = 0;          // without
  // There was no room.
  uint64_t subjects_left_out = 0;
  uint64_t reservations_left_out = 0;
  uint64_t parts_refunded = 0;           // the verdict on their calls was not stored
  uint64_t subjects_of_other_nodes = 0;  // left out, because these own them now
  // Likewise, of this shard; they stay in the state until drop_moved_quota(). Sums have none.
  std::vector<MovedQuota> moved_quotas;

  Restored& operator+=(const Restored& other) {
    subjects += other.subjects;
    reservations += other.reservations;
    ends += other.ends;
    subjects_left_out += other.subjects_left_out;
    reservations_left_out += other.reservations_left_out;
    parts_refunded += other.parts_refunded;
    subjects_of_other_nodes += other.subjects_of_other_nodes;
    return *this;
  }
};

}  // namespace sluice::quota
