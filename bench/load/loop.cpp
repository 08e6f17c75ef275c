#include "bench/load/loop.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "bench/load/clocks.hpp"

namespace sluice::load {
namespace {

constexpr size_t input_bytes_min = 256 * 1024;
constexpr int wait_ms = 100;  // so that a silent server does not stop the clock
constexpr size_t events_max = 64;

[[noreturn]] void throw_errno(const char* what) {
  throw sluicegate::ConnectionLost(std::string{what} + ": " + std::strerror(errno));
}

void require_shard(const sluicegate::Welcome& welcome, uint32_t shard, const Routing& routing) {
  if (welcome.shards != routing.shards || welcome.routing_seed != routing.seed) {
    throw sluicegate::ProtocolError(
        "connections of one run came to different servers, or the server was started anew");
  }
  if (welcome.shard != shard) {
    throw sluicegate::ProtocolError(
        "a connection asked for shard " + std::to_string(shard) + " and got shard " +
        std::to_string(welcome.shard) +
        ": this server gives no choice; run without --route or --misroute");
  }
}

}  // namespace

Loop::Lane::Lane(const std::string& host, uint16_t port, size_t of_stream,
                 std::optional<uint32_t> shard)
    : connection{host, port, {.client_name = "sluicegate-bench", .wanted_shard = shard}},
      stream{of_stream},
      input(input_bytes_min / sizeof(uint64_t)) {}

Loop::Loop(const Options& options, std::span<const FrameSet> streams,
           const std::optional<Routing>& routing, const std::string& host, uint16_t port)
    : window_{options.window} {
  for (const FrameSet& frames : streams) {
    streams_.push_back({.frames = frames, .sent_at_ns = std::vector<uint64_t>(frames.count(), 0)});
  }
  restart_counters();
  connect(options, routing, host, port);
  watch_lanes();
}

void Loop::connect(const Options& options, const std::optional<Routing>& routing,
                   const std::string& host, uint16_t port) {
  for (uint32_t i = 0; i < options.connections; ++i) {
    const auto shard = static_cast<uint32_t>(i % streams_.size());
    const size_t stream = options.route == Route::strangers ? (shard + 1) % streams_.size() : shard;
    lanes_.push_back(
        std::make_unique<Lane>(host, port, stream, routing ? std::optional{shard} : std::nullopt));
    streams_[stream].has_lane = true;
    if (i == 0) check_limits(options);
    if (routing) require_shard(lanes_.back()->connection.welcome(), shard, *routing);
  }
}

void Loop::watch_lanes() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) throw_errno("epoll_create1 failed");
  for (const auto& lane : lanes_) {
    // Edge-triggered: each event is followed by reading and writing until nothing is left.
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = lane.get()}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, lane->connection.native_handle(), &event) != 0) {
      throw_errno("epoll_ctl failed");
    }
  }
}

Loop::~Loop() {
  if (epoll_ >= 0) close(epoll_);
}

void Loop::check_limits(const Options& options) const {
  const auto& welcome = this->welcome();
  size_t frame_bytes_max = 0;
  for (const Stream& stream : streams_) {
    frame_bytes_max = std::max(frame_bytes_max, stream.frames.frame_bytes_max());
  }
  const auto refuse = [](const std::string& what, uint64_t allowed) {
    throw sluicegate::LimitExceeded(what + ": this server allows " + std::to_string(allowed));
  };
  if (options.batch > welcome.frame_entries_max) {
    refuse("--batch " + std::to_string(options.batch), welcome.frame_entries_max);
  }
  if (frame_bytes_max > welcome.frame_bytes_max) {
    refuse("frames of " + std::to_string(frame_bytes_max) + " bytes", welcome.frame_bytes_max);
  }
  if (options.window > welcome.outstanding_frames_max) {
    refuse("--window " + std::to_string(options.window), welcome.outstanding_frames_max);
  }
  const uint64_t window_bytes = uint64_t{options.window} * frame_bytes_max;
  if (window_bytes > welcome.outstanding_bytes_max) {
    refuse("--window " + std::to_string(options.window) + " with frames of " +
               std::to_string(frame_bytes_max) + " bytes",
           welcome.outstanding_bytes_max / frame_bytes_max);
  }
}

void Loop::restart_counters() {
  counters_ = std::make_unique<Counters>();
  for (const Stream& stream : streams_) {
    counters_->streams.push_back({.first_frame = stream.cursor});
  }
}

bool Loop::every_frame_answered() const noexcept {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i].has_lane) continue;
    if (counters_->streams[i].frames_answered < streams_[i].frames.count()) return false;
  }
  return true;
}

void Loop::run(const GoesOn& goes_on) {
  for (const auto& lane : lanes_) fill(*lane);
  while (goes_on(now_ns())) turn(true);
}

