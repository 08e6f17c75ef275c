// Goal: every verdict is counted, by the short way and by the library alike. Method: answers of our
// own encoder and of the Cap'n Proto library, whole, cut short, and of other shapes.
#include "load/verdict_tally.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/client/fake_server.hpp"
#include "wire/capnp_codec.hpp"

namespace sluice::load {
namespace {

using sluicegate::Verdict;

std::vector<uint64_t> words_of(const std::string& bytes) {
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

std::vector<uint64_t> server_answer(uint64_t id, const std::vector<api::Verdict>& verdicts) {
  const auto count = static_cast<uint32_t>(verdicts.size());
  std::vector<uint64_t> words(wire::verdicts_bytes_max(count, 0) / sizeof(uint64_t) + 1);
  const size_t bytes =
      wire::encode_verdicts(id, verdicts, {}, 0, std::as_writable_bytes(std::span{words}));
  words.resize(bytes / sizeof(uint64_t));
  return words;
}

TEST(VerdictTally, recognises_our_servers_answers) {
  VerdictTally tally;
  const auto all_agree = server_answer(7, std::vector(300, api::Verdict::approved));
  auto mixed_verdicts = std::vector(300, api::Verdict::approved);
  mixed_verdicts[3] = mixed_verdicts[299] = api::Verdict::denied;
  mixed_verdicts[4] = api::Verdict::table_full;
  const auto mixed = server_answer(8, mixed_verdicts);

  const auto first = tally.next(all_agree);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, 7u);
  EXPECT_EQ(first->entries, 300u);
  EXPECT_EQ(first->words, all_agree.size());
  ASSERT_TRUE(tally.next(mixed));
  EXPECT_EQ(tally.library_frames(), 0u) << "the short way did not recognise the server's frames";
  EXPECT_EQ(tally.count(Verdict::approved), 300u + 297);
  EXPECT_EQ(tally.count(Verdict::denied), 2u);
  EXPECT_EQ(tally.count(Verdict::table_full), 1u);
  EXPECT_EQ(tally.decisions(), 600u);
}

TEST(VerdictTally, counts_other_shapes_through_the_library) {
  VerdictTally tally;
  const auto answer = words_of(sluicegate::test::answer(
      3,
      [](auto frame) {
        auto to = frame.initVerdicts();
        to.setCount(3);
        const std::vector<uint8_t> column{1, 2, 2};
        to.setVerdicts(kj::arrayPtr(column.data(), column.size()));
        to.initDetails().initLimit(3);
      },
      8));
  const auto counted = tally.next(answer);
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->words, answer.size());
  EXPECT_EQ(tally.library_frames(), 1u);
  EXPECT_EQ(tally.count(Verdict::denied), 2u);
}

TEST(VerdictTally, counts_what_was_decoded_already) {
  VerdictTally tally;
  tally.add(std::vector{Verdict::denied});
  tally.add(std::vector{Verdict::approved, Verdict::denied, Verdict::table_full});
  EXPECT_EQ(tally.count(Verdict::approved), 1u);
  EXPECT_EQ(tally.count(Verdict::denied), 2u);
  EXPECT_EQ(tally.count(Verdict::table_full), 1u);
  EXPECT_EQ(tally.decisions(), 4u);
  EXPECT_EQ(tally.frames(), 2u);
}

TEST(VerdictTally, waits_for_the_rest_at_every_word) {
  const auto answer = server_answer(1, {api::Verdict::approved, api::Verdict::denied});
  for (size_t words = 0; words < answer.size(); ++words) {
    VerdictTally tally;
    EXPECT_FALSE(tally.next(std::span{answer}.first(words))) << words;
    EXPECT_EQ(tally.decisions(), 0u);
  }
}

TEST(VerdictTally, counts_refused_frames_and_keeps_the_first_reason) {
  VerdictTally tally;
  for (const char* reason : {"first", "second"}) {
    const auto counted = tally.next(words_of(
        sluicegate::test::error(5, sluicegate::test::schema::ErrorCode::BAD_COST, reason)));
    ASSERT_TRUE(counted);
    EXPECT_TRUE(counted->refused);
  }
  EXPECT_EQ(tally.refusals(), 2u);
  EXPECT_EQ(tally.refusal_text(), "first");
}

TEST(VerdictTally, an_error_of_the_connection_ends_the_run) {
  VerdictTally tally;
  const auto error = words_of(
      sluicegate::test::error(0, sluicegate::test::schema::ErrorCode::TOO_MANY_OUTSTANDING, ""));
  EXPECT_THROW(tally.next(error), sluicegate::Refused);
}

TEST(VerdictTally, a_shutdown_or_an_answer_of_another_kind_ends_the_run) {
  VerdictTally tally;
  const auto go_away =
      words_of(sluicegate::test::answer(0, [](auto frame) { frame.initGoAway(); }));
  EXPECT_THROW(tally.next(go_away), sluicegate::ConnectionLost);
  const auto done = words_of(sluicegate::test::answer(1, [](auto frame) { frame.setDone(); }));
  EXPECT_THROW(tally.next(done), sluicegate::ProtocolError);
}

}  // namespace
}  // namespace sluice::load
