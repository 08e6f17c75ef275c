// Makes a state file as small as what it has: copies it without the room that is free in it, and
// puts the copy in its place. For `sluicegate state compact`.
// Shape:  the copy is FILE.unfinished until it is whole and confirmed by the disk. SQLite's VACUUM
//         within the file was left out: it needs room for two copies, one of them in FILE-wal.
// Errors: in_use: a server has it; busy: a reader. Whatever fails or dies, FILE has what it had.
// Bounds: needs as much room as the file has when it is compact.
// Lives:  the lock is held until it returns.
#pragma once

#include <cstdint>
#include <string>

#include "store/failure.hpp"

namespace sluice::store {

// With FILE-wal.
struct Compaction {
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
};

Result<Compaction> compact(const std::string& path, const char* vfs = nullptr);

}  // namespace sluice::store
