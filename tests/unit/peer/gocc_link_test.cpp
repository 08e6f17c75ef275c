// A message to a gocc becomes requests, over as many connections as they need; what gocc cannot
// answer is not asked. The test is the gocc.
#include "peer/gocc_link.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/unit/peer/gocc_side.hpp"
#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {
namespace {

using api::Verdict;

class GoccLinkTest : public PeerFixture {
 protected:
  explicit GoccLinkTest(const FleetOptions& options = fleet(), uint32_t waiters = waiters_max)
      : PeerFixture(options, waiters) {
    link_.connect(*io::PeerAddress::parse("10.0.0.2:8080"));
  }
  ~GoccLinkTest() override {
    link_.lose("the test is over");
    for (uint32_t socket = 0; socket < io_.connected_to.size(); ++socket) close(socket);
    link_.go_on();
    deliver(target_);
  }

  // To whoever has the socket, as Peers does it.
  void event(const io::Event& event) {
    SocketUser* const user = context_.user_of(event.socket.index);
    if (user == nullptr) return;
    user->on_event(event);
    if (event.kind == io::EventKind::closed) context_.free(event.socket.index);
  }
  void close(uint32_t socket) { event(event_of(socket, io::EventKind::closed)); }
  void open() {
    event(event_of(0, io::EventKind::connected));
    link_.go_on();
    ASSERT_TRUE(link_.is_open());
    exchange();
  }
  void exchange(uint32_t socket = 0) {
    do {
      context_.has_changed = false;
      link_.go_on();
      exchange_with(goccs_[socket], io_, context_, [this](const io::Event& one) { event(one); });
    } while (context_.has_changed);
    link_.go_on();
  }
  const support::Http2Server::Request& request(size_t n) { return goccs_[0].http.request(n); }
  size_t requests_count(uint32_t gocc = 0) { return goccs_[gocc].http.requests().size(); }
  void answer(size_t n, std::string_view status, std::string_view body = {}) {
    goccs_[0].http.answer(request(n).stream, status, body);
    exchange();
  }
  void pass(int64_t ms) {
    context_.now_ms += ms;
    link_.on_tick();
    exchange();
  }

  PeerTarget target_{1, context_, counts_};
  GoccLink link_{context_, memory_, 0, 1, "10.0.0.2:8080", target_};
  std::array<GoccSide, 4> goccs_{GoccSide(0), GoccSide(1), GoccSide(2), GoccSide(3)};
};

TEST_F(GoccLinkTest, asks_for_each_entry_and_brings_the_answers) {
  open();
  EXPECT_EQ(counts_.links_up, 1U);
  send(target_, std::vector<std::string>{"a", "b", "c"});
  exchange();
  ASSERT_EQ(requests_count(), 3U);
  EXPECT_EQ(request(1).path(), "/rate/b?ik=true");
  answer(2, "403");
  answer(0, "200", "77");
  EXPECT_EQ(delivered_.messages, 0);
  answer(1, "429");
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(),
            (std::vector{Verdict::approved, Verdict::denied, Verdict::not_allowed}));
  EXPECT_EQ(delivered_.answers[0].detail.request_id, 77U);
  EXPECT_TRUE(target_.idle());
}

TEST_F(GoccLinkTest, the_correlation_id_of_a_caller_goes_along) {
  open();
  api::Entry entry = entry_of("key");
  const api::Overrides overrides{.correlation_id = "c-17"};
  entry.given_overrides = &overrides;
  send(target_, std::vector{entry, entry_of("key")});
  exchange();
  EXPECT_EQ(request(0).fields.at("x-correlation-id"), "c-17");
  EXPECT_FALSE(request(1).fields.contains("x-correlation-id"));
  answer(0, "200");
  answer(1, "200");
  deliver(target_);
}

TEST_F(GoccLinkTest, does_not_ask_what_gocc_would_misunderstand) {
  open();
  api::Entry look = entry_of("look"), dear = entry_of("dear"), windowed = entry_of("windowed");
  look.op = api::Op::look;
  dear.cost = 5;
  const api::Overrides overrides{.window_ms = 7};
  windowed.given_overrides = &overrides;
  send(target_, std::vector{look, entry_of("asked"), dear, windowed});
  exchange();
  ASSERT_EQ(requests_count(), 1U);
  EXPECT_EQ(request(0).path(), "/rate/asked?ik=true");
  answer(0, "200");
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(),
            (std::vector{Verdict::owner_unreachable, Verdict::approved, Verdict::owner_unreachable,
                         Verdict::owner_unreachable}));
  for (const size_t refused : {0U, 2U, 3U}) {
    EXPECT_EQ(delivered_.answers[refused].detail.unfit_owner_plus_one, 2U) << "node 1";
  }
  EXPECT_EQ(delivered_.answers[1].detail.unfit_owner_plus_one, 0U);
}

