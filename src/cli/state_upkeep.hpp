// `sluicegate state compact` and `recover`.
// Errors: std::runtime_error, one line with cause and cure; exit code 2.
#pragma once

#include <string>

namespace sluice::cli {

int compact_state(const std::string& file);
int recover_state(const std::string& from, const std::string& to);

}  // namespace sluice::cli
