// A worker finds out what the other node is, connects to it, and follows it through restarts and
// replacements.
#include "peer/peer.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/log_lines.hpp"
#include "tests/unit/peer/gocc_side.hpp"
#include "tests/unit/peer/peers_fixture.hpp"

namespace sluice::peer {
namespace {

using api::Verdict;
using wire::HelloRequest;

class PeerTest : public PeersFixture {};

TEST_F(PeerTest, finds_a_node_of_ours_and_opens_a_lane_to_each_of_its_shards) {
  EXPECT_FALSE(peers_.are_known());
  ASSERT_EQ(io_.connected_to.size(), 1U);
  EXPECT_EQ(io_.connected_to[0].text(), "10.0.0.2:8080");
  const uint32_t first = connect_ours();
  EXPECT_EQ(io_.connected_to.size(), 3U);
  EXPECT_EQ(io_.connected_to[first].text(), "10.0.0.2:8081");
  for (const uint32_t shard : {0U, 1U}) {
    SentFrames frames;
    frames.feed(sent_[first + shard]);
    EXPECT_EQ(frames.body<HelloRequest>().wanted_shard_plus_one, shard + 1);
  }
  EXPECT_TRUE(peers_.are_known());
  EXPECT_TRUE(peer().is_reachable());
  EXPECT_EQ(peer().counts().links_up, 2U);
  // Keys lead to the shards that own them.
  bool has_both[2] = {};
  for (int i = 0; i < 100; ++i) {
    const std::string key = std::to_string(i);
    if (mailboxes_.nodes().owns(key)) continue;
    const uint32_t lane = target_of(key) - mailboxes_.nodes().first_target(1);
    ASSERT_LT(lane, 2U);
    has_both[lane] = true;
  }
  EXPECT_TRUE(has_both[0] && has_both[1]);
}

// What becomes of a quota call that cannot leave; these nodes have no secret.
TEST_F(PeerTest, knows_why_a_node_takes_no_quota_calls) {
  QuotaParcel parcel;
  const auto posted = [&] {
    parcel.target = mailboxes_.nodes().first_target(1);
    peer().post(parcel);
    turn();
    return parcel.failure;
  };
  EXPECT_EQ(posted(), api::NodeFailure::silent);
  connect_ours();
  EXPECT_EQ(posted(), api::NodeFailure::takes_none);
}

// What the node repeats by itself is no failure that anybody saw.
TEST_F(PeerTest, counts_failed_quota_calls_of_callers_alone) {
  QuotaParcel parcel;
  parcel.batch.calls.resize(3);
  for (const bool has_caller : {true, false, true}) {
    parcel.has_caller = has_caller;
    parcel.target = mailboxes_.nodes().first_target(1);
    peer().post(parcel);
    turn();
  }
  EXPECT_EQ(peer().counts().failed_entries, 6U);
  EXPECT_EQ(peer().counts().forwarded_entries, 0U);
}

TEST_F(PeerTest, knows_that_a_gocc_takes_no_quota_calls) {
  answer_probe("");
  QuotaParcel parcel{.batch = {}, .target = mailboxes_.nodes().first_target(1)};
  peer().post(parcel);
  turn();
  EXPECT_FALSE(parcel.is_answered);
  EXPECT_EQ(parcel.failure, api::NodeFailure::is_gocc);
}

// Messages and reasons of what is logged about the other node.
class PeerLogTest : public PeersFixture {
 protected:
  PeerLogTest() { log_.start(); }

  // It refuses connections for so long.
  void refuse_for(int64_t ms) {
    for (const int64_t end_ms = now_ms_ + ms; now_ms_ < end_ms;) {
      if (refused_ < io_.connected_to.size()) {
        event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
        refused_ = io_.connected_to.size();
      }
      turn(10);
    }
  }
  std::vector<std::string> lines() {
    std::vector<std::string> found;
    for (const log::Fields& line : log_.lines()) {
      found.push_back(line["message"].get<std::string>() + ": " + line.value("reason", ""));
    }
    return found;
  }

