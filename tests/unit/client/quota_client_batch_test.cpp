// Goal: calls about quotas share frames, and go to the shard that decides them.
// Method: a fake server with a script of the frames that it reads and writes.
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "quota_scripts.hpp"

namespace sluicegate {
namespace {

using namespace std::chrono_literals;
using namespace test;

// The server holds back its first answer, so that later calls gather.
TEST(QuotaClient, calls_with_equal_terms_share_a_frame_and_settles_overtake_reserves) {
  Frames frames;
  std::promise<void> all_called;
  const FakeServer server = serve([&](Peer& peer) {
    const ReceivedFrame first = read_quota(peer);
    frames.add(first);
    all_called.get_future().wait();
    peer.write(ok(first));
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      frames.add(received);
      peer.write(ok(received));
    }
  });
  Client client{address_of(server), quick({.frames_in_flight = 1})};
  std::vector<std::future<Reservation>> reserved;
  reserved.push_back(client.reserve_future("first"));
  frames.wait_for(1);
  for (int i = 0; i < 3; ++i) {
    reserved.push_back(client.reserve_future("a", {.input_tokens = i == 2 ? 5U : 0U}));
    client.settle_async(7, {.output_tokens = 1});
  }
  reserved.push_back(client.reserve_future("b", {.lifetime_ms = 1'000}));
  all_called.set_value();
  std::vector<uint64_t> ids;
  for (auto& each : reserved) ids.push_back(each.get().detach());
  const auto received = frames.wait_for(5);
  ASSERT_EQ(received.size(), 5u);
  EXPECT_EQ(received[1].subjects.size(), 1u);  // then a settle, which a reserve must not overtake
  EXPECT_EQ(received[2].reservations.size(), 3u);
  EXPECT_EQ(received[3].subjects.size(), 2u);
  EXPECT_EQ(received[3].input_tokens, (std::vector<uint64_t>{unset, 5}));
  EXPECT_EQ(received[4].lifetime_ms, 1'000u);
  EXPECT_EQ(ids[3], reservation + 1);
}

TEST(QuotaClient, batches_are_frames_of_many_entries) {
  Frames frames;
  const FakeServer server = serve(answering_ok(frames));
  Client client{address_of(server), quick()};
  std::vector<ReserveEntry> wanted(1'500, {.subject = "gpt-4o", .input_tokens = 10});
  wanted[0].max_output_tokens = 7;
  const auto got = client.reserve_batch(wanted, {.lifetime_ms = 1'000});
  EXPECT_TRUE(got.all_admitted());
  ASSERT_EQ(got.reservations.size(), 1'500u);
  EXPECT_EQ(got.reservations[1'023], reservation + 1'023);
  EXPECT_EQ(got.reservations[1'024], reservation);
  std::vector<SettleEntry> used;
  for (const uint64_t id : got.reservations) used.push_back({id, {.output_tokens = 3}});
  EXPECT_TRUE(client.settle_batch(used).all_admitted());
  const auto received = frames.wait_for(4);
  ASSERT_EQ(received.size(), 4u);
  EXPECT_EQ(received[0].entries(), 1'024u);
  EXPECT_EQ(received[0].lifetime_ms, 1'000u);
  EXPECT_EQ(received[0].output_tokens[0], 7u);
  EXPECT_EQ(received[0].output_tokens[1], unset);
  EXPECT_EQ(received[3].output_tokens, std::vector<uint64_t>(476, 3));
}

TEST(QuotaClient, batch_reports_a_code_for_each_entry) {
  const FakeServer server = serve([](Peer& peer) {
    const ReceivedFrame received = read_quota(peer);
    peer.write(answers(received.id, 3,
                       {QuotaCode::ok, QuotaCode::rpm_exceeded, QuotaCode::draining},
                       {reservation, 0, 0}));
    peer.at_end();
  });
  Client client{address_of(server), quick()};
  const std::vector<ReserveEntry> wanted{{.subject = "a"}, {.subject = "b"}, {.subject = "c"}};
  try {
    (void)client.reserve_batch(wanted);
    FAIL() << "a draining server has not decided";
  } catch (const QuotaIncomplete& incomplete) {
    EXPECT_EQ(incomplete.outcome().codes,
              (std::vector<QuotaCode>{QuotaCode::ok, QuotaCode::rpm_exceeded, QuotaCode::none}));
    EXPECT_EQ(incomplete.outcome().reservations, (std::vector<uint64_t>{reservation, 0, 0}));
    EXPECT_EQ(incomplete.outcome().failed, 1u);
    EXPECT_EQ(incomplete.outcome().failure, Failure::draining);
  }
}

// The upper 8 bits of a reservation's id name the shard that holds it.
TEST(QuotaClient, reservations_go_to_their_shard) {
  Frames frames;
  std::mutex mutex;
  std::map<uint64_t, uint32_t> shard_of_frame;  // by reservation
  const FakeServer server{
      [&](Peer& peer) {
        const auto hello = peer.read().getHello();
        const uint32_t wanted = hello.getWantedShard();
        const uint32_t own = wanted == 0 ? 0 : wanted - 1;
        peer.write(test::welcome(4, {.own = own, .count = 2}));
        for (;;) {
          const auto frame = peer.read();
          if (frame.isPing()) {
            peer.write(test::answer(frame.getId(), [](auto answer) { answer.setPong(); }));
            continue;
          }
          const auto named = values<uint64_t>(frame.getSettle().getReservations());
          {
            const std::lock_guard lock{mutex};
            for (const uint64_t id : named) shard_of_frame[id] = own;
          }
          peer.write(answers(frame.getId(), named.size(), {QuotaCode::ok}));
        }
      },
      100};
  Client client{address_of(server), quick()};
  while (client.connections() < 2) std::this_thread::sleep_for(1ms);
  const uint64_t of_first = 5, of_second = uint64_t{1} << 49 | 5;  // a route of 2^15
  (void)client.settle(of_first);
  (void)client.settle(of_second);
  const std::vector<SettleEntry> both{{of_first + 1, {}}, {of_second + 1, {}}};
  EXPECT_TRUE(client.settle_batch(both).all_admitted());
  const std::lock_guard lock{mutex};
  EXPECT_EQ(shard_of_frame,
            (std::map<uint64_t, uint32_t>{
                {of_first, 0}, {of_second, 1}, {of_first + 1, 0}, {of_second + 1, 1}}));
}

// The shards that were asked, by the first subjects of the calls.
class AskedShards {
 public:
  void operator()(Peer& peer) {
    const uint32_t wanted = peer.read().getHello().getWantedShard();
    const uint32_t own = wanted == 0 ? 0 : wanted - 1;
    peer.write(test::welcome(4, {.own = own, .count = 2}));
    for (;;) {
      const ReceivedFrame received = read_quota(peer);
      if (received.kind == Which::PING) {
        peer.write(test::answer(received.id, [](auto answer) { answer.setPong(); }));
        continue;
      }
      if (!received.subjects.empty()) {
        const std::lock_guard lock{mutex_};
        asked_[received.subjects.front()].insert(own);
      }
      peer.write(ok(received));
    }
  }
  std::set<uint32_t> take(const std::string& first) {
    const std::lock_guard lock{mutex_};
    return std::exchange(asked_[first], {});
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::set<uint32_t>> asked_;
};

TEST(QuotaClient, calls_of_several_subjects_go_to_the_shard_of_the_first) {
  AskedShards asked;
  const FakeServer server{[&](Peer& peer) { asked(peer); }, 100};
  Client client{address_of(server), quick()};
  while (client.connections() < 2) std::this_thread::sleep_for(1ms);
  const std::vector<std::string> names{"gpt-4o", "acme", "user-17", "user-18", "eu", "claude"};
  std::map<std::string, std::set<uint32_t>> shard_of;
  std::set<uint32_t> shards;
  for (const std::string& name : names) {
    (void)client.reserve(name).detach();
    shard_of[name] = asked.take(name);
    shards.merge(std::set<uint32_t>{shard_of[name]});
  }
  ASSERT_EQ(shards.size(), 2u) << "these names are to be on both shards";
  for (const std::string& first : names) {
    for (const std::string& second : names) {
      if (first == second) continue;
      (void)client.reserve({first, second}).detach();
      (void)client.reserve_future({first, second}).get().detach();
      (void)client.lease({first, second}).detach();
      (void)client.check({first, second});
      (void)client.record({first, second});
      (void)client.consume({first, second}, {});
      EXPECT_EQ(asked.take(first), shard_of[first]) << first << ", " << second;
    }
  }
}

}  // namespace
}  // namespace sluicegate
