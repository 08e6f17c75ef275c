#include "bench/limits/http.hpp"

#include <signal.h>
#include <spdlog/fmt/fmt.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bench/limits/sockets.hpp"
#include "io/file_descriptor.hpp"
#include "io/listen.hpp"
#include "load/clocks.hpp"

namespace sluice::limits_bench {
namespace {

constexpr std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";
constexpr std::string_view request_end = "\r\n\r\n";
constexpr size_t tail_bytes_max = request_end.size() - 1;
constexpr size_t input_bytes = 64 * 1024;
constexpr size_t answers_count = input_bytes / request_end.size();  // most of one receive
constexpr size_t descriptors_max = 4'096;  // a higher one is closed at once
constexpr size_t events_max = 256;

// Keeps the last bytes of a receive, so that the server finds a request's end that was cut.
struct Connection {
  io::FileDescriptor socket;
  std::array<char, tail_bytes_max> tail{};
  size_t tail_bytes = 0;
  size_t owed_bytes = 0;    // of answers that the socket has not taken yet
  size_t answer_place = 0;  // offset in an answer at which they begin
};

class HttpServer {
 public:
  explicit HttpServer(uint16_t port);

  uint16_t port() const { return listening_.port; }
  void run(uint64_t end_ns);
  uint64_t requests() const { return requests_; }
  uint64_t connections() const { return connections_count_; }

 private:
  void watch(int fd, uint32_t events);
  void accept_all();
  void serve(Connection& connection);
  bool receive(Connection& connection);
  size_t count_requests(Connection& connection, size_t got);
  bool send_owed(Connection& connection);

  io::Listening listening_;
  io::FileDescriptor signals_;
  io::FileDescriptor epoll_;
  std::vector<Connection> connections_;  // by descriptor
  std::vector<char> input_;              // begins with a connection's tail
  std::string answers_;
  uint64_t requests_ = 0;
  uint64_t connections_count_ = 0;
};

// Both signals end the run through epoll, so that none is lost.
io::FileDescriptor take_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  io::FileDescriptor fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.is_open()) throw_errno("signalfd failed");
  return fd;
}

HttpServer::HttpServer(uint16_t port)
    : listening_(io::listen_on({.address = "127.0.0.1", .port = port})),
      signals_(take_signals()),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      connections_(descriptors_max),
      input_(tail_bytes_max + input_bytes) {
  for (size_t i = 0; i <= answers_count; ++i) answers_ += answer;
  if (!epoll_.is_open()) throw_errno("epoll_create1 failed");
  watch(listening_.sockets.front().get(), EPOLLIN);
  watch(signals_.get(), EPOLLIN);
}

void HttpServer::watch(int fd, uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("epoll_ctl failed");
}

void HttpServer::run(uint64_t end_ns) {
  std::array<epoll_event, events_max> events;
  for (uint64_t now_ns = load::now_ns(); now_ns < end_ns; now_ns = load::now_ns()) {
    const auto left_ms =
        static_cast<int>(std::min<uint64_t>((end_ns - now_ns) / 1'000'000 + 1, 100));
    const int ready =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), left_ms);
    if (ready < 0 && errno != EINTR) throw_errno("epoll_wait failed");
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == signals_.get()) return;
      if (fd == listening_.sockets.front().get()) {
        accept_all();
      } else {
        serve(connections_[static_cast<size_t>(fd)]);
      }
    }
  }
}

void HttpServer::accept_all() {
  for (;;) {
    io::FileDescriptor socket(::accept4(listening_.sockets.front().get(), nullptr, nullptr,
                                        SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) return;  // none left, or no descriptors: the client notices
    const auto place = static_cast<size_t>(socket.get());
    if (place >= connections_.size()) continue;
    watch(socket.get(), EPOLLIN | EPOLLOUT | EPOLLET);
    connections_[place] = {.socket = std::move(socket)};
    ++connections_count_;
  }
}

// Reads and answers until the socket has no more input or takes no more output: then another event
// follows.
void HttpServer::serve(Connection& connection) {
  while (connection.socket.is_open()) {
    if (!send_owed(connection) || !receive(connection)) return;
  }
}

// Whether there may be more to read.
bool HttpServer::receive(Connection& connection) {
  const ssize_t got =
      ::recv(connection.socket.get(), &input_[tail_bytes_max], input_.size() - tail_bytes_max, 0);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) {
    connection.socket.reset();
    return false;
  }
  const size_t requests = count_requests(connection, static_cast<size_t>(got));
  requests_ += requests;
  connection.owed_bytes += requests * answer.size();
  // Fewer bytes than there was room for: the socket is empty, or it will raise another event.
  const bool more = static_cast<size_t>(got) == input_.size() - tail_bytes_max;
  return send_owed(connection) && more;
}

size_t HttpServer::count_requests(Connection& connection, size_t got) {
  const size_t begin = tail_bytes_max - connection.tail_bytes;
  std::memcpy(&input_[begin], connection.tail.data(), connection.tail_bytes);
  std::string_view rest(&input_[begin], connection.tail_bytes + got);
  size_t requests = 0;
  for (size_t end = rest.find(request_end); end != rest.npos; end = rest.find(request_end)) {
    ++requests;
    rest.remove_prefix(end + request_end.size());
  }
  connection.tail_bytes = std::min(rest.size(), tail_bytes_max);
  std::memcpy(connection.tail.data(), rest.data() + rest.size() - connection.tail_bytes,
              connection.tail_bytes);
  return requests;
}

// Whether all answers are sent.
bool HttpServer::send_owed(Connection& connection) {
  while (connection.owed_bytes > 0) {
    const size_t bytes = std::min(connection.owed_bytes, answers_.size() - connection.answer_place);
    const ssize_t sent =
        ::send(connection.socket.get(), &answers_[connection.answer_place], bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) {
      connection.socket.reset();
      return false;
    }
    connection.owed_bytes -= static_cast<size_t>(sent);
    connection.answer_place = (connection.answer_place + static_cast<size_t>(sent)) % answer.size();
  }
  return true;
}

}  // namespace

Report run_http(const Run& run, uint16_t port, const std::function<void(uint16_t)>& on_port) {
  pin_if_asked(run.server_cpu);
  HttpServer server(port);
  on_port(server.port());
  const uint64_t began_ns = load::now_ns();
  const double began_cpu_s = load::own_cpu_s();
  server.run(began_ns + static_cast<uint64_t>(run.seconds * 1e9));
  const double seconds = static_cast<double>(load::now_ns() - began_ns) * 1e-9;
  const double cpu_s = load::own_cpu_s() - began_cpu_s;
  const double us_per_request =
      server.requests() > 0 ? 1e6 * cpu_s / static_cast<double>(server.requests()) : 0;
  return {.line = {{"limit", "http"},
                   {"requests", server.requests()},
                   {"connections", server.connections()},
                   {"server_cpu_s", cpu_s},
                   {"cpu_us_per_request", us_per_request},
                   {"seconds", seconds}},
          .summary = fmt::format("  requests      {} over {} connections\n"
                                 "  server CPU    {:.2f} s, {:.2f} us a request\n",
                                 server.requests(), server.connections(), cpu_s, us_per_request)};
}

}  // namespace sluice::limits_bench
