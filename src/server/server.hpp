// The running server: listeners, one thread per worker, start, drain, stop.
// Flow:   Config -> Server::start() -> workers turn until drain() -> wait_drained() -> stop.
// Errors: start() throws what main prints in one line (exit 2): a bad configuration file, a port in
//         use, io_uring refused.
// Lives:  built and destroyed by main; workers live from start() to the destructor.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "io/listen.hpp"
#include "peer/fleet_options.hpp"
#include "policy/rule_file.hpp"
#include "server/address_watch.hpp"
#include "store/state_writer.hpp"

namespace sluice::server {

class KeptState;
struct StateSeeds;
struct WorkerOptions;
class WorkerGroup;
class RuleWatch;
class WorkerThread;

struct StartReport {
  uint16_t port = 0;
  uint16_t native_port = 0;
  std::vector<policy::Rule> rules;  // of the configuration file
  policy::QuotaRules quotas;        // likewise
  std::string io_backend;           // "uring" or "epoll"
  // Why it is not io_uring, or waits coarsely, and the cure; a line each.
  std::vector<std::string> io_warnings;
  uint64_t reserved_bytes = 0;
  bool pinned = false;  // every worker is pinned to a CPU of its own
};

// The configuration file, as it was read before the start; without a file it is empty.
struct Configuration {
  std::string text;
  policy::ParsedRules parsed;
};

// Throws one line with all that is wrong with the file.
Configuration read_configuration(const config::Config& config);

// What the configuration demands of each worker, the same for all but the shard's number.
WorkerOptions worker_options(const config::Config& config, const StartReport& report,
                             const StateSeeds& seeds);

class Server {
 public:
  explicit Server(const config::Config& config, peer::FleetOptions fleet = {});
  ~Server();

  // Binds, starts the workers and returns when they accept.
  StartReport start(Configuration configuration);
  StartReport start() { return start(read_configuration(config_)); }

  // Has the configuration file and its profiles read again, changed or not; returns at once. False:
  // there is no configuration file.
  bool reload() noexcept;

  // Asks every worker to drain; returns at once. From any thread but a worker's. From then on
  // changes of the configuration file are neither applied nor logged.
  void drain() noexcept;

  // Whether all workers have drained within `timeout`.
  bool wait_drained(std::chrono::milliseconds timeout);

  // After that: has the state file committed and closed. None: there is none. hanging: the disk
  // does not answer; end the process without destroying the server.
  std::optional<store::StateWriter::End> close_state(std::chrono::milliseconds timeout);

  // After drain(): whether the reading of the configuration file has ended within `timeout`. The
  // destructor waits for that, which may take seconds with a large file.
  bool wait_policy_reader(std::chrono::milliseconds timeout);

  // Connections that were cut off; known once drained.
  uint64_t force_closed_count() const noexcept;

 private:
  StateSeeds open_state();
  uint64_t digest_of(const std::vector<policy::Rule>& rules,
                     const policy::QuotaRules& quotas) const;
  void wake_workers() noexcept;
  io::Listening listen_on(uint16_t port, std::string_view option) const;
  void watch_rules(std::string text, const std::vector<policy::ProfileFile>& profiles);

  config::Config config_;
  peer::FleetOptions fleet_;
  std::unique_ptr<AddressWatch> address_watch_;
  std::unique_ptr<WorkerGroup> worker_group_;  // outlives the workers
  std::unique_ptr<KeptState> state_;           // likewise; null: nothing survives
  std::vector<std::unique_ptr<WorkerThread>> workers_;
  std::unique_ptr<RuleWatch> rule_watch_;  // ends before the workers
};

}  // namespace sluice::server
