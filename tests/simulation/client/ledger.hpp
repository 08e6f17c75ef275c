// What the scripted server was asked, what it replied, and when the client could know it.
// Shape:  each entry of a frame has a name that only one call of the test uses (the key, the
//         subject, "extend:LIFETIME" ...), so its whole story is found under that name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "surroundings.hpp"

namespace sluicegate::simulation {

struct Reply {
  bool is_refusal = false;  // an Error frame
  bool is_final = true;     // false: queued
  bool is_approved = false;
  bool is_draining = false;
  uint8_t code = 0;  // of the verdict, the quota code, or the error
  uint64_t reservation = 0;
  std::optional<Time> arrived{};
};

// One entry of one frame.
struct Asked {
  uint32_t connection = 0;
  uint64_t frame = 0;
  uint32_t place = 0;
  uint32_t cost = 1;
  bool may_wait = false;
  std::vector<Reply> replies{};
  size_t withdrawals = 0;

  const Reply* final_word() const {
    return replies.empty() || !replies.back().is_final ? nullptr : &replies.back();
  }
};

struct ConnectionStory {
  std::optional<Time> went_away{};  // the client could read GoAway
  std::optional<Time> ended{};      // the client could notice its end, or a frame that breaks it
  std::optional<Time> used{};       // the first request of a caller arrived
  uint64_t instance = 0;            // of the server
  uint32_t wanted = 0;              // shard, which is the lane of the client
  uint32_t shards = 0;
  bool is_welcome = false;
};

struct Ledger {
  std::map<std::string, std::vector<std::shared_ptr<Asked>>> asked{};
  std::map<uint32_t, ConnectionStory> connections{};
  std::map<std::string, uint32_t> releases{};  // by key
  std::map<uint64_t, uint32_t> cancels{};      // by reservation
  std::set<Time> troubles{};                   // when a connection or an attempt could fail
  std::vector<std::string> complaints{};       // the client broke the protocol
  std::map<std::string, uint64_t> events{};    // what happened how often
};

}  // namespace sluicegate::simulation
