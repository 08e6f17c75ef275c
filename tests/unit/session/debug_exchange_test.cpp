// Goal: every key is written once, no faster than the peer reads, and a small body as a whole.
// Method: the test plays the shards: it replies with counts and pages.
#include "session/debug_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/session/fake_transport.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {
namespace {

using Progress = DebugExchange::Progress;
using Texts = std::vector<std::string>;

class DebugExchangeTest : public ::testing::Test {
 protected:
  void page(const Texts& names, uint64_t next_cursor) {
    std::vector<api::KeyState> keys;
    for (const std::string& name : names) keys.push_back({.key = name});
    exchange_.on_page(keys, next_cursor);
  }

  KeepingBackend backend_;
  Context context_{backend_, {.waiters_max = 1}};
  FakeTransport transport_;
  DebugExchange exchange_{context_, transport_, {.pretty = true}};
};

TEST_F(DebugExchangeTest, answers_a_few_keys_as_a_whole) {
  exchange_.begin();
  EXPECT_EQ(exchange_.proceed(), Progress::waits);
  exchange_.on_counted(2);
  EXPECT_EQ(exchange_.proceed(), Progress::waits);
  page({"b", "a"}, 0);
  EXPECT_EQ(exchange_.proceed(), Progress::complete);
  exchange_.finish();
  EXPECT_EQ(transport_.asked, (Texts{"count", "page 0"}));
  ASSERT_EQ(transport_.answers.size(), 1u);
  EXPECT_EQ(transport_.answers[0].find("200 {\n  \"Instances\": {\n    \"a\": {"), 0u);
}

TEST_F(DebugExchangeTest, gathers_sorted_keys_before_it_writes_any) {
  exchange_.begin();
  exchange_.on_counted(3);
  exchange_.proceed();
  page({std::string(1'000, 'c')}, 7);
  EXPECT_EQ(exchange_.proceed(), Progress::waits) << "for the next page";
  EXPECT_EQ(transport_.answers, Texts{});
  page({std::string(1'000, 'b'), std::string(1'000, 'a')}, 0);
  EXPECT_EQ(exchange_.proceed(), Progress::complete);
  exchange_.finish();
  const std::string keys =
      std::string(1'000, 'a') + " " + std::string(1'000, 'b') + " " + std::string(1'000, 'c');
  EXPECT_EQ(transport_.answers, (Texts{"pretty " + keys + " end"}));
}

TEST_F(DebugExchangeTest, gathers_pages_that_come_at_once_one_in_each_iteration) {
  uint64_t next_cursor = 7;
  transport_.reply_to_page = [&] { page({std::string(1'000, 'k')}, next_cursor); };
  exchange_.begin();
  exchange_.on_counted(2);
  EXPECT_EQ(exchange_.proceed(), Progress::goes_on);
  EXPECT_EQ(transport_.answers, Texts{});
  next_cursor = 0;
  EXPECT_EQ(exchange_.proceed(), Progress::complete);
  EXPECT_EQ(transport_.asked, (Texts{"count", "page 0", "page 7"}));
}

TEST_F(DebugExchangeTest, writes_many_keys_page_by_page) {
  exchange_.begin();
  exchange_.on_counted(DebugWalk::sorted_keys_max + 1);
  exchange_.proceed();
  page({"z"}, 7);
  EXPECT_EQ(exchange_.proceed(), Progress::goes_on);
  EXPECT_EQ(exchange_.proceed(), Progress::waits) << "for the next page";
  page({"a"}, 0);
  EXPECT_EQ(exchange_.proceed(), Progress::complete);
  exchange_.finish();
  EXPECT_EQ(transport_.answers, (Texts{"pretty in table order z a end"}));
}

TEST_F(DebugExchangeTest, waits_until_the_peer_reads) {
  transport_.room = 1;
  exchange_.begin();
  exchange_.on_counted(DebugWalk::sorted_keys_max + 1);
  exchange_.proceed();
  page({"a", "b"}, 0);
  EXPECT_EQ(exchange_.proceed(), Progress::waits);
  EXPECT_EQ(transport_.answers, (Texts{"pretty in table order a"}));
  transport_.is_full = false;
  EXPECT_EQ(exchange_.proceed(), Progress::complete);
}

TEST_F(DebugExchangeTest, writes_few_keys_in_a_turn_that_requests_fill) {
  exchange_.begin();
  exchange_.on_counted(DebugWalk::sorted_keys_max + 1);
  exchange_.proceed();
  page(Texts(DebugWalk::slice_keys + DebugWalk::busy_slice_keys, "K"), 0);
  context_.work.begin_turn(true);
  context_.work.spend(context_.work.turn_work());
  EXPECT_EQ(exchange_.proceed(), Progress::goes_on);
  const std::string& written = transport_.answers.at(0);
  EXPECT_EQ(std::count(written.begin(), written.end(), 'K'), DebugWalk::busy_slice_keys);
  context_.work.begin_turn(true);
  EXPECT_EQ(exchange_.proceed(), Progress::complete) << "the others at once";
}

TEST_F(DebugExchangeTest, leaves_less_of_a_turn_to_other_walks) {
  exchange_.begin();
  exchange_.on_counted(DebugWalk::sorted_keys_max + 1);
  exchange_.proceed();
  page(Texts(DebugWalk::slice_keys, "K"), 0);
  context_.work.begin_turn(true);
  context_.work.spend(context_.work.turn_work() - DebugWalk::slice_keys * work::debug_key);
  EXPECT_FALSE(context_.work.is_over());
  exchange_.proceed();
  EXPECT_TRUE(context_.work.is_over());
}

TEST_F(DebugExchangeTest, asks_for_a_page_when_the_shards_take_another_query) {
  exchange_.begin();
  exchange_.on_counted(1);
  transport_.has_query_room = false;
  EXPECT_EQ(exchange_.proceed(), Progress::waits);
  EXPECT_EQ(transport_.asked, (Texts{"count"}));
  transport_.has_query_room = true;
  EXPECT_EQ(exchange_.proceed(), Progress::waits);
  EXPECT_EQ(transport_.asked, (Texts{"count", "page 0"}));
}

TEST_F(DebugExchangeTest, bounds_the_number_of_walks) {
  EXPECT_EQ(context_.debug_walks_count, 1u);
  EXPECT_TRUE(DebugExchange::has_place(context_));
  {
    const DebugExchange second(context_, transport_, {});
    const DebugExchange third(context_, transport_, {});
    EXPECT_TRUE(DebugExchange::has_place(context_));
    const DebugExchange fourth(context_, transport_, {});
    EXPECT_FALSE(DebugExchange::has_place(context_));
  }
  EXPECT_TRUE(DebugExchange::has_place(context_));
  backend_.has_room = false;
  EXPECT_FALSE(DebugExchange::has_place(context_));
}

}  // namespace
}  // namespace sluice::session
