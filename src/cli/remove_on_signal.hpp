// Removes an unfinished file, and SQLite's files beside it, when SIGINT, SIGTERM or SIGHUP ends the
// process, which then ends by that signal.
// Lives:  one at a time; the destructor takes nothing away.
#pragma once

#include <string>

namespace sluice::cli {

class RemoveOnSignal {
 public:
  explicit RemoveOnSignal(const std::string& path);
  ~RemoveOnSignal();
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;
};

}  // namespace sluice::cli
