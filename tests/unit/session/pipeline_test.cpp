// Goal: decisions are taken in the order in which they were added, with what their answers need.
// Method: decided in another order, by a test that forgets each key when it has been kept.
#include "session/pipeline.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace sluice::session {
namespace {

constexpr size_t key_bytes_max = 21;

class PipelineTest : public ::testing::Test {
 protected:
  // Decides the decision, whose answer shows `key`.
  void keep(uint64_t number, std::string key, uint8_t kind = 0) {
    const api::Entry entry{.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size())};
    const std::array verdicts{api::Verdict::denied};
    const std::array details{api::Detail{.request_id = number}};
    pipeline_.keep(number, kind, {.entries = {&entry, 1}, .verdicts = verdicts, .details = details},
                   true);
    key.assign(key.size(), '#');
  }
  std::vector<std::string> take_all() {
    std::vector<std::string> keys;
    while (const Pipeline::Decided* decided = pipeline_.take_first()) {
      keys.emplace_back(decided->entry.key());
    }
    return keys;
  }

  std::vector<uint64_t> memory_ =
      std::vector<uint64_t>(Pipeline::memory_bytes(key_bytes_max) / sizeof(uint64_t));
  Pipeline pipeline_{std::as_writable_bytes(std::span(memory_))};
};

using Keys = std::vector<std::string>;

TEST_F(PipelineTest, takes_decisions_in_the_order_of_their_requests) {
  for (int i = 0; i < 4; ++i) pipeline_.add();
  keep(3, "d");
  keep(1, "b");
  EXPECT_EQ(take_all(), Keys{}) << "the first one is not decided";
  EXPECT_TRUE(pipeline_.is_first(0));
  pipeline_.pop();
  EXPECT_EQ(take_all(), Keys{"b"});
  EXPECT_TRUE(pipeline_.is_first(2));
  pipeline_.pop();
  EXPECT_EQ(take_all(), Keys{"d"});
  EXPECT_TRUE(pipeline_.empty());
}

TEST_F(PipelineTest, its_connection_goes_on_when_few_enough_are_unanswered) {
  for (int i = 0; i < 3; ++i) pipeline_.add();
  pipeline_.resume_at(2);
  EXPECT_FALSE(pipeline_.may_resume());
  pipeline_.pop();
  EXPECT_TRUE(pipeline_.may_resume());
  pipeline_.resume_at(0);
  EXPECT_FALSE(pipeline_.may_resume());
}

TEST_F(PipelineTest, keeps_all_that_the_answer_shows) {
  pipeline_.add();
  pipeline_.add();
  keep(1, "a key of 21 bytes....", 5);
  pipeline_.pop();
  const Pipeline::Decided* const decided = pipeline_.take_first();
  ASSERT_NE(decided, nullptr);
  EXPECT_EQ(decided->kind, 5);
  const Verdicts shown = decided->verdicts();
  EXPECT_EQ(shown.entries[0].key(), "a key of 21 bytes....");
  EXPECT_EQ(shown.verdicts[0], api::Verdict::denied);
  EXPECT_EQ(shown.details[0].request_id, 1u);
}

TEST_F(PipelineTest, keeps_as_many_as_it_has_places_and_uses_these_again) {
  for (uint32_t round = 0; round < 3; ++round) {
    const uint64_t first = uint64_t{round} * Pipeline::places;
    for (uint32_t i = 0; i < Pipeline::places; ++i) {
      EXPECT_FALSE(pipeline_.is_full());
      EXPECT_EQ(pipeline_.add(), first + i);
    }
    EXPECT_TRUE(pipeline_.is_full());
    Keys expected;
    for (uint32_t i = Pipeline::places - 1; i > 0; --i) {
      keep(first + i, std::to_string(i));
      expected.insert(expected.begin(), std::to_string(i));
    }
    EXPECT_EQ(pipeline_.count(), Pipeline::places);
    pipeline_.pop();
    EXPECT_EQ(take_all(), expected);
  }
}

}  // namespace
}  // namespace sluice::session
