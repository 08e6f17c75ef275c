// The state file as an earlier start of the server has left it.
// Flow:   constructor: meta and the newest headers -> KeptState -> restore(), by each worker, on
//         its own thread with its own reader.
// Errors: the constructor and restore() throw one line that names the file, the cause and the cure.
//         The file is left as it is.
// Lives:  until the workers have started.
// Threads: restore() by any number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quota/stored_state.hpp"
#include "server/state_options.hpp"
#include "state/state_clock.hpp"
#include "store/state_reader.hpp"

namespace sluice::server {

// Names of subjects and their shards depend on them: they are drawn once for a file.
struct StateSeeds {
  uint64_t name_seed = 0;
  uint64_t routing_seed = 0;
};

class StoredFile final : public StateSource {
 public:
  explicit StoredFile(std::string path);

  // None: the file is new.
  const std::optional<StateSeeds>& seeds() const noexcept { return seeds_; }
  // None: there is no part yet.
  const std::optional<state::StoredTime>& last_time() const noexcept { return last_time_; }
  // That wrote its newest parts; 0: there is none.
  uint32_t shards_count() const noexcept { return static_cast<uint32_t>(shards_.size()); }

  quota::Restored restore(quota::QuotaDecider& quotas, base::Now now) const override;
  RestoredWindows restore(shard::KeyDecider& keys, const OwnKeys& own,
                          base::Now now) const override;

 private:
  void read_meta(store::StateReader& reader);
  void read_headers(store::StateReader& reader);

  const std::string path_;
  std::optional<StateSeeds> seeds_;
  std::optional<state::StoredTime> last_time_;
  std::vector<quota::StoredShard> shards_;
};

// Its keys in the file's table `meta`.
inline constexpr const char* name_seed_key = "name_seed";
inline constexpr const char* routing_seed_key = "routing_seed";
inline constexpr const char* shards_key = "shards";
inline constexpr const char* version_key = "version";

}  // namespace sluice::server
