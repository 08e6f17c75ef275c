#include "server/top.hpp"

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "text/json.hpp"

namespace sluice::server {
namespace {

using text::Json;

// A sample is not precise enough for more than one digit behind the point.
double rounded(double rate) noexcept {
  return std::round(rate * 10) / 10;
}

Json shard_json(const ShardStatistics& shard) {
  return {{"shard", shard.shard_id},
          {"decisionsPerSecond", rounded(shard.rates.decisions())},
          {"approvedPerSecond", rounded(shard.rates.approved)},
          {"deniedPerSecond", rounded(shard.rates.denied)},
          {"queuedPerSecond", rounded(shard.rates.queued)},
          {"waiting", shard.waiters},
          {"keys", shard.keys},
          {"connections", shard.connections}};
}

Json key_json(const TopKey& key) {
  const shard::HeavyKey& rates = key.rates;
  Json json{{"key", key.text},
            {"keyBytes", rates.key_bytes},
            {"shard", key.shard},
            {"decisionsPerSecond", rounded(rates.per_s())},
            {"approvedPerSecond", rounded(rates.approved_per_s)},
            {"deniedPerSecond", rounded(rates.denied_per_s)},
            {"queuedPerSecond", rounded(rates.queued_per_s)},
            {"decisionsPerSecondMax", rounded(rates.per_s_max)},
            {"waiting", nullptr}};
  if (rates.waiting) json["waiting"] = *rates.waiting;
  return json;
}

}  // namespace

void merge(std::span<const shard::HeavyKey> of_shard, uint32_t shard, uint32_t keys_max,
           std::vector<TopKey>& keys) {
  for (const shard::HeavyKey& key : of_shard) {
    keys.push_back({.text = std::string{key.key}, .shard = shard, .rates = key});
    keys.back().rates.key = {};
  }
  std::ranges::stable_sort(
      keys, [](const TopKey& a, const TopKey& b) { return a.rates.per_s() > b.rates.per_s(); });
  if (keys.size() > keys_max) keys.resize(keys_max);
}

std::string write_top(std::span<const ShardStatistics> shards, std::span<const TopKey> keys) {
  Json json{{"version", SLUICE_VERSION}, {"shards", Json::array()}, {"keys", Json::array()}};
  for (const ShardStatistics& shard : shards) json["shards"].push_back(shard_json(shard));
  for (const TopKey& key : keys) json["keys"].push_back(key_json(key));
  std::string text = text::one_line(json, text::Escapes::ascii) + "\n";
  ASSERT(text.size() <= limits::reply_bytes_max - limits::http_header_bytes_max);
  return text;
}

}  // namespace sluice::server
