// A look into a shard, asked by a session of any core: one key, a page of keys, or a census of all
// cores, with the keys that are asked most. And the carrier of a batch of quota calls.
// Flow:   a worker takes a look from its pool -> the shard's core answers it in place -> back to
//         the worker -> its session. A census goes from core to core.
// Errors: none free: the session waits until one is.
// Lives:  lent to one core at a time. Its memory is allocated when it is first needed and kept:
//         looking is not on the request path (ADR 0004).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/entry.hpp"
#include "api/quota.hpp"
#include "route/crossing.hpp"
#include "server/census.hpp"
#include "server/top.hpp"

namespace sluice::route {

struct Look {
  enum class Kind : uint8_t { key, page, metrics, count, top, quota };
  static constexpr uint32_t no_session = 0xFFFF'FFFF;

  Kind kind = Kind::key;
  bool in_use = false;
  bool is_own = false;  // quota: asked by the worker itself, which wants no answer

  // Who asked, and is told.
  uint32_t session = 0;
  uint32_t generation = 0;
  uint64_t id = 0;
  api::CoreId origin = 0;  // quota: whose tickets its calls have

  // What is asked.
  std::string key;
  uint32_t shard = 0;  // which is asked
  uint64_t cursor = 0;
  uint32_t keys_max = 0;

  // The answer; keys point into `text`.
  std::vector<api::KeyState> states;
  std::string text;
  uint64_t next_cursor = 0;  // of this shard; 0: it has no more
  std::vector<server::Census> censuses;
  std::vector<server::TopKey> top_keys;

  api::QuotaBatch batch;  // quota: asked and answered

  // Whether it goes from core to core.
  bool is_of_all() const noexcept {
    return kind == Kind::metrics || kind == Kind::count || kind == Kind::top;
  }

  void add(const api::KeyState& state) {
    states.push_back(state);
    text.append(state.key);
  }
  // The text may have moved while it grew.
  void point_keys() {
    size_t begin = 0;
    for (api::KeyState& state : states) {
      state.key = std::string_view(text).substr(begin, state.key.size());
      begin += state.key.size();
    }
  }
};

}  // namespace sluice::route