 private:
  support::LogLines log_;
  size_t refused_ = 0;
};

TEST_F(PeerLogTest, warns_once_of_a_node_that_was_never_there) {
  refuse_for(9'900);
  refuse_for(20'000);
  turn(1'000);
  connect_ours();
  EXPECT_EQ(lines(), (std::vector<std::string>{
                         "node not reached since the start: is its URL in --instance-urls right, "
                         "and is it up?: Connection refused",
                         "node connected: "}));
}

TEST_F(PeerLogTest, says_nothing_of_a_node_that_comes_in_time) {
  refuse_for(8'000);
  turn(1'000);
  connect_ours();
  turn(20'000);
  EXPECT_EQ(lines(), std::vector<std::string>{"node connected: "});
}

TEST_F(PeerTest, tries_again_after_pauses_that_grow) {
  std::vector<int64_t> pauses;
  for (int tries = 0; tries < 8; ++tries) {
    event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
    turn();
    const size_t count = io_.connected_to.size();
    int64_t pause = 0;
    for (; io_.connected_to.size() == count && pause < 5'000; pause += 10) turn(10);
    pauses.push_back(pause);
  }
  EXPECT_LE(pauses.front(), 160);
  for (const int64_t pause : pauses) EXPECT_LE(pause, 1'100);
  EXPECT_GE(pauses.back(), 500);
}

TEST_F(PeerTest, tries_soon_while_it_owes_the_other_node_something) {
  QuotaParcel owed{.batch = {}, .target = mailboxes_.nodes().first_target(1)};
  owed.has_caller = false;
  for (int tries = 0; tries < 8; ++tries) {
    event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
    peer().post(owed);
    turn();
    const size_t count = io_.connected_to.size();
    int64_t pause = 0;
    for (; io_.connected_to.size() == count && pause < 5'000; pause += 10) turn(10);
    EXPECT_LE(pause, 110);
  }
}

// "localhost" is ::1 and 127.0.0.1, and the node may listen on either.
class PeerWithTwoAddresses : public PeerTest {
 protected:
  PeerWithTwoAddresses() {
    addresses_.set(1, std::array{*io::PeerAddress::parse("10.0.0.2:8080"),
                                 *io::PeerAddress::parse("10.0.0.3:8080")});
  }
  // Until the next connection begins.
  std::string next_address() {
    const size_t count = io_.connected_to.size();
    for (int tries = 0; io_.connected_to.size() == count && tries < 500; ++tries) turn(10);
    return io_.connected_to.back().text();
  }
};

TEST_F(PeerWithTwoAddresses, a_probe_that_fails_is_followed_by_one_of_the_other) {
  event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
  turn();
  EXPECT_EQ(next_address(), "10.0.0.3:8080");
  const uint32_t first = connect_ours();
  EXPECT_TRUE(peer().is_reachable());
  EXPECT_EQ(io_.connected_to[first].text(), "10.0.0.3:8081");
  // It is found where it was.
  lose(first);
  EXPECT_EQ(next_address(), "10.0.0.3:8080");
}

TEST_F(PeerWithTwoAddresses, a_silent_one_is_left_too) {
  event(event_of(last_socket(), io::EventKind::connected));
  const size_t count = io_.connected_to.size();
  turn(fleet(base::PeerFailure::error).silence_ms);
  for (int turns = 0; turns < 5 && io_.connected_to.size() == count; ++turns) turn();
  EXPECT_EQ(io_.connected_to.back().text(), "10.0.0.3:8080");
}

TEST_F(PeerWithTwoAddresses, a_lane_that_does_not_open_is_followed_by_the_other) {
  answer_probe(header_of({.native_port = 8081, .shards = 1, .instance = 5}));
  ASSERT_EQ(io_.connected_to.back().text(), "10.0.0.2:8081");
  event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
  turn();
  EXPECT_EQ(next_address(), "10.0.0.3:8080");
}

TEST_F(PeerWithTwoAddresses, a_gocc_that_falls_silent_is_tried_where_it_was) {
  event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
  turn();
  EXPECT_EQ(next_address(), "10.0.0.3:8080");
  answer_probe("");
  GoccSide gocc(last_socket());
  event(event_of(gocc.socket, io::EventKind::connected));
  turn();
  ASSERT_TRUE(peer().is_reachable());
  finish_send(gocc.socket);
  std::string settings = gocc.http.output();
  event(received_event(gocc.socket, std::as_writable_bytes(std::span(settings))));
  send(key_of_the_other());
  turn();
  finish_send(gocc.socket);
  for (int turns = 0; turns < 500 && peer().is_reachable(); ++turns) turn(10);
  ASSERT_FALSE(peer().is_reachable());
  EXPECT_EQ(next_address(), "10.0.0.3:8080");
}

TEST_F(PeerWithTwoAddresses, both_are_tried_within_the_time_of_one) {
  for (int tries = 0; tries < 8; ++tries) {
    event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
    turn();
    next_address();
  }
  event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
  turn();
  const int64_t begin_ms = now_ms_;
  next_address();
  event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
  turn();
  next_address();
  EXPECT_LE(now_ms_ - begin_ms, 1'200);
}

TEST_F(PeerTest, tries_again_soon_while_its_keys_are_asked_for) {
  for (int tries = 0; tries < 8; ++tries) {
    event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
    turn();
    for (int i = 0; i < 200; ++i) turn(10);
  }
  event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
  turn(100);
  const size_t count = io_.connected_to.size();
  send(key_of_the_other());
  turn();
  turn(100);
  turn();
  EXPECT_EQ(io_.connected_to.size(), count + 1);
}

TEST_F(PeerTest, a_lost_lane_is_replaced_after_another_probe) {
  const uint32_t first = connect_ours();
  lose(first + 1);
  EXPECT_FALSE(peer().is_reachable());
  turn(100);
  turn(100);
  ASSERT_EQ(io_.connected_to.size(), 4U);
  answer_probe(header_of({.native_port = 8081, .shards = 2, .instance = 5}));
  ASSERT_EQ(io_.connected_to.size(), 5U);  // only that lane
  greet(4, {.shard = 1, .shards = 2, .routing_seed = 7, .instance_id = 5});
  EXPECT_TRUE(peer().is_reachable());
  EXPECT_EQ(peer().counts().links_lost, 1U);
}

TEST_F(PeerTest, all_lanes_are_replaced_when_the_node_was_restarted) {
  const uint32_t first = connect_ours(5);
  lose(first + 1);
  turn(100);
  turn(100);
  answer_probe(header_of({.native_port = 8081, .shards = 1, .instance = 6}));
  turn();
  turn(100);
  turn(100);
  answer_probe(header_of({.native_port = 8081, .shards = 1, .instance = 6}));
  greet(last_socket(), {.shard = 0, .shards = 1, .routing_seed = 9, .instance_id = 6});
  EXPECT_TRUE(peer().is_reachable());
  EXPECT_EQ(peer().counts().links_up, 1U);
  for (int i = 0; i < 100; ++i) {
    const std::string key = std::to_string(i);
    if (mailboxes_.nodes().owns(key)) continue;
    EXPECT_EQ(target_of(key), mailboxes_.nodes().first_target(1));
  }
}

// Its entries are decided in the order in which they were sent.
TEST_F(PeerTest, a_key_changes_its_lane_when_its_entries_have_their_answers) {
  answer_probe(header_of({.native_port = 8081, .shards = 2, .instance = 5}));
  const uint32_t first = last_socket() - 1;
  greet(first, {.shard = 0, .shards = 2, .routing_seed = 7, .instance_id = 5});
  const route::TargetId first_target = mailboxes_.nodes().first_target(1);
  sent_[first].clear();
  finish_send(first);
  const std::string key = key_of_the_other();
  EXPECT_EQ(target_of(key), first_target);
  send(key);
  turn();
  greet(first + 1, {.shard = 1, .shards = 2, .routing_seed = 7, .instance_id = 5});
  EXPECT_EQ(target_of(key), first_target);
  EXPECT_FALSE(mailboxes_.target(first_target).has_room(1, 1)) << "until it has its answer";
  mailboxes_.await_room(first_target);
  SentFrames frames;
  frames.feed(sent_[first]);
  Words words = verdicts_words(frames.id<wire::ForwardRequest>(), {Verdict::approved});
  event(received_event(first, std::as_writable_bytes(std::span(words))));
  turn();
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::approved});
  EXPECT_TRUE(mailboxes_.target(first_target).has_room(1, 1));
  EXPECT_TRUE(mailboxes_.take_room_made());
  EXPECT_TRUE(mailboxes_.nodes().has_shards(1, 2, 7));
}

TEST_F(PeerTest, a_lane_that_is_lost_holds_no_keys) {
  answer_probe(header_of({.native_port = 8081, .shards = 2, .instance = 5}));
  const uint32_t first = last_socket() - 1;
  greet(first, {.shard = 0, .shards = 2, .routing_seed = 7, .instance_id = 5});
  send(key_of_the_other());
  turn();
  greet(first + 1, {.shard = 1, .shards = 2, .routing_seed = 7, .instance_id = 5});
  lose(first + 1);
  const route::TargetId first_target = mailboxes_.nodes().first_target(1);
  EXPECT_TRUE(mailboxes_.target(first_target).has_room(1, 1));
}

// Else keys would lead to shards to which there is no lane.
TEST_F(PeerTest, a_node_that_was_restarted_after_the_probe_is_probed_again) {
  answer_probe(header_of({.native_port = 8081, .shards = 1, .instance = 5}));
  greet(last_socket(), {.shard = 0, .shards = 4, .routing_seed = 7, .instance_id = 6});
  EXPECT_FALSE(peer().is_reachable());
  for (int i = 0; i < 100; ++i) {
    const std::string key = std::to_string(i);
    if (!mailboxes_.nodes().owns(key)) send(key);
  }
  turn();
  turn(100);
  turn(100);
  answer_probe(header_of({.native_port = 8081, .shards = 2, .instance = 6}));
  const uint32_t first = last_socket() - 1;
  greet(first, {.shard = 0, .shards = 2, .instance_id = 6});
  greet(first + 1, {.shard = 1, .shards = 2, .instance_id = 6});
  EXPECT_TRUE(peer().is_reachable());
}

TEST_F(PeerTest, a_node_whose_lanes_end_at_once_is_not_asked_all_the_time) {
  size_t tries = 0;
  for (int64_t begin = now_ms_; now_ms_ < begin + 10'000; ++tries) {
    answer_probe(header_of({.native_port = 8081, .shards = 1, .instance = 5}));
    event(event_of(last_socket(), io::EventKind::failed, -ECONNREFUSED));
    const size_t count = io_.connected_to.size();
    while (io_.connected_to.size() == count && now_ms_ < begin + 20'000) turn(10);
  }
  EXPECT_LT(tries, 30U);
}

TEST_F(PeerTest, a_gocc_takes_the_place_of_ours_and_ours_that_of_the_gocc) {
  const uint32_t first = connect_ours();
  lose(first);
  lose(first + 1);
  turn(100);
  turn(100);
  answer_probe("");
  GoccSide gocc(last_socket());
  event(event_of(gocc.socket, io::EventKind::connected));
  turn();
  EXPECT_TRUE(peer().is_reachable());
  EXPECT_EQ(target_of(key_of_the_other()), mailboxes_.nodes().first_target(1));
  finish_send(gocc.socket);
  std::string settings = gocc.http.output();
  event(received_event(gocc.socket, std::as_writable_bytes(std::span(settings))));
  send(key_of_the_other());
  turn();
  gocc.http.receive(sent_[gocc.socket]);
  ASSERT_EQ(gocc.http.requests().size(), 1U);
  gocc.http.answer(1, "200", "3");
  std::string answer = gocc.http.output();
  event(received_event(gocc.socket, std::as_writable_bytes(std::span(answer))));
  turn();
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::approved});

  lose(gocc.socket);
  EXPECT_FALSE(peer().is_reachable());
  turn(100);
  turn(100);
  connect_ours(6);
  EXPECT_TRUE(peer().is_reachable());
  EXPECT_EQ(peer().counts().links_up, 2U);
}

class PeerLocalTest : public PeersFixture {
 protected:
  PeerLocalTest() : PeersFixture(base::PeerFailure::local) {}
};

TEST_F(PeerLocalTest, this_node_stands_in_while_the_other_one_is_away) {
  const std::string key = key_of_the_other();
  event(event_of(0, io::EventKind::failed, -ECONNREFUSED));
  turn();
  EXPECT_EQ(target_of(key), 0);
  turn(200);
  turn(200);
  const uint32_t first = connect_ours();
  EXPECT_NE(target_of(key), 0);
  event(event_of(first, io::EventKind::end_of_stream));
  event(event_of(first + 1, io::EventKind::end_of_stream));
  turn();
  EXPECT_EQ(target_of(key), 0);
}

}  // namespace
}  // namespace sluice::peer
