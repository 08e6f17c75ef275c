// Logs that connections are turned away or lost because the kernel refuses what they need, with the
// cause and the cure.
// Flow:   workers, at `accept_failed` and `failed` of io::Io -> note().
// Shape:  WARN `connections are turned away: ...`, with `cause`, and `times` since the last such
//         line. One line a minute: accepting is tried ten times a second on every shard.
// Units:  a failure is a negative errno.
// Threads: any; one for the whole process. Allocates, but only for its line.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.hpp"

namespace sluice::server {

// Between two lines.
inline constexpr int64_t shortage_pause_ns = 60 * base::ns_per_s;

class ShortageLog {
 public:
  // Whether a connection has failed because the machine lacks something, not because of its peer.
  static bool is_shortage(int32_t failure) noexcept;

  void note(int32_t failure, base::Now now) noexcept;

 private:
  std::atomic<uint64_t> unreported_{0};
  std::atomic<int64_t> quiet_until_ns_{0};
};

}  // namespace sluice::server
