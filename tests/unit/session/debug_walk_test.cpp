// Method: adds pages of keys in any order, and reads the rows.
#include "session/debug_walk.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::session {
namespace {

using Names = std::vector<std::string>;

void add(DebugWalk& walk, const Names& names, uint64_t next_cursor) {
  std::vector<api::KeyState> page;
  for (const std::string& name : names) page.push_back({.key = name});
  walk.add(page, next_cursor);
}

Names rows_of(DebugWalk& walk) {
  Names names;
  while (walk.has_row()) names.emplace_back(walk.take_row().key);
  return names;
}

TEST(DebugWalk, merges_pages_into_one_order) {
  DebugWalk walk({});
  walk.expect(6);
  EXPECT_TRUE(walk.needs_page());
  add(walk, {"c", "a", "x"}, 7);
  add(walk, {}, 8);
  add(walk, {"b", "z", "d"}, 0);
  EXPECT_FALSE(walk.needs_page());
  EXPECT_EQ(rows_of(walk), (Names{"a", "b", "c", "d", "x", "z"}));
}

TEST(DebugWalk, filters_by_prefix_and_limits_keys) {
  DebugWalk walk({.prefix = "a", .keys_max = 2});
  add(walk, {"b", "a3", "a1"}, 7);
  add(walk, {"a2", "c"}, 0);
  EXPECT_EQ(rows_of(walk), (Names{"a1", "a2"}));
}

TEST(DebugWalk, writes_many_keys_page_by_page) {
  DebugWalk walk({.keys_max = 4});
  walk.expect(DebugWalk::sorted_keys_max + 1);
  EXPECT_FALSE(walk.sorted());
  add(walk, {"z", "y"}, 7);
  EXPECT_FALSE(walk.needs_page()) << "first these are written";
  EXPECT_EQ(rows_of(walk).size(), 2U);
  EXPECT_TRUE(walk.needs_page());
  walk.forget_written();
  add(walk, {"a", "b", "c"}, 9);
  EXPECT_EQ(rows_of(walk), (Names{"a", "b"}));
  EXPECT_FALSE(walk.needs_page()) << "four are enough";
}

TEST(DebugWalk, stops_sorting_when_too_many_keys_arrive) {
  DebugWalk walk({});
  walk.expect(10);
  uint32_t count = 0;
  while (walk.sorted()) {
    Names names;
    for (int i = 0; i < 1'000; ++i) names.push_back(std::to_string(count++));
    add(walk, names, count);
  }
  EXPECT_EQ(count, DebugWalk::sorted_keys_max + 1'000);
  EXPECT_EQ(rows_of(walk).size(), count);
  EXPECT_TRUE(walk.needs_page());
  add(walk, {"last"}, 0);
  EXPECT_EQ(rows_of(walk), (Names{"last"}));
}

TEST(DebugWalk, encodes_a_few_keys_as_a_whole) {
  DebugWalk walk({});
  add(walk, {"b", "a"}, 0);
  std::array<std::byte, DebugWalk::small_body_bytes> body;
  const auto size = walk.encode_whole(body);
  ASSERT_TRUE(size);
  const std::string_view text{reinterpret_cast<const char*>(body.data()), *size};
  EXPECT_TRUE(text.starts_with(R"({"Instances":{"a":{"Key":"a",)")) << text;
  EXPECT_TRUE(text.ends_with("}}\n")) << text;
  EXPECT_FALSE(walk.encode_whole(std::span{body}.first(*size - 1)));
  EXPECT_EQ(rows_of(walk), (Names{"a", "b"})) << "encode_whole() changes nothing";
}

}  // namespace
}  // namespace sluice::session
