#include "cli/fleet_start.hpp"

#include <array>
#include <stdexcept>
#include <utility>

#include "peer/machine.hpp"
#include "peer/own_place.hpp"
#include "peer/peers.hpp"
#include "peer/secret_file.hpp"

namespace sluice::cli {
namespace {

peer::OwnPlaceOptions own_place_options(const config::Config& config) {
  return {.own_url = config.own_url, .port = config.port, .bind = config.bind};
}

void refuse_flags_without_list(const config::Config& config) {
  const config::Config defaults;
  const std::array flags{
      std::pair{"--own-url", config.own_url != defaults.own_url},
      std::pair{"--peer-failure", config.peer_failure != defaults.peer_failure},
      std::pair{"--peer-timeout-millis", config.peer_timeout_ms != defaults.peer_timeout_ms},
      std::pair{"--peer-silence-millis", config.peer_silence_ms != defaults.peer_silence_ms},
      std::pair{"--peer-secret-file", config.peer_secret_file != defaults.peer_secret_file}};
  for (const auto& [flag, is_set] : flags) {
    if (!is_set) continue;
    throw std::runtime_error(std::string(flag) +
                             " needs --instance-urls: without a list this instance is alone");
  }
}

void warn_of_lanes(const config::Config& config, FleetStart& fleet) {
  const auto nodes_count = static_cast<uint32_t>(fleet.options.instances.size());
  const uint64_t lanes = peer::Peers::lanes_from_others(nodes_count, config.shards);
  if (lanes <= config.max_connections / 2) return;
  fleet.warnings.push_back("--max-connections leaves little room for clients: other nodes open " +
                           std::to_string(lanes) +
                           " connections to this one if they have as many shards; raise it, or "
                           "lower --shards on all nodes");
}

}  // namespace

FleetStart read_fleet(const config::Config& config) {
  if (config.instance_urls.empty()) {
    refuse_flags_without_list(config);
    return {};
  }
  peer::InstanceList list = peer::parse_instances(config.instance_urls);
  peer::check_own_place(list.instances, own_place_options(config));
  FleetStart fleet{.options = {.instances = std::move(list.instances),
                               .on_failure = config.peer_failure,
                               .timeout_ms = config.peer_timeout_ms,
                               .silence_ms = config.peer_silence_ms,
                               .secret = {}},
                   .warnings = std::move(list.warnings)};
  if (config.server_type == "echo") {
    fleet.warnings.emplace_back(
        "--server-type echo with --instance-urls: a gocc forwards by HTTP/2 alone, so all that one "
        "forwards to this instance becomes a 502: leave the flag out while there is any");
  }
  warn_of_lanes(config, fleet);
  if (config.peer_secret_file.empty()) {
    fleet.warnings.insert(fleet.warnings.begin(),
                          "no --peer-secret-file: anyone who reaches the native port may forward "
                          "requests to this node, that is, acquire and release any key; and quota "
                          "calls for subjects of other nodes are refused (owner_unreachable)");
    return fleet;
  }
  peer::Secret secret = peer::read_secret_file(config.peer_secret_file);
  fleet.options.secret = std::move(secret.text);
  if (!secret.warning.empty()) fleet.warnings.push_back(std::move(secret.warning));
  return fleet;
}

uint16_t find_own_node(const config::Config& config, const peer::FleetOptions& fleet) {
  peer::ThisMachine machine;
  return peer::find_own_place(fleet.instances, own_place_options(config), machine);
}

}  // namespace sluice::cli
