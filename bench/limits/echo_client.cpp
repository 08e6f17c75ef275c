#include "bench/limits/echo_client.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "bench/limits/echo_server.hpp"
#include "bench/limits/sockets.hpp"
#include "load/clocks.hpp"

namespace sluice::limits_bench {
namespace {

constexpr size_t input_bytes = 256 * 1024;
constexpr size_t events_max = 64;
constexpr int wait_ms = 100;  // so that a silent server does not stop the clock

void write_number(std::byte* at, uint32_t number) {
  std::memcpy(at, &number, sizeof number);
}

}  // namespace

EchoClient::EchoClient(std::span<const int> sockets, const Echo& echo)
    : echo_(echo),
      frame_bytes_(uint64_t{echo.batch} * echo.item_bytes),
      frame_reply_bytes_(uint64_t{echo.batch} * reply_bytes),
      frames_(echo.window * frame_bytes_),
      replies_((input_bytes / frame_reply_bytes_ + 2) * frame_reply_bytes_),
      input_(input_bytes),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  for (uint64_t item = 0; item < uint64_t{echo.window} * echo.batch; ++item) {
    write_number(&frames_[item * echo.item_bytes], static_cast<uint32_t>(item % echo.batch));
  }
  for (uint64_t item = 0; item < replies_.size() / reply_bytes; ++item) {
    write_number(&replies_[item * reply_bytes], static_cast<uint32_t>(item % echo.batch));
  }
  if (!epoll_.is_open()) throw_errno("epoll_create1 failed");
  for (const int fd : sockets) {
    make_nonblocking(fd);
    // Edge-triggered: after each event the client reads and writes until nothing is left.
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.u64 = lanes_.size()}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl failed");
    lanes_.push_back({.fd = fd});
  }
}

void EchoClient::run(uint64_t end_ns) {
  for (Lane& lane : lanes_) fill(lane, true);
  while (load::now_ns() < end_ns) turn(true);
}

void EchoClient::finish(uint64_t end_ns) {
  while (!every_reply_came()) {
    if (load::now_ns() > end_ns) throw std::runtime_error("replies did not come in time");
    turn(false);
  }
}

EchoCounts EchoClient::counts() const {
  EchoCounts counts = counts_;
  for (const Lane& lane : lanes_) counts.items += lane.received_bytes / reply_bytes;
  return counts;
}

void EchoClient::turn(bool begins_frames) {
  std::array<epoll_event, events_max> events;
  const int ready =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
  if (ready < 0 && errno != EINTR) throw_errno("epoll_wait failed");
  for (int i = 0; i < ready; ++i) {
    Lane& lane = lanes_[events[static_cast<size_t>(i)].data.u64];
    drain_socket(lane);
    fill(lane, begins_frames);
  }
}

// The client completes a frame it began, or the server would never answer its last item.
uint64_t EchoClient::allowed_bytes(const Lane& lane, bool begins_frames) const {
  const uint64_t begun = (lane.sent_bytes + frame_bytes_ - 1) / frame_bytes_;
  const uint64_t answered = lane.received_bytes / frame_reply_bytes_;
  return (begins_frames ? answered + echo_.window : begun) * frame_bytes_;
}

void EchoClient::fill(Lane& lane, bool begins_frames) {
  const uint64_t allowed = allowed_bytes(lane, begins_frames);
  while (lane.sent_bytes < allowed) {
    const size_t begin = lane.sent_bytes % frames_.size();
    const size_t length = std::min<size_t>(allowed - lane.sent_bytes, frames_.size() - begin);
    ++counts_.sends;
    const ssize_t sent = ::send(lane.fd, &frames_[begin], length, MSG_NOSIGNAL);
    if (sent >= 0) {
      lane.sent_bytes += static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      throw_errno("sending failed");
    }
  }
}

void EchoClient::drain_socket(Lane& lane) {
  for (;;) {
    ++counts_.receives;
    const ssize_t got = ::recv(lane.fd, input_.data(), input_.size(), 0);
    if (got == 0) throw std::runtime_error("the server closed a connection");
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("receiving failed");
    check(lane, static_cast<size_t>(got));
    lane.received_bytes += static_cast<uint64_t>(got);
    // Fewer bytes than there was room for: the socket is empty, or it will raise another event.
    if (static_cast<size_t>(got) < input_.size()) return;
  }
}

void EchoClient::check(const Lane& lane, size_t got) const {
  const size_t begin = lane.received_bytes % frame_reply_bytes_;
  if (std::memcmp(input_.data(), &replies_[begin], got) != 0) {
    throw std::runtime_error("the server answered with another number than the item's");
  }
}

bool EchoClient::every_reply_came() const {
  return std::ranges::all_of(lanes_, [this](const Lane& lane) {
    return lane.sent_bytes % frame_bytes_ == 0 &&
           lane.received_bytes / reply_bytes == lane.sent_bytes / echo_.item_bytes &&
           lane.received_bytes % reply_bytes == 0;
  });
}

}  // namespace sluice::limits_bench
