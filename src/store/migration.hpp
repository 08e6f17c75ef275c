// Brings a state file of an older version to the present one.
// Flow:   StateFile::open(), with the lock, after its checks -> every part is checked -> a copy,
//         FILE.v1 -> all steps in one transaction.
// Shape:  FILE.v1 is a file as a backup is, with the owner and the permissions of FILE. One that is
//         there already must be the same, byte for byte, as one that a start that died has left;
//         else `exists`: it is never overwritten.
// Errors: whatever fails, FILE is of the old version, with all that it had.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "store/check.hpp"
#include "store/database.hpp"

namespace sluice::store {

// From a version to the next one.
struct MigrationStep {
  uint32_t from;
  const char* sql;
};

// 1: all parts are of quotas. 2: there may be others, which a program that knows version 1 would
// take for damage, so it must refuse the file. An index over their kinds was measured: with 1,000
// parts of 1 MB it takes 0.1 ms of 0.3 from a sum of their lengths, which happens at the end of a
// lap, and deleting parts takes as long as without.
inline constexpr std::array<MigrationStep, 1> migration_steps{{{1, ""}}};

struct MigrationOptions {
  std::string path;
  std::span<const MigrationStep> steps = migration_steps;
  VerifyPart verify;  // empty: parts are not checked
  const char* vfs = nullptr;
};

// Nothing to do when it has the present version.
Result<void> migrate(Database& database, const MigrationOptions& options);

}  // namespace sluice::store
