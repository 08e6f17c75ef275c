// Starts and ends the binary that SLUICEGATE names, on a port of its own, for tests in C++.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "sluicegate/client.hpp"

namespace sluicegate::test {

using namespace std::chrono_literals;

inline uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(fd, generic, size), 0);
  EXPECT_EQ(getsockname(fd, generic, &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

class Server {
 public:
  explicit Server(std::vector<std::string> flags) : flags_{std::move(flags)} { start(); }
  ~Server() { end(SIGKILL); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  void start() {
    const char* binary = std::getenv("SLUICEGATE");
    ASSERT_NE(binary, nullptr) << "SLUICEGATE names the server's binary";
    std::vector<std::string> words{binary,
                                   "--bind",
                                   "127.0.0.1",
                                   "--port",
                                   "0",
                                   "--native-port",
                                   std::to_string(port_),
                                   "--pin=false",
                                   "--log-level=ERROR",
                                   "--io=epoll"};
    words.insert(words.end(), flags_.begin(), flags_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&process_, binary, nullptr, nullptr, arguments.data(), environ), 0);
  }
  // SIGSTOP, after which it stands still, or SIGCONT.
  void send_signal(int signal) const {
    kill(process_, signal);
    if (signal == SIGSTOP) waitpid(process_, nullptr, WUNTRACED);
  }
  void end(int signal) {
    if (process_ == 0) return;
    kill(process_, signal);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  std::vector<std::string> flags_;
  uint16_t port_ = free_port();
  pid_t process_ = 0;
};

// Retries until the server answers.
inline void ping(Client& client) {
  for (int attempt = 0;; ++attempt) {
    try {
      return client.ping();
    } catch (const ConnectionLost&) {
      if (attempt == 3'000) throw;
      std::this_thread::sleep_for(10ms);
    }
  }
}

}  // namespace sluicegate::test
