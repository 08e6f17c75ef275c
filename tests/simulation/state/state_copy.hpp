// What a shard answers about its subjects and reservations at one moment, as values.
// Flow:   a shard's store, at the instant of a cut -> copy_of() -> compared with what the next
//         start has loaded (state_check.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/quota.hpp"
#include "base/time.hpp"
#include "quota/quota_decider.hpp"

namespace sluice::simulation {

struct LimitCopy {
  api::LimitKind kind = api::LimitKind::fixed;
  uint64_t amount = 0;
  uint64_t used = 0;
  uint64_t reserved = 0;
};

struct SubjectCopy {
  api::QuotaSource source = api::QuotaSource::none;
  uint32_t open = 0;  // reservations
  std::map<std::string, LimitCopy> limits;
};

struct ReservationCopy {
  api::Amounts amounts;
  std::string owner;
  bool is_bound = false;  // to a connection
  int64_t since_ms = 0;
  int64_t due_ms = 0;
  std::vector<std::string> subjects;  // that the asked shards know of
};

struct StateCopy {
  base::Now at;
  uint32_t shards = 1;  // that were asked
  std::map<std::string, SubjectCopy> subjects;
  std::map<uint64_t, ReservationCopy> reservations;  // by their homes
  std::set<std::string> busy;  // at a cut: subjects of calls that have no answer yet
  bool has_claims = false;     // of calls without a verdict, which reports of usage contain
};

// Rows of a batch that was answered.
void add_subjects(StateCopy& copy, const api::QuotaBatch& batch);
api::QuotaCall holders_call(api::ShardId shard, uint64_t cursor);
// At that time. Returns the cursor of the next page; 0: this was the last.
uint64_t add_holders(StateCopy& copy, const api::QuotaBatch& batch, base::Now now);

// One shard by itself, which has these subjects.
StateCopy copy_of(quota::QuotaDecider& store, api::ShardId shard,
                  const std::vector<std::string>& subjects, base::Now now);

}  // namespace sluice::simulation
