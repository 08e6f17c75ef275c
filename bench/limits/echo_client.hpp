// Keeps a window of frames full on each connection, and compares every reply.
// Flow:   fill() -> send() -> ... -> recv() -> compared with the numbers sent -> fill().
// Shape:  every frame is the same: items numbered from 0 on. So a count of bytes determines the
//         bytes to send and the bytes to expect.
// Units:  bytes of each direction since the start.
// Errors: std::system_error; std::runtime_error for a wrong reply.
// Lives:  the sockets' owner outlives it; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/limits/echo.hpp"
#include "io/file_descriptor.hpp"

namespace sluice::limits_bench {

struct EchoCounts {
  uint64_t items = 0;  // items with a correct reply
  uint64_t sends = 0;  // system calls
  uint64_t receives = 0;
};

class EchoClient {
 public:
  EchoClient(std::span<const int> sockets, const Echo& echo);

  void run(uint64_t end_ns);

  // Sends no new frame, and reads the outstanding replies.
  void finish(uint64_t end_ns);

  EchoCounts counts() const;

 private:
  struct Lane {
    int fd;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
  };

  void turn(bool begins_frames);
  uint64_t allowed_bytes(const Lane& lane, bool begins_frames) const;
  void fill(Lane& lane, bool begins_frames);
  void drain_socket(Lane& lane);
  void check(const Lane& lane, size_t got) const;
  bool every_reply_came() const;

  const Echo echo_;
  const uint64_t frame_bytes_;
  const uint64_t frame_reply_bytes_;
  std::vector<Lane> lanes_;
  std::vector<std::byte> frames_;   // a window of them
  std::vector<std::byte> replies_;  // the expected replies, from any offset
  std::vector<std::byte> input_;
  io::FileDescriptor epoll_;
  EchoCounts counts_;
};

}  // namespace sluice::limits_bench
