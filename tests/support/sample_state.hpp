// Commits as a server makes them, for tests of the commands that read a state file.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "state/part_builder.hpp"
#include "state/part_kind.hpp"
#include "store/state_store.hpp"

namespace sluice::test {

inline constexpr uint16_t sample_shards = 2;
inline constexpr int64_t sample_state_ns = 30 * base::ns_per_day;

// A part that a shard could have written: a subject, and how a reservation ended.
inline std::string sample_part(uint64_t epoch, uint16_t shard, int64_t wall_ns) {
  state::PartBuilder builder({.subjects_max = 1, .name_bytes_max = 8, .reservations_max = 1});
  builder.append(state::SubjectRecord{.name = "gpt-4o"});
  builder.append(
      state::EndedReservation{.id = epoch, .forgotten_ms = sample_state_ns / base::ns_per_ms});
  builder.finish({.epoch = epoch,
                  .shard = shard,
                  .shards = sample_shards,
                  .time = {.state_ns = sample_state_ns, .machine = {.wall_ns = wall_ns}},
                  .calendar_wall_ns = wall_ns,
                  .order = 1'000});
  const auto part = builder.parts().front();
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

// What the server writes into `meta` at its start.
inline constexpr std::array<store::MetaValue, 4> sample_meta{
    {{"name_seed", "11111"}, {"routing_seed", "22222"}, {"shards", "2"}, {"version", "0.1.0"}}};

// The cuts of both shards, with a quota that was put at run time.
inline store::Result<void> commit_sample(store::StateStore& store, uint64_t epoch,
                                         int64_t wall_ns) {
  const std::string bytes[] = {sample_part(epoch, 0, wall_ns), sample_part(epoch, 1, wall_ns)};
  constexpr std::string_view quota =
      R"({"limits":[{"amount":5,"metric":"tokens","name":"t","period_ms":60000}]})";
  const store::QuotaClass quota_class{.id = state::quota_class_of(quota), .quota = quota};
  const store::QuotaChange put{.name = "gpt-4o", .quota = quota, .put_at = 1};
  std::array<store::Part, sample_shards> parts;
  std::array<store::ShardCut, sample_shards> cuts;
  for (uint32_t shard = 0; shard < sample_shards; ++shard) {
    parts[shard] = {.kind = static_cast<uint8_t>(state::PartKind::quotas),
                    .bytes = std::as_bytes(std::span<const char>(bytes[shard]))};
    cuts[shard] = {.epoch = epoch, .shard = shard, .parts = {&parts[shard], 1}, .records_count = 2};
  }
  cuts[0].quota_classes = {&quota_class, 1};
  cuts[0].quota_changes = {&put, 1};
  return store.commit({.epoch = epoch, .cuts = cuts});
}

}  // namespace sluice::test