TEST_F(GoccLinkTest, an_entry_that_may_wait_is_queued_until_its_answer) {
  open();
  send(target_, std::vector{waiting_entry("waits", 41)});
  exchange();
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), std::vector{Verdict::queued});
  EXPECT_EQ(request(0).path(), "/rate/waits?ik=true&canWait=true");
  EXPECT_TRUE(delivered_.grants.empty());
  answer(0, "200", "9");
  deliver(target_);
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].ticket, 41U);
  EXPECT_EQ(delivered_.grants[0].verdict, Verdict::approved);
  EXPECT_EQ(delivered_.grants[0].detail.request_id, 9U);
  EXPECT_EQ(context_.waiters.used(), 0U);
}

TEST_F(GoccLinkTest, a_wait_limit_is_enforced_here) {
  open();
  send(target_, std::vector{waiting_entry("waits", 41, 250)});
  exchange();
  deliver(target_);
  pass(249);
  EXPECT_FALSE(request(0).reset);
  pass(1);
  EXPECT_EQ(request(0).reset, NGHTTP2_CANCEL);
  deliver(target_);
  ASSERT_EQ(delivered_.grants.size(), 1U);
  EXPECT_EQ(delivered_.grants[0].verdict, Verdict::wait_limit);
}

TEST_F(GoccLinkTest, a_client_that_leaves_ends_its_request) {
  open();
  send(target_, std::vector{waiting_entry("waits", 41)});
  exchange();
  deliver(target_);
  route::Notice notice;
  notice.kind = route::Notice::Kind::abandon;
  notice.waiter = delivered_.answers[0].waiter;
  notice.ticket = 41;
  target_.post(notice);
  EXPECT_TRUE(target_.flush());
  exchange();
  EXPECT_EQ(request(0).reset, NGHTTP2_CANCEL);
  deliver(target_);
  EXPECT_EQ(delivered_.grants.at(0).verdict, Verdict::withdrawn);
  target_.post(notice);  // its outcome has come
  EXPECT_TRUE(target_.flush());
}

TEST_F(GoccLinkTest, waiters_beyond_all_places_are_unreachable) {
  open();
  std::vector<api::Entry> entries;
  for (uint32_t i = 0; i <= waiters_max; ++i) entries.push_back(waiting_entry("waits", i));
  send(target_, entries);
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts().back(), Verdict::owner_unreachable);
  EXPECT_EQ(context_.waiters.used(), waiters_max);
}

TEST_F(GoccLinkTest, what_was_not_processed_is_asked_again_over_another_connection) {
  open();
  send(target_, std::vector<std::string>{"a", "b"});
  exchange();
  goccs_[0].http.go_away(1);
  exchange();
  ASSERT_EQ(io_.connected_to.size(), 2U);
  event(event_of(1, io::EventKind::connected));
  link_.go_on();
  exchange(1);
  ASSERT_EQ(requests_count(1), 1U);
  EXPECT_EQ(goccs_[1].http.request(0).path(), "/rate/b?ik=true");
  EXPECT_EQ(counts_.failed_entries, 0U);
}

TEST_F(GoccLinkTest, is_lost_with_its_first_connection) {
  open();
  send(target_, std::vector{entry_of("a"), waiting_entry("waits", 41)});
  exchange();
  event(event_of(0, io::EventKind::end_of_stream));
  close(0);
  link_.go_on();
  EXPECT_FALSE(link_.is_open());
  EXPECT_TRUE(link_.is_closed());
  EXPECT_EQ(link_.why_lost(), "the connection has ended");
  EXPECT_FALSE(target_.is_connected());
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), (std::vector{Verdict::owner_unreachable, Verdict::queued}));
  EXPECT_EQ(delivered_.grants.at(0).verdict, Verdict::owner_unreachable);
  EXPECT_EQ(counts_.links_lost, 1U);
  EXPECT_TRUE(target_.idle());
}

TEST_F(GoccLinkTest, entries_that_no_stream_has_taken_are_unreachable_when_it_is_lost) {
  open();
  send(target_, std::vector<std::string>(600, "key"));
  exchange();
  link_.lose("gone");
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(600, Verdict::owner_unreachable));
  EXPECT_FALSE(link_.is_closed());
  close(0);
  close(1);
  link_.go_on();
  EXPECT_TRUE(link_.is_closed());
}

