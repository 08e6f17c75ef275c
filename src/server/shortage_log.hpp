// Logs that connections are turned away or lost, or that the worker's loop stands still, because
// the kernel refuses what they need, with the cause and the cure.
// Flow:   workers, at `accept_failed` and `failed` of io::Io -> note(); at `refused` ->
//         note_refusal().
// Shape:  WARN `connections are turned away: ...` and `requests are answered late or not at all:
//         ...`, with `cause`, and `times` since the last such line. One line of each a minute: what
//         failed is tried ten times a second on every shard.
// Units:  a failure is a negative errno.
// Threads: any; one for the whole process. Allocates, but only for its lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/time.hpp"
#include "server/log_pause.hpp"

namespace sluice::server {

// Between two lines.
inline constexpr int64_t shortage_pause_ns = 60 * base::ns_per_s;

class ShortageLog {
 public:
  // Whether a connection has failed because the machine lacks something, not because of its peer.
  static bool is_shortage(int32_t failure) noexcept;

  void note(int32_t failure, base::Now now) noexcept;
  void note_refusal(int32_t failure, base::Now now) noexcept;

 private:
  struct Line {
    std::atomic<uint64_t> unreported{0};
    LogPause pause{shortage_pause_ns};
  };

  static void count(Line& line, std::string_view effect, std::string_view cause_and_cure,
                    int32_t failure, base::Now now) noexcept;

  Line turned_away_;
  Line late_;
};

}  // namespace sluice::server
