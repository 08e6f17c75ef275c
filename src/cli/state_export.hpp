// Prints all that a state file has as JSON, one object a line (JSON Lines): a file of a million
// subjects is never one document in memory.
// Flow:   three readings of the same instant, the newest parts first: which reservations live, and
//         what subjects they name -> the subjects, with their usage -> the reservations; then the
//         windows of keys.
// Shape:  "type" is first in each line: file, run_time_quota, subject, reservation, end, window,
//         summary.
//         Fields have the names and meanings of REST. Of several records about a thing the newest
//         counts; what is gone is left out. A further type gets a line type of its own here.
// Units:  `*_ms` from the last commit on.
// Errors: std::runtime_error, one line. Parts of an unknown kind are counted in the summary.
// Bounds: 16 bytes for each subject and reservation, the names of subjects that reservations name,
//         and the keys of windows.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::cli {

// Returns the exit code.
int export_state(const std::string& file);

}  // namespace sluice::cli
