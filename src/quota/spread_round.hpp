// The way of a batch from shard to shard, and the verdicts of its rounds.
// Flow:   spread(), for calls over several shards -> next_stop() -> the shard has its share ->
//         after_stop() -> next_stop() ... -> no stop is left.
// Shape:  functions over an api::QuotaBatch; they use no shard's state. In a round all shards are
//         asked, and all apply the verdicts; it leaves no hold behind.
// Errors: none.
// Source: docs/adr/0016-calls-over-several-shards.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_set>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "quota/quota_decider.hpp"

namespace sluice::quota {

// What a batch can stop at: shards, and other nodes; no number from end() on is a stop.
struct Stops {
  uint32_t shards_count = 1;
  uint32_t nodes_count = 0;  // 0: this node is alone

  uint32_t end() const noexcept {
    return nodes_count == 0 ? shards_count : uint32_t{api::stop_of_node(nodes_count)};
  }
};

// The stop that has a share in the batch's pass, from this one on; without one, the first of the
// next pass. stops.end(): every call is decided.
uint32_t next_stop(api::QuotaBatch& batch, uint32_t from, const Stops& stops) noexcept;
inline uint32_t next_stop(api::QuotaBatch& batch, uint32_t from, uint32_t shards_count) noexcept {
  return next_stop(batch, from, Stops{.shards_count = shards_count});
}
// The same within a pass of a batch that another node decides, over shards. shards_count: none.
uint32_t next_stop_of_visit(const api::QuotaBatch& batch, uint32_t from,
                            uint32_t shards_count) noexcept;
// Whether a stop has a share of the call in the batch's pass.
bool has_share(const api::QuotaBatch& batch, size_t index, api::ShardId stop) noexcept;
// From where to look for the next stop: this one has had its share.
uint32_t after_stop(api::QuotaBatch& batch, uint32_t stop) noexcept;

// Has all calls of the batch decided in rounds, so that those that share a subject keep their
// order. `find_stops(names, stops)` sets the stop of each subject of a call.
template <typename FindStops>
void spread(api::QuotaBatch& batch, FindStops find_stops);
void begin_rounds(api::QuotaBatch& batch) noexcept;

// Calls of a batch that share a subject keep their order: those behind one that awaits a verdict
// are put off with it. Ask for each call of the batch, in order.
class NamesPutOff {
 public:
  // Whether the call is put off to the next round.
  bool puts_off(api::QuotaBatch& batch, size_t index) {
    const api::SpreadCall& call = batch.spread[index];
    if (call.state != api::SpreadCall::State::undecided) return false;
    return (call.awaits() || !names_.empty()) && puts_off_undecided(batch, index);
  }

 private:
  bool puts_off_undecided(api::QuotaBatch& batch, size_t index);

  std::unordered_set<std::string_view> names_;  // of calls that are put off
};

// Every shard has been asked: refuses or admits each call that need not wait for another verdict.
// Counts the outcomes of reserves in the statistics.
void conclude(api::QuotaBatch& batch, int64_t now_ns, Statistics& statistics) noexcept;
// Of a batch without rounds: whether the call's home is still to extend a reservation whose parts
// on other nodes are extended.
bool awaits_home(const api::QuotaBatch& batch, size_t index) noexcept;
// Whether the answer shows every limit of the call, now that it has a verdict. A call whose
// subjects or id have a problem shows none.
bool shows_limits(const api::QuotaBatch& batch, size_t index) noexcept;

// Whether the shard applies the verdict on this call in the pass: it holds a part, charges one, or
// has a place for a waiter.
bool applies_verdict(api::Pass pass, const api::QuotaCall& call, const api::SpreadCall& spread,
                     api::ShardId shard) noexcept;
// The first place of a subject of this shard; subjects_count: it has none.
uint8_t first_place(const api::QuotaCall& call, const api::SpreadCall& spread,
                    api::ShardId shard) noexcept;

// ------------------------------------------------------------------------------- implementation

inline uint8_t first_place(const api::QuotaCall& call, const api::SpreadCall& spread,
                           api::ShardId shard) noexcept {
  uint8_t place = 0;
  while (place < call.subjects_count && spread.shards[place] != shard) ++place;
  return place;
}

inline bool applies_verdict(api::Pass pass, const api::QuotaCall& call,
                            const api::SpreadCall& spread, api::ShardId shard) noexcept {
  const bool is_done = spread.state == api::SpreadCall::State::done;
  if ((pass != api::Pass::apply && pass != api::Pass::open) || is_done) return false;
  const bool opens = api::leaves_trace(call) && spread.home() == shard;
  if (opens != (pass == api::Pass::open)) return false;
  const uint8_t place = first_place(call, spread, shard);
  return place < call.subjects_count && spread.holds[place] != api::SpreadCall::no_hold;
}

template <typename FindStops>
void spread(api::QuotaBatch& batch, FindStops find_stops) {
  batch.spread.resize(batch.calls.size());
  for (size_t index = 0; index < batch.calls.size(); ++index) {
    const api::QuotaCall& call = batch.calls[index];
    const uint32_t count = std::min<uint32_t>(call.subjects_count, limits::call_subjects_max);
    if (count == 0) continue;
    const auto names = std::span(batch.subjects).subspan(call.first_subject, count);
    find_stops(names, std::span(batch.spread[index].shards).first(count));
  }
  begin_rounds(batch);
}

}  // namespace sluice::quota
