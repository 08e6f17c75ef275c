// Goal: the keys of all shards are merged, the busiest first; any key's bytes become plain ASCII
// JSON that fits into an answer.
// Method: made-up rates.
#include "server/top.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/limits.hpp"

namespace sluice::server {
namespace {

using shard::HeavyKey;

TEST(Top, merges_keys_of_all_shards) {
  std::vector<TopKey> keys;
  const std::vector<HeavyKey> first{{.key = "a", .approved_per_s = 50},
                                    {.key = "b", .denied_per_s = 10}};
  const std::vector<HeavyKey> second{{.key = "c", .queued_per_s = 30},
                                     {.key = "d", .approved_per_s = 1}};
  merge(first, 0, 3, keys);
  merge(second, 1, 3, keys);
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].text, "a");
  EXPECT_EQ(keys[1].text, "c");
  EXPECT_EQ(keys[1].shard, 1U);
  EXPECT_EQ(keys[2].text, "b");
}

TEST(Top, writes_every_shard_and_key) {
  const std::vector<ShardStatistics> shards{{.shard_id = 0,
                                             .rates = {.approved = 5.55, .denied = 2, .queued = 1},
                                             .keys = 9,
                                             .waiters = 3,
                                             .connections = 4}};
  std::vector<TopKey> keys;
  merge(std::vector<HeavyKey>{{.key = "user:1",
                               .key_bytes = 6,
                               .approved_per_s = 1,
                               .denied_per_s = 2,
                               .queued_per_s = 4,
                               .per_s_max = 8,
                               .waiting = 3},
                              {.key = "cut", .key_bytes = 1'000, .waiting = std::nullopt}},
        0, 10, keys);
  const auto json = nlohmann::json::parse(write_top(shards, keys));
  EXPECT_EQ(json["version"], SLUICE_VERSION);
  EXPECT_EQ(json["shards"], nlohmann::json::parse(R"([{"shard": 0, "decisionsPerSecond": 8.6,
      "approvedPerSecond": 5.6, "deniedPerSecond": 2.0, "queuedPerSecond": 1.0, "waiting": 3,
      "keys": 9, "connections": 4}])"));
  EXPECT_EQ(json["keys"][0], nlohmann::json::parse(R"({"key": "user:1", "keyBytes": 6, "shard": 0,
      "decisionsPerSecond": 7.0, "approvedPerSecond": 1.0, "deniedPerSecond": 2.0,
      "queuedPerSecond": 4.0, "decisionsPerSecondMax": 8.0, "waiting": 3})"));
  EXPECT_TRUE(json["keys"][1]["waiting"].is_null());
}

TEST(Top, escapes_hostile_keys) {
  std::vector<TopKey> keys;
  merge(std::vector<HeavyKey>{{.key = "\x1B[2J\"\\\xFF\xC2\x9B\u202E"}}, 0, 1, keys);
  const std::string text = write_top({}, keys);
  for (const char c : text.substr(0, text.size() - 1)) {
    EXPECT_TRUE(c >= ' ' && c <= '~') << text;
  }
  EXPECT_EQ(nlohmann::json::parse(text)["keys"][0]["key"], "\x1B[2J\"\\\uFFFD\u009B\u202E");
}

TEST(Top, the_largest_answer_has_room) {
  const std::string key(256, '\x01');  // six bytes each
  std::vector<TopKey> keys;
  const std::vector<HeavyKey> heavy(limits::top_keys_max, {.key = key,
                                                           .key_bytes = 65'535,
                                                           .approved_per_s = 1e9 + 0.1,
                                                           .denied_per_s = 1e9 + 0.1,
                                                           .queued_per_s = 1e9 + 0.1,
                                                           .per_s_max = 1e9 + 0.1});
  merge(heavy, 255, limits::top_keys_max, keys);
  const std::vector<ShardStatistics> shards(256, {.rates = {1e9 + 0.1, 1e9 + 0.1, 1e9 + 0.1},
                                                  .keys = 1'000'000'000,
                                                  .waiters = 100'000'000,
                                                  .connections = 1'000'000});
  const std::string text = write_top(shards, keys);
  EXPECT_GT(text.size(), 6 * 256 * limits::top_keys_max);
  EXPECT_LE(text.size(), limits::reply_bytes_max / 2);
}

}  // namespace
}  // namespace sluice::server
