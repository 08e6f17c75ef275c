// One run of the load tool: server, frames, warm-up, measurement, report.
// Errors: std::exception with one sentence for the user.
#pragma once

#include "load/options.hpp"

namespace sluice::load {

// Progress goes to stderr, the summary to stdout; with `json` the summary goes to stderr and one
// line of JSON to stdout. Returns the exit code: 1 when frames were refused or unanswered.
int run(Options options);

}  // namespace sluice::load
