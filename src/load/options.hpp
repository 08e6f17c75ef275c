// The options of `sluicegate bench`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::load {

enum class Distribution : uint8_t {
  uniform,  // a random permutation of all keys, over and over
  zipf,     // exponent 0.99
  one,      // a single key
};

// The connections over which the tool asks for a key.
enum class Route : uint8_t {
  any,           // any that has room
  owners,        // those to the shard that owns it
  other_shards,  // those to the shard before: every entry goes to another shard
};

struct Options {
  std::string address;            // HOST:PORT; empty: start a server of our own
  std::optional<int> server_pid;  // reads the CPU time of a server at `address`
  std::vector<int> server_cpus;   // cores of our server; empty: any
  std::optional<int> client_cpu;  // the core to pin the tool to
  std::string io;                 // --io of our server; empty: its default
  uint32_t shards = 1;            // --shards of our server

  uint32_t connections = 4;
  uint32_t batch = 256;  // entries in a frame
  uint32_t window = 16;  // frames in flight on each connection
  uint32_t keys = 1'000'000;
  uint32_t new_keys = 0;  // more keys, each asked for first during the run of an open loop
  uint32_t key_bytes = 15;
  Distribution distribution = Distribution::uniform;
  double denied_share = 0;
  Route route = Route::any;
  bool handles = false;       // intern the keys first, then ask by handle
  bool other_handle = false;  // each connection holds a handle of another shard's key, too
  bool client = false;        // ask through the client library instead of replaying frames
  uint32_t rate = 0;          // decisions per second of an open loop; 0: a closed loop
  double seconds = 10;
  double warm_up_seconds = 1;
  bool json = false;
};

}  // namespace sluice::load
