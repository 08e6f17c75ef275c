// The closed loop: keeps `window` frames in flight on each connection and counts what comes back.
// Flow:   FrameSet -> send -> server -> receive -> VerdictTally, LatencyHistogram.
// Shape:  one thread over non-blocking sockets and epoll. The frames of a stream go out in their
//         order over whichever of its connections has room, so a key comes again only after all
//         others of the stream were sent. A frame that is still unanswered is never sent again:
//         its turn waits. There is one stream, or routed one for each shard of the server.
// Errors: sluicegate::Error when the server refuses, hangs up or answers what was not asked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/load/frame_set.hpp"
#include "bench/load/latency_histogram.hpp"
#include "bench/load/options.hpp"
#include "bench/load/verdict_tally.hpp"
#include "sluicegate/connection.hpp"

namespace sluice::load {

// What has happened since the counters were started.
struct StreamCounters {
  size_t first_frame = 0;  // the first one sent
  uint64_t frames_sent = 0;
  uint64_t frames_answered = 0;
};

struct Counters {
  VerdictTally verdicts;
  LatencyHistogram latency;
  uint64_t bytes_out = 0;
  uint64_t bytes_in = 0;
  std::vector<StreamCounters> streams;
};

class Loop {
 public:
  // `goes_on` is asked once a turn with the time; the loop ends when it says no.
  using GoesOn = std::function<bool(uint64_t now_ns)>;

  // One stream of frames; routed, one for each shard, of its keys alone. The server's Welcome
  // bounds connections and window: throws LimitExceeded with the cure.
  Loop(const Options& options, std::span<const FrameSet> streams,
       const std::optional<Routing>& routing, const std::string& host, uint16_t port);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run(const GoesOn& goes_on);
  // Waits for the answers to all frames in flight; how many did not come in time.
  size_t drain(double seconds_max);

  void restart_counters();
  // Whether every frame was answered since, counting those that were sent again for one.
  bool every_frame_answered() const noexcept;
  const Counters& counters() const noexcept { return *counters_; }
  const sluicegate::Welcome& welcome() const noexcept {
    return lanes_.front()->connection.welcome();
  }

 private:
  struct Stream {
    const FrameSet& frames;
    size_t cursor = 0;                 // the frame to be sent next
    std::vector<uint64_t> sent_at_ns;  // of each frame; 0: not in flight
    bool has_lane = false;             // else it is never sent
  };

  struct Lane {
    Lane(const std::string& host, uint16_t port, size_t of_stream, std::optional<uint32_t> shard);
    sluicegate::Connection connection;  // says Hello, and then only lends its socket
    size_t stream;
    std::span<const std::byte> unsent;  // the rest of a send that did not fit
    uint32_t in_flight = 0;
    std::vector<uint64_t> input;
    size_t input_bytes = 0;  // whole frames are taken at once, so they begin at the front
  };

  void connect(const Options& options, const std::optional<Routing>& routing,
               const std::string& host, uint16_t port);
  void watch_lanes();
  void check_limits(const Options& options) const;
  void turn(bool sending);
  void fill(Lane& lane);
  bool send_unsent(Lane& lane);
  void take_run(Lane& lane, uint64_t now_ns);
  void drain_socket(Lane& lane);
  void count_answers(Lane& lane);

  std::vector<Stream> streams_;
  uint32_t window_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  int epoll_ = -1;
  size_t in_flight_ = 0;
  bool held_back_ = false;  // a lane had room, but its next frame is still in flight
  std::unique_ptr<Counters> counters_;
};

}  // namespace sluice::load
