// The state file as an earlier start of the server has left it.
// Flow:   constructor: meta and the newest headers -> KeptState -> restore(), by each worker, on
//         its own thread with its own reader.
// Errors: the constructor and restore() throw one line that names the flag, the file, the cause and
//         the cure. The file is left as it is.
// Lives:  until the workers have started; nobody writes the file meanwhile.
// Threads: restore() by any number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/state_options.hpp"
#include "server/stored_content.hpp"

namespace sluice::server {

class StoredFile final : public StateSource {
 public:
  explicit StoredFile(const std::string& path);

  // As of StoredContent.
  const std::optional<StateSeeds>& seeds() const noexcept { return content_.seeds(); }
  const std::optional<state::StoredTime>& last_time() const noexcept {
    return content_.last_time();
  }
  uint32_t shards_count() const noexcept { return content_.shards_count(); }

  quota::Restored restore(quota::QuotaDecider& quotas, base::Now now) const override;
  RestoredWindows restore(shard::KeyDecider& keys, const OwnKeys& own,
                          base::Now now) const override;

 private:
  const std::string path_;
  const StoredContent content_;
};

}  // namespace sluice::server