TEST_F(GoccLinkTest, another_connection_is_lost_with_its_own_requests) {
  open();
  send(target_, std::vector<std::string>(300, "key"));
  exchange();
  event(event_of(1, io::EventKind::connected));
  exchange(1);
  ASSERT_EQ(requests_count(1), 50U);
  event(event_of(1, io::EventKind::failed, -ECONNRESET));
  close(1);
  link_.go_on();
  EXPECT_TRUE(link_.is_open());
  EXPECT_EQ(counts_.failed_entries, 50U);
  for (const auto& request : goccs_[0].http.requests()) {
    goccs_[0].http.answer(request.stream, "429");
  }
  exchange();
  deliver(target_);
  EXPECT_EQ(delivered_.answers.size(), 300U);
}

TEST_F(GoccLinkTest, late_answers_reach_nobody) {
  open();
  send(target_, std::vector<std::string>(300, "key"));
  exchange();
  target_.give_up(context_.now_ms + 1);
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(300, Verdict::owner_unreachable));
  for (const auto& request : goccs_[0].http.requests()) {
    goccs_[0].http.answer(request.stream, "200", "5");
  }
  exchange();
  EXPECT_EQ(requests_count(), 250U);  // the others have never left
  EXPECT_EQ(counts_.late_answers, 250U);
  deliver(target_);
  EXPECT_EQ(delivered_.messages, 1);
  EXPECT_TRUE(link_.takes_message());
}

TEST_F(GoccLinkTest, is_over_when_it_cannot_connect) {
  event(event_of(0, io::EventKind::failed, -ECONNREFUSED));
  close(0);
  link_.go_on();
  EXPECT_TRUE(link_.is_closed());
  EXPECT_EQ(counts_.links_up, 0U);
  EXPECT_EQ(counts_.links_lost, 0U);
}

class GoccLinkOpenTest : public GoccLinkTest {
 protected:
  GoccLinkOpenTest() : GoccLinkTest(fleet(base::PeerFailure::open)) {}
};

TEST_F(GoccLinkOpenTest, the_policy_answers_for_a_gocc_that_is_lost) {
  open();
  api::Entry release = entry_of("b");
  release.op = api::Op::release;
  send(target_, std::vector{entry_of("a"), release});
  exchange();
  link_.lose("gone");
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), (std::vector{Verdict::approved, Verdict::owner_unreachable}));
  EXPECT_TRUE(delivered_.answers[0].detail.is_degraded);
}

TEST_F(GoccLinkTest, more_requests_than_streams_open_another_connection) {
  open();
  send(target_, std::vector<std::string>(600, "key"));
  exchange();
  EXPECT_EQ(requests_count(), 250U);
  ASSERT_EQ(io_.connected_to.size(), 2U);  // one at a time
  EXPECT_FALSE(link_.takes_message());
  event(event_of(1, io::EventKind::connected));
  exchange(1);
  EXPECT_EQ(requests_count(1), 250U);
  ASSERT_EQ(io_.connected_to.size(), 3U);
  event(event_of(2, io::EventKind::connected));
  exchange(2);
  EXPECT_EQ(requests_count(2), 100U);
  EXPECT_TRUE(link_.takes_message());
  for (const uint32_t socket : {0U, 1U, 2U}) {
    for (const auto& request : goccs_[socket].http.requests()) {
      goccs_[socket].http.answer(request.stream, "200");
    }
    exchange(socket);
  }
  deliver(target_);
  EXPECT_EQ(delivered_.verdicts(), several(600, Verdict::approved));
}

class GoccLinkFullOfWaitersTest : public GoccLinkTest {
 protected:
  GoccLinkFullOfWaitersTest() : GoccLinkTest(fleet(), 2 * GoccLink::waiting_max) {}
};

TEST_F(GoccLinkFullOfWaitersTest, has_streams_for_what_does_not_wait) {
  open();
  std::vector<api::Entry> entries;
  for (uint32_t i = 0; i <= GoccLink::waiting_max; ++i) entries.push_back(waiting_entry("x", i));
  send(target_, entries);
  exchange();
  for (const uint32_t socket : {1U, 2U, 3U}) {
    ASSERT_EQ(io_.connected_to.size(), socket + 1);
    event(event_of(socket, io::EventKind::connected));
    exchange(socket);
  }
  EXPECT_EQ(requests_count(2), 250U);
  send(target_, std::vector<std::string>{"key"});
  exchange(3);
  EXPECT_EQ(requests_count(3), 1U);
  deliver(target_);
  EXPECT_EQ(std::ranges::count(delivered_.verdicts(), Verdict::queued), GoccLink::waiting_max);
  EXPECT_EQ(std::ranges::count(delivered_.verdicts(), Verdict::waiters_full), 1);
  answer(0, "200");
  send(target_, {waiting_entry("x", 0)});
  exchange();
  EXPECT_EQ(requests_count(), 251U);
}

}  // namespace
}  // namespace sluice::peer
