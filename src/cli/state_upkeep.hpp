// `sluicegate state compact`: an action on a state file that no server has.
// Errors: std::runtime_error, one line with cause and cure; exit code 2.
#pragma once

#include <string>

namespace sluice::cli {

int compact_state(const std::string& file);

}  // namespace sluice::cli
