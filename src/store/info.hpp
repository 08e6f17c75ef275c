// What is in a state file, for `sluicegate state info`; also beside a running server.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/state_reader.hpp"

namespace sluice::store {

// The wall time that a part's head has; empty: it cannot be read.
using ReadPartTime = std::function<std::optional<int64_t>(std::span<const std::byte>)>;

struct Info {
  std::string path;
  uint32_t schema_version = 0;
  uint64_t file_bytes = 0;
  uint64_t wal_bytes = 0;
  uint64_t unused_bytes = 0;  // in FILE: pages that were freed, for what comes
  uint64_t parts_count = 0;
  uint64_t parts_bytes = 0;
  uint64_t first_epoch = 0;  // of the oldest part; 0: there is none
  uint64_t last_epoch = 0;
  std::optional<int64_t> last_commit_wall_ns;
  uint64_t quota_classes_count = 0;
  uint64_t run_time_quotas_count = 0;
  std::vector<StoredMeta> meta;
};

// `vfs` as for StateReader.
Result<Info> read_info(const std::string& path, const ReadPartTime& time_of,
                       const char* vfs = nullptr);

// As of the reader's instant.
Result<Info> read_info(StateReader& reader, const ReadPartTime& time_of);

}  // namespace sluice::store
