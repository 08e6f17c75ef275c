// Everything an operator can set, as plain values; the defaults are the flags' defaults.
// Flow:   command line and environment -> flags.hpp -> Config -> server::Server.
// Shape:  the maxima hold for the whole process; the server shares them out over its shards.
//         parse() sets what depends on the machine (shards, pin, cores_suffice).
// Units:  last word of the name; _ms is milliseconds.
// Lives:  written while flags are parsed, before any worker runs; read-only from then on.
// Source: gocc's flags (names, defaults, bounds) and ours; docs/operations.md lists them.
#pragma once

#include <cstdint>
#include <string>

#include "base/io_backend.hpp"
#include "base/peer_failure.hpp"
#include "log/level.hpp"

namespace sluice::config {

// The folder that the profiles of quotas are installed to.
std::string installed_profiles();

struct Config {
  // The policy of a key without one of its own.
  uint32_t max_requests = 100;
  uint32_t max_requests_in_queue = 400;
  uint32_t window_ms = 1'000;
  uint32_t max_wait_ms = 0;  // 0: a waiter waits until it is served
  bool requests_can_set_rate = true;
  bool requests_can_mod_queue = true;
  bool requests_can_set_window = true;
  std::string config_file;  // of keys and quotas, by pattern (policy/rule_file.hpp); empty: none
  std::string profiles = installed_profiles();  // the folder of quotas that the file may name

  // Where to listen; port 0 asks the kernel for a free one.
  std::string bind;  // an IPv4 or IPv6 address; empty: all interfaces, both families
  uint16_t port = 8'080;
  uint16_t native_port = 8'081;

  // How to run.
  uint32_t shards = 1;         // one worker each; the flag's default: usable CPUs (cpus.hpp)
  bool pin = true;             // worker i stays on the i-th usable CPU
  bool cores_suffice = false;  // no flag: there is a usable CPU for each shard
  base::IoBackend io = base::IoBackend::automatic;
  std::string server_type;  // gocc's choice of an HTTP library: "echo" has no HTTP/2

  // Several instances that limit together (peer/instance_list.hpp); none: this one is alone.
  std::string instance_urls;  // all of them, in one order everywhere
  std::string own_url;        // this one's; empty: it is found
  base::PeerFailure peer_failure = base::PeerFailure::error;
  uint32_t peer_timeout_ms = 2'000;  // for an owner's answer to what may not wait
  uint32_t peer_silence_ms = 900;    // without a byte of a peer that owes one: it is lost
  std::string peer_secret_file;

  // What survives a restart.
  std::string state;                  // the file; empty: nothing does
  uint32_t state_sync_ms = 100;       // between two commits
  uint32_t state_window_ms = 60'000;  // keys' windows of this length or longer; 0: none

  // The log.
  log::Format log_format = log::Format::json;
  log::Level log_level = log::Level::info;
  bool log_includes_source = true;
  bool log_2xx = false;  // a line for every REST request answered so
  bool log_4xx = false;
  bool log_5xx = true;

  // Maxima and time-outs.
  uint32_t max_keys = 10'000'000;
  uint32_t max_key_bytes = 1'024;
  uint32_t max_handles = 1'000'000;
  uint32_t max_subjects = 1'000'000;
  uint32_t max_reservations = 1'000'000;
  uint32_t max_waiters = 100'000;
  uint32_t max_connections = 10'000;
  uint32_t header_timeout_ms = 10'000;  // a whole HTTP header block; also the native Hello
  uint32_t idle_timeout_ms = 120'000;   // a silent HTTP connection; 0: stays open
  uint32_t drain_ms = 5'000;

  bool operator==(const Config&) const = default;
};

}  // namespace sluice::config
