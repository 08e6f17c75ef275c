// A session of HTTP/2 over a backend that only records calls, and nghttp2's client, in memory.
// Lives:  a fixture: one connection, which begins with the client's preface.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "session/http2_session.hpp"
#include "session/http_session.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/support/http2_client.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {

class Http2SessionTest : public ::testing::Test {
 protected:
  // `window`: of each answer, in bytes, which the client opens.
  explicit Http2SessionTest(uint32_t shards = 1, std::optional<uint32_t> window = {})
      : context_(backend_, {.waiters_max = 6,
                            .shards = shards,
                            .access_log = {.of_2xx = true, .of_4xx = true, .of_5xx = true}}),
        client_(window) {
    begin_turn();
  }
  ~Http2SessionTest() override {
    if (!session_->ended()) session_->close();
    decide_all();
    for (Asked& asked : backend_.batches) session_->on_quota(asked.id, *asked.batch);
  }

  Http2Session& session() { return static_cast<Http2Session&>(*session_); }
  void begin_turn() { context_.work.begin_turn(false); }

  std::unique_ptr<Session> begin_http1() {
    const HttpSession::Memory memory{.key = key_memory_, .log = log_memory_};
    auto session =
        std::make_unique<HttpSession>(context_, io_, io::SocketId{0, 1}, memory_, memory);
    session->begin();
    return session;
  }

  // The session of HTTP/1.1 that the connection begins with passes it on.
  std::unique_ptr<Session> begin() {
    auto former = begin_http1();
    auto session = std::make_unique<Http2Session>(former->pass_on());
    former.reset();
    session->begin_http2(nullptr);
    return session;
  }

  void send_to_session(std::string bytes) {
    session_->on_received(std::as_writable_bytes(std::span(bytes)));
  }
  // Delivers what the client has to say, and the session's answers.
  void exchange() {
    for (int rounds = 0; rounds < 20; ++rounds) {
      std::string bytes = client_.output();
      if (!bytes.empty()) session_->on_received(std::as_writable_bytes(std::span(bytes)));
      end_turn();
      if (bytes.empty() && io_.sent.empty() && context_.ready.empty()) return;
      for (const std::string& sent : io_.sent) {
        EXPECT_TRUE(client_.receive(sent));
        session_->on_sent(static_cast<int32_t>(sent.size()), 0);
      }
      io_.sent.clear();
    }
  }
  void deliver_one() {
    const std::string sent = std::exchange(io_.sent.front(), {});
    io_.sent.erase(io_.sent.begin());
    EXPECT_TRUE(client_.receive(sent));
    session_->on_sent(static_cast<int32_t>(sent.size()), 0);
  }
  // Reads all that is sent, and sends nothing.
  void read_to_end() {
    end_turn();
    while (!io_.sent.empty() || !context_.ready.empty()) {
      if (!io_.sent.empty()) deliver_one();
      end_turn();
    }
  }
  // A GET /debug of too many keys to be sorted; a page of them is asked for.
  int32_t begin_walk() {
    const int32_t stream = client_.ask("GET", "/debug");
    exchange();
    session_->on_counted(static_cast<uint64_t>(stream), 10'000'000);
    exchange();
    return stream;
  }
  void resume() {
    while (!context_.ready.empty()) {
      begin_turn();
      context_.ready.pop().resume();
    }
  }
  void end_turn() {
    resume();
    if (!session_->ended()) session_->end_turn();
    begin_turn();
  }
  void pass(int64_t ms) {
    pass_without_reading(ms);
    exchange();
  }
  void pass_without_reading(int64_t ms) {
    context_.now.monotonic_ns += ms * base::ns_per_ms;
    context_.timers.advance(context_.now_ms());
    while (context_.timers.pop_due() != nullptr) session_->on_timer();
  }

  // Decides the turn's entries, the first one first.
  void decide_all(api::Verdict verdict = api::Verdict::approved) {
    std::vector<route::Request> requests(context_.turn.requests().begin(),
                                         context_.turn.requests().end());
    for (const route::Request& request : requests) decide(request, verdict);
    context_.turn.clear();
  }
  void decide(const route::Request& request, api::Verdict verdict) {
    const auto entries = context_.turn.entries().subspan(request.first_entry, 1);
    const std::array verdicts{verdict};
    const std::array details{api::Detail{.limit = 5, .window_ms = 1'000, .request_id = request.id}};
    session_->on_verdicts(request, {entries, verdicts, details});
  }
  void grant(api::Ticket ticket) {
    WaitingEntry& entry = context_.waits[ticket];
    context_.waits.follow(entry, WaitEvent::granted);
    session_->on_granted(entry, {.ticket = ticket,
                                 .verdict = api::Verdict::approved,
                                 .detail = {.limit = 5, .window_ms = 1'000}});
  }
  void answer_quota(api::QuotaCode code, uint64_t reservation) {
    const Asked asked = std::move(backend_.batches.front());
    backend_.batches.pop_front();
    asked.batch->answers[0].code = code;
    asked.batch->answers[0].reservation = reservation;
    session_->on_quota(asked.id, *asked.batch);
  }
  int32_t reserve() { return client_.ask("POST", "/v1/reserve", R"({"subjects": ["gpt"]})"); }

  support::FakeIo io_;
  KeepingBackend backend_;
  Context context_;
  net::ConnectionMemory memory_{1};
  std::array<char, 1'024> key_memory_{};
  std::vector<char> log_memory_ = std::vector<char>(RequestLog::memory_bytes);
  std::unique_ptr<Session> session_ = begin();
  support::Http2Client client_;
};

}  // namespace sluice::session
