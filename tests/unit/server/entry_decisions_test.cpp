// Goal: every entry of a turn is decided by its owner; a request that is split over shards is
//       delivered when its last answer has returned; entries that show ids take them; an ended
//       session leaves no ticket.
// Method: two shards in one thread, each with a real table of keys. The sessions of the requests
//         have ended; the tickets and ids show what is delivered.
#include "server/entry_decisions.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "route/entry_router.hpp"
#include "server/worker_group.hpp"
#include "shard/key_shard.hpp"
#include "tests/unit/server/fake_quotas.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::server {
namespace {

using api::Verdict;

const shard::Options one_permit{
    .keys_max = 100, .waiters_max = 10, .policy = {.window_ms = 60'000, .max_requests = 1}};

// One shard: the part of a worker that entries pass through.
class Side {
 public:
  Side(WorkerGroup& worker_group, api::ShardId shard)
      : mailboxes(worker_group.mesh(), shard),
        quotas(asked, shard),
        options{.waiters_max = 10, .shard = shard},
        decisions(context, sessions, router.book(), waiters, keys, worker_group.ids()) {}

  // A request of an ended session: an entry for each key, which may wait.
  void ask(const std::vector<std::string>& names, uint8_t flags = 0) {
    std::string text;
    std::vector<uint16_t> sizes;
    for (const std::string& name : names) {
      text += name;
      sizes.push_back(static_cast<uint16_t>(name.size()));
    }
    ASSERT_TRUE(router.find_room({.text = text, .sizes = sizes}, route::Form::detailed));
    const auto entries = context.turn.add({.id = 1}, static_cast<uint32_t>(names.size()));
    for (size_t place = 0; place < names.size(); ++place) {
      entries[place] = {.key_data = names[place].data(),
                        .key_bytes = static_cast<uint16_t>(names[place].size()),
                        .flags = static_cast<uint8_t>(api::flag::may_wait | flags),
                        .ticket = context.waits.take(0, 0, session::WaitsFor::permits)};
    }
    router.send_last();
  }
  void turn() {
    mailboxes.receive(*this);
    mailboxes.flush();
  }
  void on_message(api::ShardId origin, route::ShardMessage& message) {
    for (route::Notice& notice : message.notices) waiters.on_notice(origin, notice);
    decisions.decide_for(origin, message);
    const auto decided = message.verdicts(0, message.entries_count());
    verdicts.insert(verdicts.end(), decided.begin(), decided.end());
  }
  void on_returned(api::ShardId target, route::ShardMessage& message) {
    for (const route::Notice& notice : message.notices) waiters.on_notice_returned(notice);
    decisions.on_returned(target, message);
  }
  uint32_t tickets() const { return context.waits.tickets_count(); }

  std::vector<Verdict> verdicts;  // on entries of other shards' connections
  route::Mailboxes mailboxes;
  shard::KeyShard keys{one_permit};
  FakeQuotas::Asked asked;
  FakeQuotas quotas;
  session::KeepingBackend backend;
  const session::Options options;
  session::Context context{backend, options};
  route::EntryRouter router{mailboxes, context.turn, {}, 100};
  SessionTable sessions{{.sockets_max = 1, .key_bytes_max = 64, .shards = 1}};
  WaiterDelivery waiters{context, sessions, mailboxes, keys, quotas, 10};
  EntryDecisions decisions;
};

class EntryDecisionsTest : public ::testing::Test {
 protected:
  std::string key_of(uint32_t shard) {
    std::string key;
    while (key.empty() || here_.mailboxes.shard_of(key) != shard) {
      key = "key" + std::to_string(next_key_++);
    }
    return key;
  }

  WorkerGroup worker_group_{{.shards = 2}};
  Side here_{worker_group_, 0};
  Side other_{worker_group_, 1};
  int next_key_ = 0;
};

TEST_F(EntryDecisionsTest, decides_own_entries_at_once_and_frees_their_tickets) {
  const std::vector<std::string> keys{key_of(0), key_of(0)};
  here_.ask(keys);
  here_.decisions.execute();
  EXPECT_TRUE(here_.context.turn.empty());
  EXPECT_EQ(here_.keys.keys_count(), 2U);
  EXPECT_EQ(here_.tickets(), 0U);
  EXPECT_TRUE(here_.mailboxes.idle());
}

TEST_F(EntryDecisionsTest, abandons_waiter_of_ended_session) {
  const std::vector<std::string> keys(2, key_of(0));
  here_.ask(keys);
  here_.decisions.execute();
  EXPECT_EQ(here_.keys.statistics().decisions[static_cast<size_t>(Verdict::queued)], 1U);
  EXPECT_EQ(here_.keys.waiters_count(), 0U);
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(EntryDecisionsTest, split_request_completes_with_its_last_answer) {
  const std::vector<std::string> keys{key_of(0), key_of(1)};
  here_.ask(keys);
  here_.decisions.execute();
  EXPECT_EQ(here_.router.book().open_count(), 1U);
  EXPECT_EQ(here_.tickets(), 2U);
  here_.turn();
  other_.turn();
  EXPECT_EQ(other_.verdicts, std::vector<Verdict>{Verdict::approved});
  EXPECT_EQ(here_.router.book().open_count(), 1U);
  here_.turn();
  EXPECT_EQ(here_.router.book().open_count(), 0U);
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(EntryDecisionsTest, abandons_waiter_at_another_shard_by_notice) {
  const std::vector<std::string> keys(2, key_of(1));
  here_.ask(keys);
  here_.decisions.execute();
  for (int turn = 0; turn < 2; ++turn) {
    here_.turn();
    other_.turn();
  }
  EXPECT_EQ(other_.keys.waiters_count(), 0U);
  here_.turn();
  EXPECT_EQ(here_.tickets(), 0U);
}

TEST_F(EntryDecisionsTest, answers_draining_to_entries_of_another_shard) {
  const std::vector<std::string> keys(2, key_of(1));
  other_.context.draining = true;
  here_.ask(keys);
  here_.decisions.execute();
  here_.turn();
  other_.turn();
  EXPECT_EQ(other_.verdicts, (std::vector<Verdict>{Verdict::approved, Verdict::draining}));
}

// Those of entries that have all gone to other shards.
TEST_F(EntryDecisionsTest, frees_the_room_of_decoded_keys_though_the_turn_is_empty) {
  const size_t room = here_.context.text.room().size();
  here_.context.text.commit(100);
  here_.decisions.execute();
  EXPECT_EQ(here_.context.text.room().size(), room);
}

TEST_F(EntryDecisionsTest, takes_an_id_for_each_entry_that_shows_one) {
  const std::vector<std::string> keys{key_of(0), key_of(0), key_of(0)};
  const std::vector<std::string> hidden{key_of(0)};
  here_.ask(keys, api::flag::shows_id);
  here_.ask(hidden);
  here_.decisions.execute();
  EXPECT_EQ(worker_group_.ids().take(1), 4U);
}

TEST_F(EntryDecisionsTest, a_split_request_takes_its_ids_when_it_is_complete) {
  const std::vector<std::string> keys{key_of(0), key_of(1)};
  here_.ask(keys, api::flag::shows_id);
  here_.decisions.execute();
  EXPECT_EQ(worker_group_.ids().take(1), 1U);
  here_.turn();
  other_.turn();
  here_.turn();
  EXPECT_EQ(worker_group_.ids().take(1), 4U);
}

}  // namespace
}  // namespace sluice::server
