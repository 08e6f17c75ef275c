// A kernel back end on loopback with clients made of plain sockets: every test runs over both.
// Flow:   client (blocking socket) <-> kernel <-> Io; poll_once() polls and keeps the reports.
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/epoll/epoll_io.hpp"
#include "io/listen.hpp"
#include "io/socket_options.hpp"
#include "io/uring/uring_io.hpp"

namespace sluice::io::test {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

inline size_t open_descriptors() {
  size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

// Bytes that show where they belong.
inline std::string pattern(size_t bytes, uint32_t seed = 1) {
  std::string text(bytes, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char& each : text) {
    state = state * 1664525u + 1013904223u;
    each = static_cast<char>(state >> 24);
  }
  return text;
}

// A peer: blocking, but no call waits longer than 5 s.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    // A ring of this thread without DEFER_TASKRUN interrupts the call to do its work.
    int result = 0;
    do {
      result = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    } while (result != 0 && errno == EINTR);
    connected_ = result == 0 || errno == EISCONN;
  }

  int fd() const { return fd_.get(); }
  bool connected() const { return connected_; }

  uint16_t own_port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }

  // Writes as much as the socket takes at once.
  size_t write(std::string_view text) {
    const ssize_t result = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return result > 0 ? static_cast<size_t>(result) : 0;
  }

  // 0: the end; negative: -errno (-EAGAIN: nothing there).
  ssize_t read(std::string& into, size_t most = 65'536, int flags = MSG_DONTWAIT) {
    const size_t before = into.size();
    into.resize(before + most);
    const ssize_t result = ::recv(fd_.get(), into.data() + before, most, flags);
    const int error = errno;
    into.resize(before + static_cast<size_t>(result > 0 ? result : 0));
    return result >= 0 ? result : -error;
  }

  void finish() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.reset();
  }

 private:
  FileDescriptor fd_;
  bool connected_ = false;
};

// The events that were reported for one socket.
struct Reports {
  std::string received;
  uint32_t receives = 0;
  uint32_t ends = 0;
  uint32_t hang_ups = 0;
  uint32_t failures = 0;
  uint32_t connects = 0;
  uint32_t closes = 0;
  uint32_t releases = 0;
  int32_t descriptor = -1;       // from `released`
  uint64_t last_receive_in = 0;  // in which poll
  uint32_t sents = 0;
  int32_t sent_result = 0;
  uint32_t untaken_bytes = 0;
  int32_t failure = 0;
  bool after_closed = false;  // anything after `closed` or `released`
};

struct Key {
  SocketId socket;
  bool operator<(const Key& other) const {
    return std::pair(socket.index, socket.generation) <
           std::pair(other.socket.index, other.socket.generation);
  }
};

template <typename Backend>
class IoTest : public testing::Test {
 protected:
  // Builds the back end with one listener, on the thread of the test.
  void build(Options options = {}) {
    Listening listening = listen_on({.address = "127.0.0.1"});
    port_ = listening.port;
    options.listeners = std::move(listening.sockets);
    io_ = std::make_unique<Backend>(std::move(options));
    io_->accept_start(0);
  }

  static Options small() { return {.sockets_max = 16}; }

  // One poll(); keeps its events.
  size_t poll_once(int64_t wait_ns = 20 * base::ns_per_ms) {
    ++polls_;
    const size_t count = io_->poll(std::span(events_).first(events_max_), wait_ns);
    for (const Event& event : std::span(events_).first(count)) keep(event);
    return count;
  }

