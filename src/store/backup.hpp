// Copies a state file, for `sluicegate state backup`; also beside a running server, whose commits
// do not disturb the copy: it is as of one instant.
// Errors: exists: the target is never overwritten; damaged: the source's pages are checked first.
//         A copy that fails leaves no target; one that is interrupted leaves TARGET.unfinished at
//         most.
// Lives:  when it has returned, the copy survives a power failure.
#pragma once

#include <string>

#include "store/failure.hpp"

namespace sluice::store {

Result<void> backup(const std::string& source, const std::string& target,
                    const char* vfs = nullptr);

}  // namespace sluice::store
