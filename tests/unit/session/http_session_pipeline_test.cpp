// Goal: pipelined decisions go to their shards together, and are answered and logged in the order
//       of their requests, in whatever order the shards decide; all else waits until those before
//       it are answered. A request whose owner has no room waits with all behind it, and counts
//       once. Nothing is lost when the client leaves, or the server shuts down.
// Method: a session over a backend that keeps requests with other shards' keys until the test
//         decides them, and forgets their keys then.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "log/log.hpp"
#include "session/http_session.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/support/log_lines.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {
namespace {

using Texts = std::vector<std::string>;

class HttpPipelineTest : public ::testing::Test {
 protected:
  HttpPipelineTest() {
    backend_.executed = [this] { execute(); };
    open();
  }
  ~HttpPipelineTest() override { end(); }

  void open() {
    session_.emplace(context_, io_, io::SocketId{0, 1}, memory_,
                     HttpSession::Memory{.key = key_memory_,
                                         .log = log_memory_,
                                         .pipeline = std::as_writable_bytes(std::span(kept_))});
    session_->begin();
  }
  void end() {
    if (!session_) return;
    session_->close();
    session_.reset();
  }

  static std::string rate(const std::string& key, const std::string& headers = {}) {
    return "POST /rate/" + key + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
  }
  // Of a key that another shard has.
  static std::string far(const std::string& name, const std::string& headers = {}) {
    return rate("far-" + name, headers);
  }

  void send(std::string text) {
    session_->on_received(std::as_writable_bytes(std::span(text)));
    backend_.execute();
    end_turn();
  }
  // The other shard's verdict about a key.
  void decide(const std::string& name, api::Verdict verdict = api::Verdict::approved) {
    const auto place = std::ranges::find(asked_, "far-" + name, &Request::key);
    ASSERT_NE(place, asked_.end()) << name;
    Request request = std::move(*place);
    asked_.erase(place);
    give(request, verdict);
    request.key.assign(request.key.size(), '#');
    end_turn();
  }
  // As the worker does when a shard has returned a message.
  void make_room(bool has_room) {
    backend_.owners_have_room = has_room;
    ASSERT_FALSE(context_.blocked.empty());
    session_->unblock();
    end_turn();
  }
  void end_turn() {
    do {
      while (!context_.ready.empty()) {
        context_.ready.pop().resume();
        backend_.execute();
      }
      if (!session_->ended()) session_->end_turn();
      for (const std::string& sent : std::exchange(io_.sent, {})) {
        given_ += sent;
        session_->on_sent(static_cast<int32_t>(sent.size()), 0);
      }
    } while (!context_.ready.empty());
  }

  Texts asked() const {
    Texts keys;
    for (const Request& request : asked_) keys.push_back(request.key);
    return keys;
  }
  // Bodies of the answers that were given since the last call.
  Texts bodies() {
    Texts read;
    for (std::string_view rest = given_; !rest.empty();) {
      const size_t body_at = rest.find("\r\n\r\n") + 4;
      const size_t length_at = rest.find("Content-Length: ") + 16;
      const size_t bytes = std::stoul(std::string(rest.substr(length_at, 8)));
      read.emplace_back(rest.substr(body_at, bytes));
      rest.remove_prefix(body_at + bytes);
    }
    given_.clear();
    return read;
  }
  size_t closes_count() const {
    size_t count = 0;
    for (size_t at = 0; (at = given_.find("Connection: close", at)) != given_.npos; ++at) ++count;
    return count;
  }

  void start_log() {
    end();
    log_lines_.start();
    open();
  }
  Texts logged() { return log_lines_.exchanges(); }

  struct Request {
    route::Request request;
    api::Entry entry;
    std::string key;
  };

  void execute() {
    route::Turn& turn = context_.turn;
    std::vector<Request> own;
    for (const route::Request& request : turn.requests()) {
      const api::Entry& entry = turn.entries()[request.first_entry];
      const Request asked{request, entry, std::string(entry.key())};
      (asked.key.starts_with("far-") ? asked_ : own).push_back(asked);
    }
    turn.clear();
    context_.text.clear();
    for (Request& request : own) give(request, api::Verdict::approved);
  }
  // A key is shown as id, too.
  void give(Request& asked, api::Verdict verdict) {
    asked.entry.key_data = asked.key.data();
    api::Detail detail{.limit = 9};
    for (const char digit : asked.key.substr(asked.key.find('-') + 1)) {
      detail.request_id = 10 * detail.request_id + static_cast<uint64_t>(digit - '0');
    }
    session_->on_verdicts(
        asked.request,
        {.entries = {&asked.entry, 1}, .verdicts = {&verdict, 1}, .details = {&detail, 1}});
  }

