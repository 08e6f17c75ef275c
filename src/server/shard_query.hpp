// A query of a session to its own or another shard: one key, a page of keys, or the statistics of
// all shards, with the busiest keys.
// Flow:   ShardQueries takes one from its pool -> the queried shard answers it in place -> it
//         returns to the shard that asked -> its session. One for statistics goes from shard to
//         shard.
// Lives:  lent to one shard at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/entry.hpp"
#include "server/shard_statistics.hpp"
#include "server/task_pool.hpp"
#include "server/top.hpp"

namespace sluice::server {

struct ShardQuery {
  enum class Kind : uint8_t { key, page, metrics, count, top };

  // The question.
  Kind kind = Kind::key;
  std::optional<Asker> asker;
  std::string key;
  uint32_t shard = 0;  // the queried one
  uint64_t cursor = 0;
  uint32_t keys_max = 0;

  // The answer; keys point into `text`.
  std::vector<api::KeyState> states;
  std::string text;
  std::vector<uint32_t> waiting_costs;  // of a single key
  uint64_t next_cursor = 0;             // of this shard; 0: it has no more
  std::vector<ShardStatistics> statistics;
  std::vector<NodeStatistics> nodes;
  std::vector<TopKey> top_keys;

  // Whether the query goes from shard to shard.
  bool is_of_all() const noexcept {
    return kind == Kind::metrics || kind == Kind::count || kind == Kind::top;
  }

  void clear_answer() noexcept {
    states.clear();
    text.clear();
    waiting_costs.clear();
    next_cursor = 0;
    statistics.clear();
    nodes.clear();
    top_keys.clear();
  }
  void add(const api::KeyState& state) {
    states.push_back(state);
    text.append(state.key);
    waiting_costs.insert(waiting_costs.end(), state.waiting_costs.begin(),
                         state.waiting_costs.end());
  }
  // Called when the answer is complete: its texts and lists may have moved while they grew.
  void point_keys() noexcept {
    size_t begin = 0;
    for (api::KeyState& state : states) {
      state.key = std::string_view(text).substr(begin, state.key.size());
      begin += state.key.size();
      if (kind == Kind::key) state.waiting_costs = waiting_costs;
    }
  }
};

}  // namespace sluice::server