  void keep(const Event& event) {
    switch (event.kind) {
      case EventKind::accepted:
        EXPECT_FALSE(event.socket.generation > generation_mask);
        accepted_.push_back(event.socket);
        reports_[{event.socket}] = {};
        return;
      case EventKind::accept_failed:
        ++accept_failures_;
        accept_failure_ = event.result;
        return;
      case EventKind::listener_closed:
        ++listeners_closed_;
        return;
      case EventKind::woken:
        ++wakes_;
        return;
      case EventKind::refused:
        ++refusals_;
        refusal_ = event.result;
        return;
      default:
        break;
    }
    Reports& reported = reports_.at({event.socket});
    if (reported.closes + reported.releases > 0) reported.after_closed = true;
    switch (event.kind) {
      case EventKind::received:
        EXPECT_FALSE(event.bytes.empty());
        EXPECT_EQ(reinterpret_cast<uintptr_t>(event.bytes.data()) % 8, 0u);
        reported.received.append(reinterpret_cast<const char*>(event.bytes.data()),
                                 event.bytes.size());
        ++reported.receives;
        reported.last_receive_in = polls_;
        std::memset(event.bytes.data(), 0xEE, event.bytes.size());  // they belong to the reader
        return;
      case EventKind::connected:
        EXPECT_EQ(reported.receives + reported.ends + reported.hang_ups + reported.failures, 0u);
        ++reported.connects;
        return;
      case EventKind::end_of_stream:
        ++reported.ends;
        return;
      case EventKind::hung_up:
        ++reported.hang_ups;
        return;
      case EventKind::failed:
        ++reported.failures;
        reported.failure = event.result;
        return;
      case EventKind::sent:
        ++reported.sents;
        reported.sent_result = event.result;
        reported.untaken_bytes = event.untaken_bytes;
        return;
      case EventKind::closed:
        ++reported.closes;
        return;
      case EventKind::released:
        ++reported.releases;
        reported.descriptor = event.result;
        EXPECT_NE(reported.last_receive_in, polls_);  // a close() because of the bytes is in time
        return;
      default:
        FAIL() << "an event of an unknown kind";
    }
  }

  // Polls until it holds, at most for `limit_ms`.
  bool until(const std::function<bool()>& holds, int64_t limit_ms = 10'000) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      poll_once();
    }
    return true;
  }

  // Polls for a while, to see that no further event comes.
  void settle(int polls = 5) {
    for (int each = 0; each < polls; ++each) poll_once(5 * base::ns_per_ms);
  }

  SocketId accept_one() { return accept_one_of(accepted_.size()); }

  // The socket that was accepted after `before` others.
  SocketId accept_one_of(size_t before) {
    EXPECT_TRUE(until([&] { return accepted_.size() > before; }));
    return accepted_.at(before);
  }

  // Begins a connection to `port` of this machine.
  tl::expected<SocketId, int32_t> try_connect(uint16_t port) {
    const auto socket = io_->connect(local(port));
    if (socket) reports_[{*socket}] = {};
    return socket;
  }
  SocketId connect_to(uint16_t port) { return try_connect(port).value(); }

  static PeerAddress local(uint16_t port) {
    return PeerAddress::parse("127.0.0.1:" + std::to_string(port)).value();
  }

  Reports& reported(SocketId socket) { return reports_.at({socket}); }

  void close_and_wait(SocketId socket) {
    io_->close(socket);
    EXPECT_TRUE(until([&] { return reported(socket).closes > 0; }));
  }

  // The client sends all of it while the server polls.
  bool write_all(Client& client, std::string_view text) {
    size_t done = 0;
    return until([&] {
      while (done < text.size()) {
        const size_t count = client.write(text.substr(done));
        if (count == 0) return false;
        done += count;
      }
      return true;
    });
  }

  // The client reads until the end, or an error (returned), while the server polls.
  ssize_t read_to_end(Client& client, std::string& into) {
    ssize_t result = -EAGAIN;
    until([&] {
      while ((result = client.read(into)) > 0) {
      }
      return result != -EAGAIN;
    });
    return result;
  }

  std::unique_ptr<Io> io_;
  uint16_t port_ = 0;
  std::array<Event, 512> events_;
  size_t events_max_ = 512;
  uint64_t polls_ = 0;
  std::vector<SocketId> accepted_;
  std::map<Key, Reports> reports_;
  uint32_t accept_failures_ = 0;
  int32_t accept_failure_ = 0;
  uint32_t listeners_closed_ = 0;
  uint32_t wakes_ = 0;
  uint32_t refusals_ = 0;
  int32_t refusal_ = 0;
};

struct BackendNames {
  template <typename Backend>
  static std::string GetName(int) {
    return std::is_same_v<Backend, UringIo> ? "uring" : "epoll";
  }
};

using Backends = testing::Types<UringIo, EpollIo>;

}  // namespace sluice::io::test
