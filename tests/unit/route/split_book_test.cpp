// A request is complete with its last part, and its answers are in their places; each shard that is
// waited for has room of its own.
#include "route/split_book.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/route/message_memory.hpp"

namespace sluice::route {
namespace {

using api::Verdict;

class SplitBookTest : public ::testing::Test {
 protected:
  SplitBook::Index open(uint32_t count, Form form, const std::vector<api::ShardId>& shards,
                        bool is_whole = false, uint64_t id = 0) {
    const auto split = book_.open({.session = 1, .generation = 2, .id = id, .entries_count = count},
                                  form, is_whole);
    for (const api::ShardId shard : shards) book_.add_part(split, shard);
    return split;
  }

  // Fills a message with one part of plain entries, and answers it.
  Part plain_part(ShardMessage& message, SplitBook::Index split, uint32_t first_place,
                  const std::vector<Verdict>& verdicts, bool is_whole = false) {
    std::vector<uint16_t> places(verdicts.size());
    std::iota(places.begin(), places.end(), static_cast<uint16_t>(first_place));
    const std::vector<uint16_t> sizes(is_whole ? places.size() : first_place + places.size(), 0);
    const std::vector<uint32_t> begins(sizes.size(), 0);
    message.begin_part(split, Form::plain, static_cast<uint32_t>(places.size()), is_whole);
    if (is_whole) {
      message.add(KeyColumn{.text = "", .sizes = sizes});
    } else {
      message.add(KeyColumn{.text = "", .sizes = sizes}, begins, places);
    }
    const Part part = message.parts().back();
    std::ranges::copy(verdicts, message.verdicts(part.first_entry, part.entries_count).begin());
    return part;
  }

  MessageMemory memory_{2, 8};
  ShardMessage message_{8, memory_.data()};
  SplitBook book_{3, 100, {.answer_bytes_max = 1024 * 1024}};
};

TEST_F(SplitBookTest, a_whole_request_is_answered_from_its_message) {
  const auto split = open(2, Form::plain, {1}, true, 5);
  const Part part = plain_part(message_, split, 0, {Verdict::denied, Verdict::approved}, true);
  EXPECT_TRUE(book_.keep(1, part, message_));
  const auto answers = book_.answers(part, message_);
  EXPECT_EQ(answers.request.id, 5U);
  EXPECT_EQ(answers.request.split, split);
  EXPECT_EQ(answers.verdicts.data(), message_.verdicts(0, 2).data());
  EXPECT_TRUE(answers.entries.empty());
  book_.close(split);
  EXPECT_EQ(book_.open_count(), 0U);
}

TEST_F(SplitBookTest, puts_the_verdicts_of_all_parts_into_their_places) {
  const auto split = open(5, Form::plain, {1, 2});
  Turn turn;
  turn.add({.split = split}, 1);
  turn.places()[0] = 2;
  turn.verdicts()[0] = Verdict::table_full;
  book_.keep_own(turn.requests()[0], turn);
  const Part first = plain_part(message_, split, 3, {Verdict::approved, Verdict::denied});
  EXPECT_FALSE(book_.keep(2, first, message_));
  const Part last = plain_part(message_, split, 0, {Verdict::denied, Verdict::approved});
  EXPECT_TRUE(book_.keep(1, last, message_));
  const auto answers = book_.answers(last, message_);
  const std::vector<Verdict> expected{Verdict::denied, Verdict::approved, Verdict::table_full,
                                      Verdict::approved, Verdict::denied};
  EXPECT_TRUE(std::ranges::equal(answers.verdicts, expected));
  book_.close(split);
}

TEST_F(SplitBookTest, gathers_entries_and_details_of_detailed_ones) {
  const auto split = open(2, Form::detailed, {1});
  Turn turn;
  turn.add({.split = split}, 1)[0] = {.flags = api::flag::wants_details, .ticket = 4};
  turn.places()[0] = 0;
  turn.verdicts()[0] = Verdict::approved;
  turn.details()[0] = {.limit = 8};
  book_.keep_own(turn.requests()[0], turn);
  message_.begin_part(split, Form::detailed, 1, false);
  message_.add({.ticket = 9}, 1);
  message_.verdicts(0, 1)[0] = Verdict::queued;
  message_.details(0, 1)[0] = {.position = 3};
  EXPECT_TRUE(book_.keep(1, message_.parts()[0], message_));
  const auto answers = book_.answers(message_.parts()[0], message_);
  EXPECT_EQ(answers.entries[0].ticket, 4U);
  EXPECT_EQ(answers.details[0].limit, 8U);
  EXPECT_EQ(answers.entries[1].ticket, 9U);
  EXPECT_EQ(answers.verdicts[1], Verdict::queued);
  EXPECT_EQ(answers.details[1].position, 3U);
  book_.close(split);
}

TEST_F(SplitBookTest, requests_that_wait_for_one_shard_take_no_room_from_others) {
  std::vector<SplitBook::Index> opened;
  while (book_.has_room(1, limits::frame_entries_max, Form::plain)) {
    opened.push_back(open(limits::frame_entries_max, Form::plain, {1, 2}));
    const std::vector<Verdict> verdicts(1, Verdict::approved);
    message_.clear();
    book_.keep(2, plain_part(message_, opened.back(), 0, verdicts), message_);
  }
  EXPECT_GT(opened.size(), 10U);
  EXPECT_FALSE(book_.has_room(1, limits::frame_entries_max, Form::plain));
  EXPECT_TRUE(book_.has_room(2, limits::frame_entries_max, Form::plain));
  EXPECT_GT(book_.waiting_bytes(), 0U);
  for (const auto split : opened) {
    message_.clear();
    EXPECT_TRUE(book_.keep(1, plain_part(message_, split, 0, {Verdict::denied}), message_));
    book_.close(split);
  }
  EXPECT_EQ(book_.waiting_bytes(), 0U);
}

TEST(SplitBook, answers_are_aligned_for_any_number_of_shards) {
  for (const uint32_t shards : {2, 10, 30, 256}) {
    SplitBook book(shards, 2, {});
    for (const uint32_t count : {1'000U, 2U}) {
      const auto split = book.open({.entries_count = count}, Form::detailed, false);
      book.add_part(split, 1);
      const Part part{.split = split};
      MessageMemory memory(1, 1);
      const auto answers = book.answers(part, ShardMessage(1, memory.data()));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(answers.entries.data()) % alignof(api::Entry), 0U);
    }
  }
}

// The longest requests with details, one for each shard.
TEST(SplitBook, the_largest_request_has_room_if_none_waits_for_its_shards) {
  constexpr uint32_t count = limits::frame_entries_max;
  SplitBook book(3, 4, {.answer_bytes_max = 1});
  for (const TargetId target : {1, 2}) {
    EXPECT_TRUE(book.has_room(target, count, Form::detailed));
    book.add_part(book.open({.entries_count = count}, Form::detailed, false), target);
    EXPECT_FALSE(book.has_room(target, 1, Form::plain));
  }
}

TEST_F(SplitBookTest, finds_open_requests_by_session_and_id) {
  const auto split = open(1, Form::plain, {1}, true, 77);
  EXPECT_TRUE(book_.holds(1, 2, 77));
  EXPECT_FALSE(book_.holds(1, 2, 78));
  EXPECT_FALSE(book_.holds(1, 3, 77));
  book_.keep(1, plain_part(message_, split, 0, {Verdict::denied}, true), message_);
  book_.close(split);
  EXPECT_FALSE(book_.holds(1, 2, 77));
}

}  // namespace
}  // namespace sluice::route
