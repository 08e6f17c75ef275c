#include "load/own_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "load/cpus.hpp"
#include "text/json.hpp"

namespace sluice::load {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto stop_time_max = 10s;

std::runtime_error system_fault(const std::string& what) {
  return std::runtime_error(what + ": " + std::strerror(errno));
}

// Runs between fork and exec: calls async-signal-safe functions only. Does not return.
[[noreturn]] void become_server(char* const* arguments, int log,
                                std::span<const int> cpus) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  dup2(log, STDOUT_FILENO);
  if (cpus.empty() || set_affinity(cpus)) execv("/proc/self/exe", arguments);
  constexpr std::string_view text = "cannot start the server: no such core, or exec failed\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  _exit(127);
}

// The port of the start-up line; 0 for any other line.
uint16_t native_port_in(std::string_view line) {
  const text::Json entry = text::parse_json(line).value;
  if (!entry.is_object()) return 0;
  const auto port = entry.find("nativePort");
  return port != entry.end() && port->is_number_unsigned() ? port->get<uint16_t>() : uint16_t{0};
}

}  // namespace

void pin_to_cpu(int cpu) {
  if (!set_affinity({&cpu, 1})) throw system_fault("cannot pin to core " + std::to_string(cpu));
}

OwnServer::OwnServer(const std::vector<std::string>& arguments, const std::vector<int>& cpus,
                     std::chrono::milliseconds start_time_max) {
  std::vector<std::string> words{"sluicegate", "--port=0", "--native-port=0", "--bind=127.0.0.1"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) throw system_fault("no pipe for the server's log");
  pid_ = fork();
  if (pid_ == 0) become_server(argv.data(), pipe_ends[1], cpus);
  close(pipe_ends[1]);
  log_ = pipe_ends[0];
  if (pid_ < 0) {
    close(log_);
    throw system_fault("cannot start the server");
  }
  fcntl(log_, F_SETFL, O_NONBLOCK);
  try {
    wait_until_ready(start_time_max);
  } catch (...) {
    stop();
    throw;
  }
}

OwnServer::~OwnServer() {
  stop();
}

void OwnServer::wait_until_ready(std::chrono::milliseconds start_time_max) {
  const auto deadline = Clock::now() + start_time_max;
  std::string line;
  std::string last_line = "it logged nothing";
  while (Clock::now() < deadline) {
    pollfd watched{.fd = log_, .events = POLLIN, .revents = 0};
    poll(&watched, 1, 100);
    char byte = 0;
    ssize_t got = 0;
    while ((got = read(log_, &byte, 1)) > 0) {
      if (byte != '\n') {
        line.push_back(byte);
        continue;
      }
      native_port_ = native_port_in(line);
      if (native_port_ != 0) return;
      last_line = std::exchange(line, {});
    }
    if (got == 0) throw std::runtime_error("the server ended at once: " + last_line);
  }
  throw std::runtime_error("the server did not come up in time: " + last_line);
}

void OwnServer::discard_log() noexcept {
  std::array<char, 4096> thrown_away;
  while (read(log_, thrown_away.data(), thrown_away.size()) > 0) {
  }
}

void OwnServer::stop() noexcept {
  kill(pid_, SIGTERM);
  const auto deadline = Clock::now() + stop_time_max;
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    discard_log();
    if (Clock::now() > deadline) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(5ms);
  }
  close(log_);
}

}  // namespace sluice::load
