// Goal: a /rate request becomes the entry that the server's options demand, and its ticket is
//       always freed.
// Method: entries added to a turn of a context without a worker.
#include "session/rest_decision.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {
namespace {

api::Entry acquire(const std::string& key, uint8_t flags = 0) {
  return {.key_data = key.data(), .key_bytes = static_cast<uint16_t>(key.size()), .flags = flags};
}

class RestDecisionTest : public ::testing::Test {
 protected:
  const api::Entry& add(const api::Entry& asked, const api::Overrides& overrides = {}) {
    return add_decision(context_, {.session = 7}, {.entry = asked, .overrides = overrides}, log_,
                        tickets_, {.session = 7, .entry_index = 3});
  }

  KeepingBackend backend_;
  TicketShare tickets_;
  Context context_{backend_, {.waiters_max = 2, .wait_ms_max = 500}};
  std::vector<char> log_memory_ = std::vector<char>(RequestLog::memory_bytes);
  RequestLog log_{log_memory_, {}};
  const std::string key_ = "k";
};

TEST_F(RestDecisionTest, joins_the_turn) {
  const api::Entry& entry = add(acquire(key_, api::flag::wants_details | api::flag::shows_id));
  EXPECT_EQ(entry.key(), "k");
  EXPECT_EQ(entry.flags, api::flag::wants_details | api::flag::shows_id);
  EXPECT_EQ(entry.ticket, api::no_ticket);
  ASSERT_EQ(context_.turn.requests().size(), 1u);
  EXPECT_EQ(context_.turn.requests()[0].session, 7u);
}

TEST_F(RestDecisionTest, takes_its_overrides_along) {
  EXPECT_EQ(add(acquire(key_)).given_overrides, nullptr);
  const api::Overrides given{.max_requests = 5, .window_ms = 60'000};
  EXPECT_EQ(add(acquire(key_), given).overrides(), given);
}

TEST_F(RestDecisionTest, waits_no_longer_than_the_server_allows) {
  api::Entry asked = acquire(key_);
  EXPECT_EQ(add(asked).wait_ms_max, 500u);
  asked.wait_ms_max = 400;
  EXPECT_EQ(add(asked).wait_ms_max, 400u);
  asked.wait_ms_max = 600;
  EXPECT_EQ(add(asked).wait_ms_max, 500u);
}

TEST_F(RestDecisionTest, takes_a_ticket_when_it_may_wait) {
  const api::Entry entry = add(acquire(key_, api::flag::may_wait));
  ASSERT_NE(entry.ticket, api::no_ticket);
  EXPECT_EQ(context_.waits[entry.ticket].session, 7u);
  EXPECT_EQ(context_.waits[entry.ticket].entry_index, 3u);
  free_or_abandon(context_, tickets_, WaitsFor::permits, entry.ticket, /*is_queued=*/false);
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  EXPECT_TRUE(backend_.abandoned.empty());
}

TEST_F(RestDecisionTest, takes_no_more_tickets_than_it_leaves_places) {
  ASSERT_NE(add(acquire(key_, api::flag::may_wait)).ticket, api::no_ticket);
  const api::Entry entry = add(acquire(key_, api::flag::may_wait));
  EXPECT_EQ(entry.ticket, api::no_ticket);
  EXPECT_EQ(entry.flags, api::flag::may_wait | api::flag::connection_waiters_full);
}

TEST_F(RestDecisionTest, abandons_entry_queued_after_client_left) {
  const api::Entry entry = add(acquire(key_, api::flag::may_wait));
  free_or_abandon(context_, tickets_, WaitsFor::permits, entry.ticket, /*is_queued=*/true);
  EXPECT_EQ(backend_.abandoned, std::vector{entry.ticket});
}

TEST_F(RestDecisionTest, keeps_a_decoded_key_until_the_turn_is_executed) {
  const std::span<char> room = context_.text.room();
  std::memcpy(room.data(), "abc", 3);
  api::Entry asked;
  asked.key_data = room.data();
  asked.key_bytes = 3;
  add(asked);
  EXPECT_EQ(context_.text.room().data(), room.data() + 3);
}

TEST_F(RestDecisionTest, recognizes_release_of_unknown_key) {
  api::Entry release = acquire(key_);
  release.op = api::Op::release;
  EXPECT_FALSE(is_of_unknown_key(release, {.limit = 0})) << "no details were asked for";
  release.flags = api::flag::wants_details;
  EXPECT_TRUE(is_of_unknown_key(release, {.limit = 0}));
  EXPECT_FALSE(is_of_unknown_key(release, {.limit = 1}));
  EXPECT_FALSE(is_of_unknown_key(acquire(key_, api::flag::wants_details), {.limit = 0}));
}

}  // namespace
}  // namespace sluice::session
