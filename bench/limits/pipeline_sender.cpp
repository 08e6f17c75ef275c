#include "bench/limits/pipeline_sender.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

#include "load/clocks.hpp"
#include "load/system_error.hpp"

namespace sluice::limits_bench {
namespace {

constexpr size_t input_bytes = 256 * 1024;

}  // namespace

PipelineSender::PipelineSender(int socket, const Frames& frames, size_t first_frame,
                               uint32_t window, std::unique_ptr<Replies> replies)
    : socket_{socket},
      frames_{frames},
      next_frame_{first_frame},
      window_{window},
      replies_{std::move(replies)},
      from_ns_(window),
      input_(input_bytes) {}

// Edge-triggered: after each event the sender reads and writes until nothing is left.
uint32_t PipelineSender::epoll_events() const noexcept {
  return EPOLLIN | EPOLLOUT | EPOLLET;
}

uint32_t PipelineSender::ask(uint64_t from_ns) {
  if (in_flight_ == window_) return 0;
  const auto frame = frames_.frame(next_frame_);
  if (unsent_.empty()) {
    unsent_ = frame;
  } else if (unsent_.data() + unsent_.size() == frame.data()) {
    unsent_ = {unsent_.data(), unsent_.size() + frame.size()};
  } else {
    return 0;  // after a flush
  }
  next_frame_ = (next_frame_ + 1) % frames_.count();
  from_ns_[frames_asked_++ % window_] = from_ns;
  ++in_flight_;
  return frames_.items_per_frame();
}

bool PipelineSender::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    ++traffic_.system_calls;
    if (sent >= 0) {
      unsent_ = unsent_.subspan(static_cast<size_t>(sent));
      traffic_.bytes_sent += static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      load::throw_errno("sending failed");
    }
  }
  return true;
}

void PipelineSender::take_answers(load::Counters& counters) {
  for (;;) {
    const ssize_t got = ::recv(socket_, input_.data(), input_.size(), 0);
    ++traffic_.system_calls;
    if (got == 0) throw std::runtime_error("the server closed a connection");
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) load::throw_errno("receiving failed");
    traffic_.bytes_received += static_cast<uint64_t>(got);
    items_answered_ += replies_->take(std::span{input_}.first(static_cast<size_t>(got)));
    finish_frames(load::now_ns(), counters);
    // Fewer bytes than there was room for: the socket is empty, or it will raise another event.
    if (static_cast<size_t>(got) < input_.size()) return;
  }
}

void PipelineSender::finish_frames(uint64_t at_ns, load::Counters& counters) {
  for (; items_answered_ >= frames_.items_per_frame();
       items_answered_ -= frames_.items_per_frame()) {
    if (in_flight_ == 0) throw std::runtime_error("the server sent replies that nobody asked for");
    counters.latency.add(at_ns - from_ns_[(frames_asked_ - in_flight_) % window_]);
    --in_flight_;
  }
}

}  // namespace sluice::limits_bench
