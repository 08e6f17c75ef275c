// What `sluicegate state` prints about a state file: as text, and as JSON.
// Flow:   store::Info -> lines, or one object -> standard output.
// Shape:  without the seeds of names and routes: they must stay unknown to callers, who could aim
//         at one bucket or shard.
#pragma once

#include <cstdint>
#include <string>

#include "store/info.hpp"
#include "text/json.hpp"

namespace sluice::cli {

// "512 bytes", "80.0 KiB", "1.5 GiB".
std::string size_text(uint64_t bytes);

// "2026-11-21T19:00:00.123Z, 4.2 s ago"
std::string commit_text(const store::Info& info, int64_t now_wall_ns);

// "epochs 3 to 5"; "no epochs"
std::string epochs_text(const store::Info& info);

// "2026-11-21T19:00:00.123Z"
std::string time_text(int64_t wall_ns);

// A line for each fact, in two columns.
std::string info_text(const store::Info& info, int64_t now_wall_ns);
// null: there is none, or it is not known.
text::Json export_json(const store::Info& info);  // the first line of an export
text::Json info_json(const store::Info& info, int64_t now_wall_ns);

}  // namespace sluice::cli
