// Goal: the server starts, answers, drains and stops, with its worker on a thread of its own.
// Method: the real Server in this process, both kernel back ends, a client on a loopback socket.
//         The epoll half also runs under ThreadSanitizer.
#include "server/server.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "config/cpus.hpp"
#include "io/file_descriptor.hpp"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

io::FileDescriptor connect_to(uint16_t port) {
  io::FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

void send_text(int fd, const std::string& text) {
  ASSERT_EQ(::send(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
}

// Everything until the peer ends, or `enough` bytes.
std::string receive(int fd, size_t enough = SIZE_MAX) {
  std::string text;
  char piece[4'096];
  while (text.size() < enough) {
    const ssize_t bytes = ::recv(fd, piece, sizeof piece, 0);
    // The kernel's work for a ring of this process interrupts a receive that has a time limit.
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(piece, static_cast<size_t>(bytes));
  }
  return text;
}

class ServerTest : public ::testing::TestWithParam<config::IoBackend> {
 protected:
  config::Config config() const {
    config::Config config;
    config.bind = "127.0.0.1";
    config.port = 0;
    config.native_port = 0;
    config.io = GetParam();
    config.max_keys = 1'000;
    config.max_connections = 16;
    return config;
  }
};

TEST_P(ServerTest, answers_from_its_own_thread) {
  Server server(config());
  const StartReport report = server.start();
  EXPECT_NE(report.port, 0);
  EXPECT_NE(report.native_port, report.port);
  const io::FileDescriptor client = connect_to(report.port);
  send_text(client.get(), "GET /rate/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(receive(client.get()).substr(0, 15), "HTTP/1.1 200 OK");
}

// The CPUs that the thread of that name may run on, as the kernel writes them; empty: no thread.
std::string cpus_of_thread(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string line;
    std::getline(std::ifstream(task.path() / "comm"), line);
    if (line != name) continue;
    std::ifstream status(task.path() / "status");
    while (std::getline(status, line)) {
      constexpr std::string_view title = "Cpus_allowed_list:\t";
      if (line.starts_with(title)) return line.substr(title.size());
    }
  }
  return "";
}

TEST_P(ServerTest, names_its_worker_and_pins_it) {
  Server server(config());
  EXPECT_TRUE(server.start().pinned);
  EXPECT_EQ(cpus_of_thread("shard-0"), std::to_string(config::affinity_cpus().front()));
}

TEST_P(ServerTest, leaves_its_worker_to_the_kernel_when_told_so) {
  config::Config wanted = config();
  wanted.pin = false;
  Server server(wanted);
  EXPECT_FALSE(server.start().pinned);
  EXPECT_EQ(cpus_of_thread("shard-0"), cpus_of_thread("server_test"));
}

TEST_P(ServerTest, drains_waiters_with_an_answer) {
  config::Config wanted = config();
  wanted.max_requests = 1;
  wanted.window_ms = 3'600'000;
  Server server(wanted);
  const StartReport report = server.start();
  const io::FileDescriptor client = connect_to(report.port);
  send_text(client.get(), "GET /rate/a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(receive(client.get(), 1).substr(0, 15), "HTTP/1.1 200 OK");
  send_text(client.get(), "GET /rate/a?canWait=true HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_FALSE(server.wait_drained(milliseconds(50)));
  server.drain();
  EXPECT_EQ(receive(client.get()).substr(0, 12), "HTTP/1.1 503");
  EXPECT_TRUE(server.wait_drained(milliseconds(10'000)));
  EXPECT_EQ(server.cut_off_count(), 0U);
}

// Keys of both shards, asked over connections of both, some of which wait, or vanish.
TEST_P(ServerTest, two_shards_serve_many_clients) {
  config::Config wanted = config();
  wanted.shards = 2;
  wanted.pin = false;
  wanted.max_requests = 3;
  wanted.window_ms = 20;
  Server server(wanted);
  const StartReport report = server.start();
  std::vector<std::thread> clients;
  std::atomic<int> answers = 0;
  for (int number = 0; number < 6; ++number) {
    clients.emplace_back([&, number] {
      const io::FileDescriptor client = connect_to(report.port);
      for (int round = 0; round < 60; ++round) {
        const std::string key = "key" + std::to_string((number * 7 + round) % 10);
        const std::string query = round % 3 == 0 ? "?canWait=true" : "";
        send_text(client.get(), "GET /rate/" + key + query + " HTTP/1.1\r\nHost: x\r\n\r\n");
        if (round == 59 && number % 2 == 0) return;  // leaves without its answer
        EXPECT_EQ(receive(client.get(), 1).substr(0, 9), "HTTP/1.1 ");
        ++answers;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answers, 6 * 60 - 3);
  server.drain();
  EXPECT_TRUE(server.wait_drained(milliseconds(20'000)));
  EXPECT_EQ(server.cut_off_count(), 0U);
}

TEST_P(ServerTest, stops_at_once_when_destroyed) {
  Server server(config());
  const io::FileDescriptor client = connect_to(server.start().port);
}

TEST_P(ServerTest, says_that_a_port_is_in_use) {
  Server first(config());
  config::Config same = config();
  same.port = first.start().port;
  Server second(same);
  try {
    second.start();
    FAIL() << "a second server took the port";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(same.port)), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ServerTest,
                         ::testing::Values(config::IoBackend::uring, config::IoBackend::epoll),
                         [](const auto& backend) {
                           return backend.param == config::IoBackend::uring ? "uring" : "epoll";
                         });

}  // namespace
}  // namespace sluice::server
