#include "real_network.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "sluicegate/error.hpp"

namespace sluicegate::simulation {

using namespace std::chrono_literals;

RealNetwork::RealNetwork() = default;

RealNetwork::~RealNetwork() {
  stop();
}

void RealNetwork::start(Listener& listener) {
  listener_ = &listener;
  thread_ = std::thread{[this] { run(); }};
}

void RealNetwork::stop() {
  is_stopping_ = true;
  if (thread_.joinable()) thread_.join();
  for (const auto& [connection, end] : ends_) ::close(end.socket);
  ends_.clear();
}

int RealNetwork::connect() {
  const std::lock_guard lock{mutex_};
  if (listener_->knock() != Arrival::accepted) throw ConnectionLost("nobody listens");
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    throw ConnectionLost("no socket");
  }
  const uint32_t connection = next_connection_++;
  ends_[connection].socket = ends[1];
  listener_->accept(connection);
  return ends[0];
}

void RealNetwork::run() {
  while (!is_stopping_) {
    std::vector<pollfd> watched;
    std::vector<uint32_t> connections;
    {
      const std::lock_guard lock{mutex_};
      for (const auto& [connection, end] : ends_) {
        watched.push_back({.fd = end.socket, .events = POLLIN, .revents = 0});
        connections.push_back(connection);
      }
    }
    ::poll(watched.data(), watched.size(), 1);  // so that timers and new connections are seen
    const std::lock_guard lock{mutex_};
    run_due();
    for (size_t i = 0; i < watched.size(); ++i) {
      if (watched[i].revents != 0 && ends_.contains(connections[i])) read(connections[i]);
    }
  }
}

void RealNetwork::run_due() {
  while (!agenda_.empty() && agenda_.begin()->first <= now()) {
    const auto event = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    event();
  }
}

void RealNetwork::read(uint32_t connection) {
  char bytes[16 * 1024];
  const ssize_t got = recv(ends_.at(connection).socket, bytes, sizeof bytes, 0);
  if (got > 0) return listener_->receive(connection, {bytes, static_cast<size_t>(got)});
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  listener_->client_left(connection);
  drop(connection);
}

void RealNetwork::drop(uint32_t connection) {
  const auto found = ends_.find(connection);
  if (found == ends_.end()) return;
  const auto ended = std::move(found->second.ended);
  const int socket = found->second.socket;
  ends_.erase(found);
  if (ended) ended();
  ::close(socket);
}

void RealNetwork::after(Clock::duration delay, std::function<void()> event) {
  agenda_.emplace(now() + delay / faster, std::move(event));
}

void RealNetwork::write(uint32_t connection, std::string bytes, std::function<void()> arrived) {
  const auto found = ends_.find(connection);
  if (found == ends_.end()) return;
  found->second.backlog += bytes;
  if (arrived) arrived();  // the earliest moment
  flush(connection);
}

// Half of the backlog at a time, so that frames arrive in parts.
void RealNetwork::flush(uint32_t connection) {
  const auto found = ends_.find(connection);
  if (found == ends_.end()) return;
  std::string& backlog = found->second.backlog;
  if (!backlog.empty()) {
    const ssize_t taken =
        send(found->second.socket, backlog.data(), (backlog.size() + 1) / 2, MSG_NOSIGNAL);
    if (taken > 0) backlog.erase(0, static_cast<size_t>(taken));
    if (taken < 0 && errno != EAGAIN && errno != EINTR) backlog.clear();
  }
  if (!backlog.empty()) {
    agenda_.emplace(now(), [this, connection] { flush(connection); });
  } else if (found->second.is_closing) {
    drop(connection);
  }
}

void RealNetwork::close(uint32_t connection, bool at_once, std::function<void()> ended) {
  const auto found = ends_.find(connection);
  if (found == ends_.end()) return;
  found->second.is_closing = true;
  found->second.ended = std::move(ended);
  if (at_once) found->second.backlog.clear();
  agenda_.emplace(now(), [this, connection] { flush(connection); });
}

// -------------------------------------------------------------------------- the disturbed threads

void DisturbedPlatform::disturb() noexcept {
  uint64_t mixed = steps_.fetch_add(1, std::memory_order_relaxed) * 0x9E37'79B9'7F4A'7C15;
  mixed ^= mixed >> 29;
  mixed *= 0xBF58'476D'1CE4'E5B9;
  mixed >>= 40;
  if (mixed % 4 == 0) std::this_thread::yield();
  if (mixed % 32 == 1) std::this_thread::sleep_for(std::chrono::microseconds{mixed / 32 % 300});
}

ssize_t DisturbedPlatform::send(int socket, std::span<const std::byte> bytes) noexcept {
  disturb();
  const ssize_t sent = SystemPlatform::send(socket, bytes);
  const int fault = errno;
  disturb();
  errno = fault;
  return sent;
}

ssize_t DisturbedPlatform::receive(int socket, std::span<std::byte> room) noexcept {
  disturb();
  const ssize_t got = SystemPlatform::receive(socket, room);
  const int fault = errno;
  disturb();
  errno = fault;
  return got;
}

bool DisturbedPlatform::poll(std::span<pollfd> watched, Deadline deadline) {
  disturb();
  const bool is_ready = SystemPlatform::poll(watched, deadline);
  disturb();
  return is_ready;
}

void DisturbedPlatform::set_event(int event) noexcept {
  disturb();
  SystemPlatform::set_event(event);
}

bool DisturbedPlatform::sleep(Gate& gate, uint32_t value, Deadline deadline) noexcept {
  disturb();
  const bool in_time = SystemPlatform::sleep(gate, value, deadline);
  disturb();
  return in_time;
}

void DisturbedPlatform::wake(Gate* gate) noexcept {
  disturb();
  SystemPlatform::wake(gate);
}

}  // namespace sluicegate::simulation
