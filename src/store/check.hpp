// Checks a whole state file, for `sluicegate state check`; also beside a running server.
// Errors: what is wrong in the file is a complaint; a Failure means that it could not be read.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "store/info.hpp"
#include "store/state_reader.hpp"

namespace sluice::store {

// Why a part is damaged; empty: it is sound.
using VerifyPart = std::function<std::optional<std::string>(const StoredPart&)>;

struct CheckReport {
  Info info;
  uint64_t damaged_parts_count = 0;
  std::vector<std::string> complaints;  // at most complaints_max; empty: the file is sound
};

Result<CheckReport> check(const std::string& path, const ReadPartTime& time_of,
                          const VerifyPart& verify, const char* vfs = nullptr);

}  // namespace sluice::store