size_t Loop::drain(double seconds_max) {
  const uint64_t end_ns = now_ns() + static_cast<uint64_t>(seconds_max * 1e9);
  while (in_flight_ > 0 && now_ns() < end_ns) turn(false);
  return in_flight_;
}

// One wait, and all that is ready: answers counted, and the room they make filled again.
void Loop::turn(bool sending) {
  std::array<epoll_event, events_max> events;
  const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms);
  if (ready < 0 && errno != EINTR) throw_errno("epoll_wait failed");
  for (int i = 0; i < ready; ++i) {
    Lane& lane = *static_cast<Lane*>(events[static_cast<size_t>(i)].data.ptr);
    drain_socket(lane);
    if (sending) {
      fill(lane);
    } else {
      send_unsent(lane);
    }
  }
  // A lane that had to wait for another's frame gets no event of its own.
  if (sending && held_back_) {
    held_back_ = false;
    for (const auto& lane : lanes_) fill(*lane);
  }
}

// Sends runs of frames until the window is full or the socket takes no more.
void Loop::fill(Lane& lane) {
  if (streams_[lane.stream].frames.count() == 0) return;  // a shard that owns no key
  while (send_unsent(lane) && lane.in_flight < window_) {
    take_run(lane, now_ns());
    if (!lane.unsent.empty()) continue;
    held_back_ = true;
    return;
  }
}

bool Loop::send_unsent(Lane& lane) {
  while (!lane.unsent.empty()) {
    const ssize_t sent =
        send(lane.connection.native_handle(), lane.unsent.data(), lane.unsent.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      lane.unsent = lane.unsent.subspan(static_cast<size_t>(sent));
      counters_->bytes_out += static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      throw_errno("sending failed");
    }
  }
  return true;
}

// Claims the next frames in order, as many as the window allows.
void Loop::take_run(Lane& lane, uint64_t now_ns) {
  Stream& stream = streams_[lane.stream];
  const size_t first = stream.cursor;
  while (stream.cursor < stream.frames.count() && lane.in_flight < window_ &&
         stream.sent_at_ns[stream.cursor] == 0) {
    stream.sent_at_ns[stream.cursor++] = now_ns;
    ++lane.in_flight;
  }
  lane.unsent = stream.frames.bytes_of(first, stream.cursor);
  in_flight_ += stream.cursor - first;
  counters_->streams[lane.stream].frames_sent += stream.cursor - first;
  if (stream.cursor == stream.frames.count()) stream.cursor = 0;
}

void Loop::drain_socket(Lane& lane) {
  for (;;) {
    const size_t room = lane.input.size() * sizeof(uint64_t) - lane.input_bytes;
    auto* bytes = reinterpret_cast<std::byte*>(lane.input.data());
    const ssize_t got = recv(lane.connection.native_handle(), bytes + lane.input_bytes, room, 0);
    if (got == 0) throw sluicegate::ConnectionLost("the server closed a connection");
    if (got < 0) {
      if (errno == EAGAIN) return;
      if (errno == EINTR) continue;
      throw_errno("receiving failed");
    }
    lane.input_bytes += static_cast<size_t>(got);
    counters_->bytes_in += static_cast<uint64_t>(got);
    count_answers(lane);
    // Less than there was room for: the socket is empty, or it will raise another event.
    if (static_cast<size_t>(got) < room) return;
    if (lane.input_bytes == lane.input.size() * sizeof(uint64_t)) {
      lane.input.resize(lane.input.size() * 2);
    }
  }
}

void Loop::count_answers(Lane& lane) {
  const uint64_t at_ns = now_ns();
  const auto words = std::span{lane.input}.first(lane.input_bytes / sizeof(uint64_t));
  Stream& stream = streams_[lane.stream];
  size_t taken_words = 0;
  while (const auto counted = counters_->verdicts.next(words.subspan(taken_words))) {
    taken_words += counted->words;
    const size_t frame = counted->id - 1;
    if (frame >= stream.sent_at_ns.size() || stream.sent_at_ns[frame] == 0) {
      throw sluicegate::ProtocolError("the server answered a frame that is not in flight");
    }
    if (!counted->refused && counted->entries != stream.frames.entries_of(frame)) {
      throw sluicegate::ProtocolError("the server answered another number of entries");
    }
    counters_->latency.add(at_ns - stream.sent_at_ns[frame]);
    ++counters_->streams[lane.stream].frames_answered;
    stream.sent_at_ns[frame] = 0;
    --lane.in_flight;
    --in_flight_;
  }
  const size_t taken_bytes = taken_words * sizeof(uint64_t);
  lane.input_bytes -= taken_bytes;
  auto* bytes = reinterpret_cast<std::byte*>(lane.input.data());
  std::memmove(bytes, bytes + taken_bytes, lane.input_bytes);
}

}  // namespace sluice::load
