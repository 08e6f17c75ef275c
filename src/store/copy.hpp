// Copies all that a connection sees, as of one instant, into a file of its own: without the room
// that is free in the source, and without a log.
// Errors: of the target, whose name the caller gives it; the copy's pages have been checked, and
//         the disk has confirmed them.
// Source: VACUUM INTO. SQLite's own .backup begins anew at every commit, ten times a second.
#pragma once

#include "store/database.hpp"
#include "store/unfinished_file.hpp"

namespace sluice::store {

// `source` is within no transaction.
Result<void> copy_into(Database& source, const UnfinishedFile& target, const char* vfs);

}  // namespace sluice::store
