// A socket that has received Welcome, with both its directions. Part of Connection and Client.
// Shape:  one thread may write while another reads; only one thread at a time uses a direction.
// Errors: the constructor throws ConnectionLost, TimedOut, Refused or ProtocolError, and
//         std::invalid_argument for options outside their bounds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "sluicegate/frame_stream.hpp"
#include "sluicegate/frames.hpp"

namespace sluicegate {

// Makes the system calls; see src/platform.hpp.
Platform& real_platform() noexcept;

struct ConnectOptions {
  std::string client_name = "sluicegate-cpp";
  std::optional<uint32_t> wanted_shard{};
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds call_timeout{5'000};  // of the blocking calls
};

class Link {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>;  // nothing: never

  // Connects and exchanges Hello and Welcome within the connect time-out. When `stop` becomes true,
  // every wait ends soon, as if its deadline had passed.
  Link(const std::string& host, uint16_t port, const ConnectOptions& options,
       const std::atomic<bool>* stop = nullptr, Platform& platform = real_platform());
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const Welcome& welcome() const noexcept { return welcome_; }
  const std::string& peer() const noexcept { return peer_; }
  int socket() const noexcept { return socket_; }
  // Of both directions: not to be called while a thread reads or writes.
  Traffic traffic() const noexcept;

  // The buffer that frames are encoded into.
  std::vector<uint64_t>& output() noexcept { return writer_.buffer(); }
  // True when nothing is left to write.
  bool write_some() { return writer_.write_some(platform_, socket_, sent_); }

  // False when the socket holds nothing. Invalidates the frames that were returned.
  bool read_some() { return reader_.read_some(platform_, socket_, received_); }
  std::optional<FrameReader::Frame> next_frame() { return reader_.next_frame(); }
  bool has_frame() const { return reader_.has_frame(); }

  // Waits for events of poll(); false when the deadline has passed.
  bool poll_until(short events, Deadline deadline);
  // Writes and reads until a frame is complete; nothing when none is at the deadline.
  std::optional<FrameReader::Frame> wait_frame(Deadline deadline);

  // From now on waits no longer check `stop`: shut_down() ends them.
  void forget_stop() noexcept { stop_ = nullptr; }
  // Ends both directions; threads that wait for the socket wake up.
  void shut_down() noexcept;

 private:
  void greet(const ConnectOptions& options, Clock::time_point deadline);

  Platform& platform_;
  std::string peer_;
  const std::atomic<bool>* stop_;
  int socket_ = -1;
  Welcome welcome_;
  FrameWriter writer_;
  FrameReader reader_;
  Traffic sent_;
  Traffic received_;
};

// Throws Refused for an Error frame, ProtocolError for an answer of an unexpected kind.
[[noreturn]] void throw_unexpected(const Answer& answer);

}  // namespace sluicegate
