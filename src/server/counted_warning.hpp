// A WARN about something that may happen very often: a line a minute at most, with how often it
// happened since the last one.
// Flow:   each worker, with what it has counted -> note().
// Threads: any; one of each kind for the whole process. Allocates, but only for its lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/time.hpp"
#include "server/log_pause.hpp"

namespace sluice::server {

class CountedWarning {
 public:
  static constexpr int64_t pause_ns = 60 * base::ns_per_s;  // between two lines

  // The text is a literal.
  explicit CountedWarning(std::string_view text) noexcept : text_(text) {}

  // It has happened so many more times.
  void note(uint64_t times, base::Now now) noexcept;

 private:
  const std::string_view text_;
  std::atomic<uint64_t> unreported_{0};
  LogPause pause_{pause_ns};
};

// Other nodes forward entries that are not this node's own, by its list.
inline constexpr std::string_view misrouted_text =
    "another node forwards keys to this one that it does not own: start all nodes with the same "
    "--instance-urls, in the same order; of a gocc, keys with unusual escapes are no fault";
// See NodeCalls.
inline constexpr std::string_view calls_dropped_text =
    "this node owes too many quota calls to nodes that do not answer, and drops some: what those "
    "nodes have reserved stays reserved until its lifetime ends";

}  // namespace sluice::server
