// What a state file has, as of one commit: its seeds, the newest headers, and, for a store, its
// subjects and reservations.
// Flow:   a StateReader -> constructor: meta and the newest headers -> restore().
// Errors: constructor and restore() throw one line that names the file, the cause and the cure.
// Lives:  a reader that goes on seeing the commit that the constructor's saw, or a file that nobody
//         writes: parts of two commits do not fit together.
// Threads: restore() by any number, each with its own reader and store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "quota/quota_decider.hpp"
#include "quota/stored_state.hpp"
#include "server/state_meta.hpp"
#include "server/state_options.hpp"
#include "state/state_clock.hpp"
#include "store/state_reader.hpp"

namespace sluice::server {

class StoredContent {
 public:
  // `path` as it was given, for errors.
  StoredContent(std::string path, store::StateReader& reader);

  // None: the file is new.
  const std::optional<StateSeeds>& seeds() const noexcept { return seeds_; }
  // None: there is no part yet.
  const std::optional<state::StoredTime>& last_time() const noexcept { return last_time_; }
  // That wrote its newest parts; 0: there is none.
  uint32_t shards_count() const noexcept { return static_cast<uint32_t>(shards_.size()); }

  quota::Restored restore(store::StateReader& reader, quota::QuotaDecider& quotas,
                          base::Now now) const;
  // Likewise the windows of the shard's own keys (StateSource).
  RestoredWindows restore(store::StateReader& reader, shard::KeyDecider& keys, const OwnKeys& own,
                          base::Now now) const;

 private:
  void read_meta(store::StateReader& reader);
  void read_headers(store::StateReader& reader);

  const std::string path_;
  std::optional<StateSeeds> seeds_;
  std::optional<state::StoredTime> last_time_;
  std::vector<quota::StoredShard> shards_;
};

}  // namespace sluice::server
