// A question to shards, asked by a session of any of them: one key, a page of keys, or a census of
// all shards, with the keys that are asked most.
// Flow:   ShardQueries takes one from its pool -> the shard that is asked answers it in place ->
//         back to the shard that asked -> its session. A census goes from shard to shard.
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

  // What is asked.
  Kind kind = Kind::key;
  std::optional<Asker> asker;
  std::string key;
  uint32_t shard = 0;  // which is asked
  uint64_t cursor = 0;
  uint32_t keys_max = 0;

  // The answer; keys point into `text`.
  std::vector<api::KeyState> states;
  std::string text;
  uint64_t next_cursor = 0;  // of this shard; 0: it has no more
  std::vector<ShardStatistics> shard_statistics_of_all;
  std::vector<TopKey> top_keys;

  // Whether it goes from shard to shard.
  bool is_of_all() const noexcept {
    return kind == Kind::metrics || kind == Kind::count || kind == Kind::top;
  }

  void clear_answer() noexcept {
    states.clear();
    text.clear();
    next_cursor = 0;
    shard_statistics_of_all.clear();
    top_keys.clear();
  }
  void add(const api::KeyState& state) {
    states.push_back(state);
    text.append(state.key);
  }
  // The text may have moved while it grew.
  void point_keys() noexcept {
    size_t begin = 0;
    for (api::KeyState& state : states) {
      state.key = std::string_view(text).substr(begin, state.key.size());
      begin += state.key.size();
    }
  }
};

}  // namespace sluice::server
