#include "cli/serve_command.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "cli/fleet_start.hpp"
#include "log/log.hpp"
#include "peer/peers.hpp"
#include "policy/rule_file.hpp"
#include "server/server.hpp"

namespace sluice::cli {
namespace {

// How long to wait for the log to be flushed.
constexpr std::chrono::milliseconds log_timeout{2'000};

// How long the last commit of the state may take, at least.
constexpr std::chrono::milliseconds state_timeout_min{2'000};

// How long to wait for a configuration file that is being read.
constexpr std::chrono::milliseconds config_file_timeout{100};

sigset_t set_of(std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : numbers) sigaddset(&signals, number);
  return signals;
}

// This thread alone receives signals, with sigwait: there are no signal handlers.
void block_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a log file at its size limit is an error, not the end
  const sigset_t signals = set_of({SIGTERM, SIGINT, SIGHUP});
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// While it lives, a stop signal ends the process at once. It is for the reading of the
// configuration file and for names that do not resolve yet, which may take seconds: nothing is
// there to be drained yet. The handler is needed because the kernel ignores default actions for a
// container's first process. A signal that is ignored from the start, as SIGINT in a script's
// background, stays so.
class StopAtOnce {
 public:
  StopAtOnce() {
    for (size_t i = 0; i < signals.size(); ++i) {
      sigaction(signals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;
      std::signal(signals[i], [](int received) { ::_exit(128 + received); });
    }
    const sigset_t set = set_of({SIGTERM, SIGINT});
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
  ~StopAtOnce() {
    const sigset_t set = set_of({SIGTERM, SIGINT});
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    for (size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
  }
  StopAtOnce(const StopAtOnce&) = delete;
  StopAtOnce& operator=(const StopAtOnce&) = delete;

 private:
  static constexpr std::array signals{SIGTERM, SIGINT};
  std::array<struct sigaction, signals.size()> before_{};
};

server::Configuration read_configuration(const config::Config& config) {
  const StopAtOnce stop_at_once;
  return server::read_configuration(config);
}

// Finds out which of the instances this one is.
void join_fleet(const config::Config& config, peer::FleetOptions& fleet) {
  if (!fleet.has_peers()) return;
  {
    const StopAtOnce stop_at_once;  // it may take a while
    fleet.own_node = find_own_node(config, fleet);
  }
  const peer::Instance& own = fleet.instances[fleet.own_node];
  log::info("one of several instances",
            {{"ownUrl", own.url}, {"instances", peer::urls_of(fleet.instances)}});
}

bool has_terminal() {
  const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

// With `nohup`, SIGHUP is ignored from the start: closing the terminal does not end the server.
bool terminal_hangup_stops_server() {
  struct sigaction action {};
  sigaction(SIGHUP, nullptr, &action);
  return action.sa_handler != SIG_IGN && has_terminal();
}

const char* name_of(int signal) {
  return signal == SIGTERM ? "SIGTERM" : signal == SIGINT ? "SIGINT" : "SIGHUP";
}

// The signal that ends the server. SIGHUP asks for the configuration file to be read anew, unless
// it comes because the terminal is gone.
int wait_for_stop_signal(server::Server& server, const std::string& config_file,
                         bool stops_on_hangup) {
  const sigset_t signals = set_of({SIGTERM, SIGINT, SIGHUP});
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGHUP || (stops_on_hangup && !has_terminal())) return signal;
    if (server.reload()) {
      log::info("SIGHUP: reading the configuration file", {{"configFile", config_file}});
    } else {
      log::warning("SIGHUP: there is no configuration file to be read (--config-file)");
    }
  }
}

// If stdin, stdout or stderr are closed, the next sockets would take their numbers, and a client
// would read the log.
void fill_standard_descriptors() {
  int descriptor = 0;
  do {
    descriptor = ::open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) ::close(descriptor);
}

// Every connection is a descriptor; the soft limit is raised as far as the hard one allows.
void raise_descriptor_limit(const config::Config& config, const peer::FleetOptions& fleet) {
  constexpr rlim_t process_descriptors = 32;  // the log, and the probes of the start
  // Of each shard: 128 connections that are being refused or closed, two listeners, a ring or
  // epoll, an eventfd; and room for sockets on their way from one shard to another.
  constexpr rlim_t shard_descriptors = 160;
  const route::NodeMap nodes(fleet.ownership(), config.shards);
  const rlim_t node_descriptors = peer::Peers::connections_max(nodes);  // of each shard
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t wanted = config.max_connections + process_descriptors +
                        (shard_descriptors + node_descriptors) * config.shards;
  if (limit.rlim_cur >= wanted) return;
  const rlim_t soft = limit.rlim_cur;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted) {
    log::warning(
        "too few file descriptors for --max-connections: connections beyond them are turned away; "
        "raise the limit (ulimit -n, LimitNOFILE=) or lower --max-connections",
        {{"limit", limit.rlim_cur}, {"softLimit", soft}, {"wanted", wanted}});
  }
}

// Logs the rules as gocc does, a line each; only the first ones of a long file.
void log_rules(const std::string& file, const server::StartReport& report) {
  constexpr size_t rules_logged_max = 100;
  const std::vector<policy::Rule>& rules = report.rules;
  const std::vector<policy::QuotaRule>& quotas = report.quotas.rules;
  if (file.empty()) {
    return log::warning(
        "No config file provided, no key specific rate limits will be used (unless clients set "
        "them)",
        {{"configFile", ""}});
  }
  log::info("configuration file",
            {{"configFile", file}, {"entries", rules.size()}, {"subjects", quotas.size()}});
  for (size_t i = 0; i < std::min(rules.size(), rules_logged_max); ++i) {
    log::info(" - " + policy::entry_text(rules[i]));
  }
  for (size_t i = 0; i < std::min(quotas.size(), rules_logged_max); ++i) {
    log::info(" - " + policy::subject_text(quotas[i]));
  }
}

void log_started(const config::Config& config, const server::StartReport& report) {
  for (const std::string& warning : report.io_warnings) log::warning(warning);
  log_rules(config.config_file, report);
  log::info("limits", {{"maxRequests", config.max_requests},
                       {"maxRequestsInQueue", config.max_requests_in_queue},
                       {"windowMillis", config.window_ms},
                       {"maxKeys", config.max_keys},
                       {"maxHandles", config.max_handles},
                       {"maxSubjects", config.max_subjects},
                       {"maxReservations", config.max_reservations},
                       {"maxWaiters", config.max_waiters},
                       {"maxConnections", config.max_connections},
                       {"reservedAddressSpaceMiB", report.reserved_bytes >> 20}});
  if (config.state.empty()) {
    log::info(
        "no --state FILE: quotas put at run time, usage and reservations end with the server");
  }
  // The last line of a start: scripts read the ports from it.
  log::info("ready", {{"version", SLUICE_VERSION},
                      {"shards", config.shards},
                      {"pinned", report.pinned},
                      {"io", report.io_backend},
                      {"bind", config.bind.empty() ? "all interfaces" : config.bind},
                      {"port", report.port},
                      {"nativePort", report.native_port}});
}

enum class DrainEnd : uint8_t { drained, second_signal, timed_out };

// Waits until everything is drained, a second signal comes, or the workers take too long.
DrainEnd drain(server::Server& server, uint32_t drain_ms) {
  using std::chrono::milliseconds;
  const sigset_t signals = set_of({SIGTERM, SIGINT});
  server.drain();
  const auto deadline =
      std::chrono::steady_clock::now() + milliseconds(drain_ms) + milliseconds(2'000);
  while (!server.wait_drained(milliseconds(20))) {
    const timespec zero_timeout{};
    if (sigtimedwait(&signals, nullptr, &zero_timeout) > 0) return DrainEnd::second_signal;
    if (std::chrono::steady_clock::now() > deadline) return DrainEnd::timed_out;
  }
  return DrainEnd::drained;
}

// Whether all that has to survive the restart is in the file.
bool close_state(server::Server& server, const config::Config& config,
                 std::chrono::milliseconds timeout) {
  using End = store::StateWriter::End;
  const std::optional<End> end = server.close_state(std::max(state_timeout_min, timeout));
  if (!end || end == End::clean) return true;
  log::error("the last changes are not in the state file: the next start finds it as after a crash",
             {{"state", config.state}});
  if (end == End::unclean) return false;
  log::stop(log_timeout);
  std::_Exit(EXIT_FAILURE);  // without waiting for the disk
}

// Runs the server until it has shut down; throws if it cannot start.
int run(const config::Config& config, const std::vector<std::string>& warnings) {
  FleetStart fleet = read_fleet(config);
  fill_standard_descriptors();
  const bool stops_on_hangup = terminal_hangup_stops_server();
  block_signals();
  log::start({.format = config.log_format,
              .level = config.log_level,
              .includes_source = config.log_includes_source});
  for (const std::string& warning : warnings) log::warning(warning);
  for (const std::string& warning : fleet.warnings) log::warning(warning);
  raise_descriptor_limit(config, fleet.options);
  if (config.server_type == "fast") {
    log::warning("--server-type fast is the normal server: gocc's approves everything",
                 {{"serverType", config.server_type}});
  }
  join_fleet(config, fleet.options);
  server::Server server(config, std::move(fleet.options));
  log_started(config, server.start(read_configuration(config)));

  const int signal = wait_for_stop_signal(server, config.config_file, stops_on_hangup);
  log::info("draining", {{"signal", name_of(signal)}, {"drainMillis", config.drain_ms}});
  const DrainEnd end = drain(server, config.drain_ms);
  if (end == DrainEnd::timed_out) close_state(server, config, {});
  if (end != DrainEnd::drained) {
    log::warning(end == DrainEnd::second_signal
                     ? "stopped before draining ended: second signal"
                     : "stopped before draining ended: the workers did not stop in time");
    log::stop(log_timeout);
    std::_Exit(EXIT_FAILURE);  // without waiting for the workers
  }
  const bool is_kept = close_state(server, config, std::chrono::milliseconds(config.drain_ms));
  log::info("stopped", {{"connectionsForceClosed", server.force_closed_count()}});
  if (!server.wait_policy_reader(config_file_timeout)) {
    log::stop(log_timeout);
    std::_Exit(is_kept ? EXIT_SUCCESS : EXIT_FAILURE);  // a large file is still being read
  }
  return is_kept ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

// Flushes the log at the end; gives up after log_timeout when nobody reads the log.
int serve(const config::Config& config, const std::vector<std::string>& warnings) {
  int code = EXIT_FAILURE;
  try {
    code = run(config, warnings);
  } catch (const std::exception& error) {
    if (log::stop(log_timeout)) throw;
    std::fprintf(stderr, "Error: %s\n", error.what());
    std::_Exit(2);
  }
  if (!log::stop(log_timeout)) std::_Exit(code);
  return code;
}

}  // namespace sluice::cli
