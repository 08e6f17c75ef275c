#include "server/server.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/random_word.hpp"
#include "config/cpus.hpp"
#include "io/host_addresses.hpp"
#include "io/listen.hpp"
#include "limiter/zone.hpp"
#include "log/log.hpp"
#include "policy/rule_file.hpp"
#include "policy/rules_digest.hpp"
#include "server/kept_state.hpp"
#include "server/quota_log.hpp"
#include "server/rule_watch.hpp"
#include "server/worker_group.hpp"
#include "server/worker_thread.hpp"

namespace sluice::server {
namespace {

shard::HashSecret draw_secret(std::random_device& device) {
  shard::HashSecret secret;
  for (std::byte& byte : secret) byte = static_cast<std::byte>(device());
  return secret;
}

class ExpiryLog final : public shard::ExpiryListener {
 public:
  void on_expired(std::string_view key) noexcept override {
    log::write(log::Level::debug, "key expired", {{"key", key}});
  }
};

// Null when the log's level leaves such lines out.
shard::ExpiryListener* expiry_log() noexcept {
  static ExpiryLog listener;
  return log::wants(log::Level::debug) ? &listener : nullptr;
}

limiter::Policy default_policy(const config::Config& config) {
  return {.window_ms = config.window_ms,
          .max_requests = config.max_requests,
          .max_requests_in_queue = config.max_requests_in_queue};
}

int64_t kept_window_ms(const config::Config& config) {
  const bool keeps = !config.state.empty() && config.state_window_ms > 0;
  return keeps ? config.state_window_ms : base::never_ms;
}

}  // namespace

// Bounds of the whole process are divided: keys and their waiters among the shards, over which the
// hash spreads them evenly.
WorkerOptions worker_options(const config::Config& config, const StartReport& report,
                             const StateSeeds& seeds) {
  std::random_device device;
  const auto share = [&](uint32_t of) { return (of + config.shards - 1) / config.shards; };
  return {
      .sessions = {.key_bytes_max = config.max_key_bytes,
                   .handles_max = share(config.max_handles),
                   .waiters_max = config.max_waiters,
                   .wait_ms_max = config.max_wait_ms,
                   .requests_can_set_rate = config.requests_can_set_rate,
                   .requests_can_mod_queue = config.requests_can_mod_queue,
                   .requests_can_set_window = config.requests_can_set_window,
                   .header_timeout_ms = config.header_timeout_ms,
                   .idle_timeout_ms = config.idle_timeout_ms,
                   .shards = config.shards,
                   .routing_seed = seeds.routing_seed,
                   .instance_id = base::random_word(device),
                   .rest_port = report.port,
                   .native_port = report.native_port,
                   .http2 = config.server_type != "echo",
                   .access_log = {.of_2xx = config.log_2xx,
                                  .of_4xx = config.log_4xx,
                                  .of_5xx = config.log_5xx}},
      .shard = {.keys_max = share(config.max_keys),
                .handles_max = share(config.max_handles),
                .waiters_max = share(config.max_waiters),
                .key_bytes_max = config.max_key_bytes,
                .requests_can_set_rate = config.requests_can_set_rate,
                .requests_can_mod_queue = config.requests_can_mod_queue,
                .requests_can_set_window = config.requests_can_set_window,
                .kept_window_ms = kept_window_ms(config),
                .policy = default_policy(config),
                .hash_secret = draw_secret(device),
                .expiry_listener = expiry_log()},
      .quota = {.subjects_max = share(config.max_subjects),
                .reservations_max = share(config.max_reservations),
                .waiters_max = share(config.max_waiters),
                .name_bytes_max = config.max_key_bytes,
                .name_seed = seeds.name_seed,
                .id_seed = base::random_word(device)},
      .rules = report.rules,
      .quotas = report.quotas,
      .state = {},
      .splits = {},
      .fleet = {},
      .connections_max = config.max_connections,
      .drain_ms = config.drain_ms,
      .return_poll_ns = config.cores_suffice ? return_poll_ns : 0,
  };
}

namespace {

// Throws one line with all that is wrong with the file.
policy::ParsedRules good_rules(const config::Config& config, const policy::TextFile& read) {
  const std::string& path = config.config_file;
  policy::ParsedRules parsed;
  if (read.error.empty()) {
    parsed = policy::parse_rules(read.text, policy::read_profiles_in(config.profiles, path),
                                 config.max_key_bytes);
  } else {
    parsed.complaints.push_back(read.error);
  }
  if (parsed.complaints.empty()) return parsed;
  constexpr size_t complaints_shown_max = 20;
  std::string text = "--config-file " + path;
  for (size_t i = 0; i < std::min(parsed.complaints.size(), complaints_shown_max); ++i) {
    text += (i == 0 ? ": " : "; ") + parsed.complaints[i];
  }
  if (parsed.complaints.size() > complaints_shown_max) {
    text += "; and " + std::to_string(parsed.complaints.size() - complaints_shown_max) +
            " more: sluicegate check-config " + path;
  }
  throw std::runtime_error(text);
}

// A killed server's sockets outlive its process for a moment: the kernel ends its io_uring requests
// first. A server that is started right after it should not fail because the port is in use.
constexpr std::chrono::seconds port_patience{2};

// Where the server listens; if that is on all interfaces, the loopback one is among them.
io::PeerAddress own_address(const std::string& bind, uint16_t port) {
  const auto bound = io::IpAddress::parse(bind);
  const bool is_one = bound && !bound->is_unspecified();
  return {.bytes = is_one ? bound->bytes : io::IpAddress::parse("127.0.0.1")->bytes, .port = port};
}

// Worker i on the i-th usable CPU.
WorkerPlace place_of(uint32_t shard, const config::Config& config) {
  const std::vector<int> cpus = config::affinity_cpus();
  WorkerPlace place{.shard = shard, .cpu = {}};
  if (config.pin && shard < cpus.size()) place.cpu = cpus[shard];
  return place;
}

}  // namespace

Configuration read_configuration(const config::Config& config) {
  if (config.config_file.empty()) return {};
  policy::TextFile read = policy::read_text_file(config.config_file);
  policy::ParsedRules parsed = good_rules(config, read);
  return {.text = std::move(read.text), .parsed = std::move(parsed)};
}

Server::Server(const config::Config& config, peer::FleetOptions fleet)
    : config_(config), fleet_(std::move(fleet)) {}

Server::~Server() {
  rule_watch_.reset();
  // The writer reads the workers' memory, and wakes them.
  if (state_) static_cast<void>(state_->stop_writer());
  // All stop before any is destroyed: no worker may wake the Io of another that is gone.
  for (const auto& worker : workers_) worker->stop();
}

io::Listening Server::listen_on(uint16_t port, std::string_view option) const {
  return io::listen_on({.address = config_.bind,
                        .port = port,
                        .sockets = config_.shards,
                        .port_option = option,
                        .patience = port_patience});
}

StartReport Server::start(Configuration configuration) {
  StartReport report;
  report.rules = std::move(configuration.parsed.rules);
  report.quotas = std::move(configuration.parsed.quotas);
  limiter::prepare_zones();
  const uint32_t shards = config_.shards;
  const StateSeeds seeds = open_state();
  io::Listening http = listen_on(config_.port, "--port");
  io::Listening native = listen_on(config_.native_port, "--native-port");
  report.port = http.port;
  report.native_port = native.port;
  const io::Choice choice = io::choose_backend(config_.io);
  if (!choice.warning.empty()) report.io_warnings.push_back(choice.warning);
  worker_group_ = std::make_unique<WorkerGroup>(
      route::MeshOptions{.shards = shards, .routing_seed = seeds.routing_seed});
  WorkerOptions options = worker_options(config_, report, seeds);
  options.fleet = fleet_;
  options.sessions.peer_secret = fleet_.secret;
  if (fleet_.has_peers()) {
    options.fleet.own_address = own_address(config_.bind, report.port);
    options.sessions.rules_digest = digest_of(report.rules, report.quotas);
    address_watch_ = std::make_unique<AddressWatch>(fleet_.instances, io::resolve_host);
    options.addresses = &address_watch_->addresses();
  }
  if (state_) options.state = state_->options();
  for (uint32_t shard = 0; shard < shards; ++shard) {
    io::Options io_options;
    io_options.sockets_max = sockets_max(options);
    if (state_) io_options.clock_offset_ns = state_->clock_offset_ns();
    // In the order of the ListenerIds.
    io_options.listeners.push_back(std::move(http.sockets.at(shard)));
    io_options.listeners.push_back(std::move(native.sockets.at(shard)));
    options.sessions.shard = shard;
    workers_.push_back(std::make_unique<WorkerThread>(choice, std::move(io_options), options,
                                                      *worker_group_, place_of(shard, config_)));
  }
  report.reserved_bytes = worker_group_->mesh().reserved_bytes();
  report.pinned = true;
  quota::Restored restored;
  RestoredWindows windows;
  for (const auto& worker : workers_) {
    const WorkerStarted started = worker->wait_started();
    // That of a worker that had to fall back, if there is one.
    const bool fell_back = !started.io_warnings.empty();
    if (report.io_backend.empty() || fell_back) report.io_backend = started.io_backend;
    for (const std::string& warning : started.io_warnings) {
      if (std::ranges::find(report.io_warnings, warning) != report.io_warnings.end()) continue;
      report.io_warnings.push_back(warning);  // of the first worker that has it
    }
    report.reserved_bytes += started.reserved_bytes;
    report.pinned = report.pinned && started.pinned;
    restored += started.restored;
    windows += started.windows;
  }
  if (state_) state_->has_started(restored, windows);
  worker_group_->moved_quotas().log_start(!fleet_.secret.empty());
  for (const auto& worker : workers_) worker->begin();
  if (!config_.config_file.empty()) {
    warn_of_too_many_names(report.quotas, config_.max_subjects);
    watch_rules(std::move(configuration.text), configuration.parsed.profiles);
  }
  return report;
}

// What other instances compare; 0: there are none.
uint64_t Server::digest_of(const std::vector<policy::Rule>& rules,
                           const policy::QuotaRules& quotas) const {
  if (!fleet_.has_peers()) return 0;
  return peer::list_digest(fleet_.instances) ^
         policy::rules_digest(default_policy(config_), rules, quotas, fleet_.timeout_ms);
}

// Draws the seeds, unless there is a file that has them.
StateSeeds Server::open_state() {
  const StateSeeds drawn = draw_seeds();
  if (config_.state.empty()) return drawn;
  state_ = std::make_unique<KeptState>(KeptStateOptions{.path = config_.state,
                                                        .sync_ms = config_.state_sync_ms,
                                                        .shards = config_.shards,
                                                        .seeds = drawn,
                                                        .wake = [this] { wake_workers(); }});
  return state_->seeds();
}

void Server::wake_workers() noexcept {
  if (worker_group_ == nullptr) return;
  for (uint32_t shard = 0; shard < config_.shards; ++shard) worker_group_->wake(shard);
}

std::optional<store::StateWriter::End> Server::close_state(std::chrono::milliseconds timeout) {
  if (!state_) return std::nullopt;
  return state_->stop(timeout);
}

void Server::watch_rules(std::string text, const std::vector<policy::ProfileFile>& profiles) {
  const auto adopt = [this](const policy::ParsedRules& parsed) {
    warn_of_too_many_names(parsed.quotas, config_.max_subjects);
    // A large book takes a while: all are made before the first worker gets its own.
    std::vector<std::unique_ptr<policy::RuleBook>> books;
    const uint64_t digest = digest_of(parsed.rules, parsed.quotas);
    for (size_t i = 0; i < workers_.size(); ++i) {
      books.push_back(
          std::make_unique<policy::RuleBook>(default_policy(config_), parsed.rules, parsed.quotas));
      books.back()->set_digest(digest);
    }
    for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->adopt(std::move(books[i]));
  };
  rule_watch_ = std::make_unique<RuleWatch>(
      config_.config_file, policy::read_profiles_in(config_.profiles, config_.config_file),
      config_.max_key_bytes, std::move(text), profiles,
      RuleWatch::Listener{.adopt = adopt,
                          .refused = [this] { worker_group_->count_rules_refused(); },
                          .idle =
                              [this] {
                                for (const auto& worker : workers_) worker->tidy();
                              }});
}

bool Server::reload() noexcept {
  if (rule_watch_) rule_watch_->read_now();
  return rule_watch_ != nullptr;
}

void Server::drain() noexcept {
  if (rule_watch_) rule_watch_->stop();
  for (const auto& worker : workers_) worker->drain();
}

bool Server::wait_drained(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (const auto& worker : workers_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (!worker->wait_drained(left)) return false;
  }
  // The last one may have handed a connection over to one that was drained before.
  return worker_group_->connections_of_all() == 0;
}

bool Server::wait_policy_reader(std::chrono::milliseconds timeout) {
  return !rule_watch_ || rule_watch_->wait_ended(timeout);
}

uint64_t Server::force_closed_count() const noexcept {
  uint64_t count = 0;
  for (const auto& worker : workers_) count += worker->force_closed_count();
  return count;
}

}  // namespace sluice::server