  support::FakeIo io_;
  KeepingBackend backend_;
  Context context_{
      backend_,
      {.waiters_max = 100, .access_log = {.of_2xx = true, .of_4xx = true, .of_5xx = true}}};
  net::ConnectionMemory memory_{1};
  std::vector<char> key_memory_ = std::vector<char>(1'024);
  std::vector<char> log_memory_ = std::vector<char>(RequestLog::memory_bytes);
  std::vector<uint64_t> kept_ =
      std::vector<uint64_t>(Pipeline::memory_bytes(1'024) / sizeof(uint64_t));
  std::vector<Request> asked_;  // other shards
  std::optional<HttpSession> session_;
  std::string given_;
  support::LogLines log_lines_;
};

// ------------------------------------------------------------------------------------- order

TEST_F(HttpPipelineTest, asks_shards_together) {
  send(far("1") + rate("2") + far("3"));
  send(far("4"));
  EXPECT_EQ(asked(), (Texts{"far-1", "far-3", "far-4"}));
  EXPECT_EQ(given_, "");
}

TEST_F(HttpPipelineTest, answers_in_the_order_of_the_requests) {
  send(far("1") + rate("2") + far("3") + far("4") + rate("5"));
  decide("4");
  EXPECT_EQ(given_, "");
  decide("1");
  EXPECT_EQ(bodies(), (Texts{"1", "2"}));
  decide("3");
  EXPECT_EQ(bodies(), (Texts{"3", "4", "5"}));
  send(rate("6"));
  EXPECT_EQ(bodies(), Texts{"6"});
}

TEST_F(HttpPipelineTest, shows_its_own_key_in_each_answer) {
  send(far("1", "Accept: application/json\r\n") + far("2") +
       far("3", "Accept: application/json\r\n"));
  decide("3", api::Verdict::denied);
  decide("2");
  decide("1", api::Verdict::denied);
  const Texts shown = bodies();
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_NE(shown[0].find("\"key\":\"far-1\""), std::string::npos) << shown[0];
  EXPECT_EQ(shown[1], "2");
  EXPECT_NE(shown[2].find("\"key\":\"far-3\""), std::string::npos) << shown[2];
}

TEST_F(HttpPipelineTest, reads_on_when_half_of_the_answers_are_given) {
  constexpr int places = Pipeline::places;
  std::string text;
  for (int i = 0; i < places + 2; ++i) text += far(std::to_string(i));
  send(text);
  EXPECT_EQ(asked_.size(), places);
  for (int i = 1; i < places / 2; ++i) decide(std::to_string(i));
  EXPECT_EQ(bodies(), Texts{}) << "those behind the first one are kept";
  EXPECT_EQ(asked_.size(), places / 2 + 1);
  decide("0");
  EXPECT_EQ(bodies().size(), places / 2);
  EXPECT_EQ(asked_.size(), places / 2 + 2);
  EXPECT_EQ(asked_.back().key, "far-65");
}

TEST_F(HttpPipelineTest, keeps_as_many_answers_as_it_has_places) {
  constexpr int places = Pipeline::places;
  std::string text;
  Texts expected;
  for (int i = 1; i <= 3 * places; ++i) {
    text += far(std::to_string(i));
    expected.push_back(std::to_string(i));
  }
  send(text);
  Texts given;
  while (!asked_.empty()) {
    decide(asked_.back().key.substr(4));
    for (std::string& body : bodies()) given.push_back(std::move(body));
  }
  EXPECT_EQ(given, expected);
}

TEST_F(HttpPipelineTest, promises_no_more_answers_than_it_may_have_to_write) {
  const std::string json = "Accept: application/json\r\n";
  std::string text;
  for (int i = 0; i < 60; ++i) text += far(std::to_string(1'000 + i) + std::string(900, '0'), json);
  send(text);
  EXPECT_LT(asked_.size(), 60u);
  while (!asked_.empty()) decide(asked_.back().key.substr(4));
  EXPECT_EQ(bodies().size(), 60u);
}

// ------------------------------------------------------------------ what is not a plain decision

TEST_F(HttpPipelineTest, handles_other_requests_when_all_before_are_answered) {
  send(far("1") + far("2") + "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" + rate("3"));
  decide("2");
  EXPECT_EQ(backend_.queries, Texts{});
  decide("1");
  EXPECT_EQ(backend_.queries, Texts{"metrics"});
  EXPECT_EQ(bodies(), (Texts{"1", "2"}));
  session_->on_text(0, "text/plain", "m 1\n");
  end_turn();
  EXPECT_EQ(bodies(), (Texts{"m 1\n", "3"}));
}

TEST_F(HttpPipelineTest, reads_the_body_of_a_request_that_had_to_wait) {
  const std::string body = R"({"subjects": ["gpt"]})";
  send(far("1") + "POST /v1/reserve HTTP/1.1\r\nHost: x\r\nContent-Length: 21\r\n\r\n" + body +
       far("2"));
  EXPECT_TRUE(backend_.batches.empty());
  decide("1");
  ASSERT_EQ(backend_.batches.size(), 1u);
  EXPECT_EQ(backend_.batches[0].batch->subjects.at(0), "gpt");
  EXPECT_EQ(asked(), Texts{});
  const Asked batch = std::move(backend_.batches.front());
  batch.batch->answers[0].code = api::QuotaCode::ok;
  session_->on_quota(batch.id, *batch.batch);
  end_turn();
  EXPECT_EQ(asked(), Texts{"far-2"});
}

TEST_F(HttpPipelineTest, asks_for_a_decision_that_may_wait_when_all_before_are_answered) {
  send(far("1") + rate("far-2?canWait=true") + far("3"));
  EXPECT_EQ(asked(), Texts{"far-1"});
  decide("1");
  EXPECT_EQ(asked(), Texts{"far-2"});
  decide("2");
  EXPECT_EQ(asked(), Texts{"far-3"});
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  EXPECT_EQ(bodies(), (Texts{"1", "2"}));
}

TEST_F(HttpPipelineTest, refuses_a_malformed_request_when_all_before_are_answered) {
  send(far("1") + far("2") + "POST /rate/3 HTTP/1.1\r\n\r\n");
  EXPECT_FALSE(session_->connection().finishing());
  decide("2");
  decide("1");
  EXPECT_TRUE(session_->connection().finishing());
  const Texts given = bodies();
  ASSERT_EQ(given.size(), 3u);
  EXPECT_EQ(given[2], "missing required Host header");
}

TEST_F(HttpPipelineTest, asks_for_a_body_when_all_before_are_answered) {
  const std::string expects = "Content-Length: 2\r\nExpect: 100-continue\r\n";
  send(far("1") + far("2", expects));
  EXPECT_EQ(given_, "");
  decide("1");
  EXPECT_TRUE(given_.ends_with("\r\n\r\n1HTTP/1.1 100 Continue\r\n\r\n")) << given_;
  EXPECT_EQ(asked(), Texts{"far-2"});
}

TEST_F(HttpPipelineTest, goes_on_in_http2_when_all_before_are_answered) {
  send(far("1") + far("2",
                      "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                      "HTTP2-Settings: AAMAAABkAAQAAP__\r\n"));
  EXPECT_TRUE(backend_.upgrades.empty());
  decide("1");
  EXPECT_EQ(backend_.upgrades.size(), 1u);
  EXPECT_NE(given_.find("\r\n\r\n1HTTP/1.1 101 "), std::string::npos) << given_;
}

// -------------------------------------------------------------------------- owners without room

TEST_F(HttpPipelineTest, a_request_waits_with_all_behind_it_until_its_owner_has_room) {
  start_log();
  send(far("1"));
  backend_.owners_have_room = false;
  send(far("2") + rate("3"));
  EXPECT_EQ(asked(), Texts{"far-1"});
  make_room(false);  // another shard has made some
  EXPECT_EQ(asked(), Texts{"far-1"});
  decide("1");
  EXPECT_EQ(bodies(), Texts{"1"});
  make_room(true);
  EXPECT_TRUE(context_.blocked.empty());
  EXPECT_EQ(asked(), Texts{"far-2"});
  EXPECT_EQ(given_, "") << "the own key's answer comes behind it";
  decide("2");
  EXPECT_EQ(bodies(), (Texts{"2", "3"}));
  EXPECT_EQ(logged(), (Texts{"/rate/far-1 200", "/rate/far-2 200", "/rate/3 200"}));
}

TEST_F(HttpPipelineTest, asks_for_a_body_once_its_owner_has_room) {
  backend_.owners_have_room = false;
  send(far("1", "Content-Length: 2\r\nExpect: 100-continue\r\n"));
  make_room(false);
  EXPECT_EQ(given_, "");
  make_room(true);
  EXPECT_EQ(given_, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(asked(), Texts{"far-1"});
}

TEST_F(HttpPipelineTest, a_request_without_room_is_refused_once_when_the_server_shuts_down) {
  start_log();
  backend_.owners_have_room = false;
  send(far("1"));
  context_.draining = true;
  session_->begin_drain();
  EXPECT_EQ(context_.drained_entries, 0U);
  make_room(false);  // a refusal needs none
  EXPECT_EQ(context_.drained_entries, 1U);
  EXPECT_EQ(bodies().size(), 1U);
  EXPECT_TRUE(session_->connection().finishing());
  EXPECT_EQ(logged(), Texts{"/rate/far-1 503"});
}

// It is not asked for, and its head was not kept.
TEST_F(HttpPipelineTest, a_request_without_room_ends_with_its_client) {
  start_log();
  send(far("1"));
  backend_.owners_have_room = false;
  send(far("2"));
  session_->on_failed();
  end();
  EXPECT_EQ(asked(), Texts{"far-1"});
  EXPECT_EQ(logged(), Texts{"/rate/far-1 499"});
}

// ----------------------------------------------------------------------------------- its end

TEST_F(HttpPipelineTest, ends_after_the_answer_to_the_last_request) {
  send(far("1") + far("2", "Connection: close\r\n") + far("3"));
  EXPECT_EQ(asked(), (Texts{"far-1", "far-2"}));
  decide("2");
  EXPECT_FALSE(session_->connection().finishing());
  decide("1");
  EXPECT_TRUE(session_->connection().finishing());
  EXPECT_EQ(closes_count(), 1u);
  EXPECT_EQ(bodies(), (Texts{"1", "2"}));
}

TEST_F(HttpPipelineTest, takes_nothing_behind_the_last_request_when_an_earlier_one_is_answered) {
  send(far("1") + far("2", "Connection: close\r\n") + far("3"));
  decide("1");
  EXPECT_EQ(asked(), Texts{"far-2"});
}

TEST_F(HttpPipelineTest, answers_all_requests_of_a_peer_that_has_finished) {
  send(far("1") + far("2") + "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  session_->on_end_of_stream();
  end_turn();
  decide("2");
  EXPECT_FALSE(session_->connection().finishing());
  decide("1");
  EXPECT_EQ(bodies(), (Texts{"1", "2", ""}));
  EXPECT_TRUE(session_->connection().finishing());
}

TEST_F(HttpPipelineTest, answers_what_is_on_its_way_when_the_server_shuts_down) {
  send(far("1") + far("2") + far("3"));
  context_.draining = true;
  session_->begin_drain();
  decide("2", api::Verdict::draining);
  decide("1");
  EXPECT_FALSE(session_->connection().finishing());
  EXPECT_EQ(closes_count(), 0u);
  send(far("4"));
  decide("3");
  EXPECT_EQ(closes_count(), 1u);
  EXPECT_EQ(bodies().size(), 3u);
  EXPECT_TRUE(session_->connection().finishing());
}

TEST_F(HttpPipelineTest, logs_in_the_order_of_the_requests) {
  start_log();
  send(far("1") + rate("2") + far("3"));
  decide("3", api::Verdict::denied);
  decide("1");
  EXPECT_EQ(logged(), (Texts{"/rate/far-1 200", "/rate/2 200", "/rate/far-3 429"}));
}

TEST_F(HttpPipelineTest, logs_requests_of_a_client_that_left) {
  start_log();
  send(far("1") + rate("2") + far("3") + far("4"));
  decide("3");
  session_->on_failed();
  given_.clear();
  decide("1");
  EXPECT_EQ(given_, "");
  end();  // the verdict on the last one finds no session
  EXPECT_EQ(logged(),
            (Texts{"/rate/far-1 499", "/rate/2 499", "/rate/far-3 499", "/rate/far-4 499"}));
}

}  // namespace
}  // namespace sluice::session
