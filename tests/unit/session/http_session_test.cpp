// Goal: nothing behind an open request is parsed, and nothing behind the last one; a reservation
//       whose client cannot receive it any more is cancelled, wherever between decision and answer
//       the connection ends.
// Method: a session over a backend that only keeps what it is asked, to be answered by the test.
#include "session/http_session.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/fake_io.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using Reservations = std::vector<uint64_t>;

class HttpSessionTest : public ::testing::Test {
 protected:
  HttpSessionTest() { session_.begin(); }
  ~HttpSessionTest() override {
    session_.close();
    for (Asked& asked : backend_.batches) session_.on_quota(asked.id, *asked.batch);
  }

  void send(std::string text) {
    session_.on_received(std::as_writable_bytes(std::span(text)));
    end_turn();
  }
  void post(const std::string& name, const std::string& body) {
    send("POST /v1/" + name + " HTTP/1.1\r\nHost: x\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  void reserve() { post("reserve", R"({"subjects": ["gpt"]})"); }

  api::QuotaBatch& asked() { return *backend_.batches.at(0).batch; }
  void answer(QuotaCode code, uint64_t reservation = 0) {
    const Asked asked = std::move(backend_.batches.front());
    backend_.batches.pop_front();
    asked.batch->answers[0].code = code;
    asked.batch->answers[0].reservation = reservation;
    session_.on_quota(asked.id, *asked.batch);
    end_turn();
  }

  // One that waits.
  api::Ticket queue_reserve() {
    post("reserve", R"({"subjects": ["gpt"], "max_wait_ms": 500})");
    const api::Ticket ticket = asked().calls[0].ticket;
    answer(QuotaCode::queued);
    return ticket;
  }
  // Its outcome has come, in this loop iteration.
  void grant(api::Ticket ticket, QuotaCode code, uint64_t reservation) {
    WaitingEntry& entry = context_.waits[ticket];
    entry.follow(WaitEvent::granted);
    entry.answer->answer = {.code = code, .reservation = reservation};
    session_.on_granted(entry, {.ticket = ticket,
                                .verdict = api::verdict_of(code),
                                .code = code,
                                .permit = {.reservation = reservation}});
    end_turn();
  }

  void end_turn() {
    while (!context_.ready.empty()) context_.ready.front().resume();
    if (!session_.ended()) session_.end_turn();
    if (!peer_reads_) return;
    for (const std::string& sent : io_.sent) {
      given_ += sent;
      session_.on_sent(static_cast<int32_t>(sent.size()), 0);
    }
    io_.sent.clear();
  }

  support::FakeIo io_;
  KeepingBackend backend_;
  Context context_{backend_, {.waiters_max = 100}};
  net::ConnectionMemory memory_{1};
  std::array<char, 1'024> key_memory_{};
  std::vector<char> log_memory_ = std::vector<char>(RequestLog::memory_bytes);
  HttpSession session_{context_, io_, {0, 1}, memory_, key_memory_, log_memory_};
  std::string given_;
  bool peer_reads_ = true;  // else what is sent stays in flight
};

// ------------------------------------------------------------------------ pipelining, keep-alive

constexpr const char* health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(HttpSessionTest, parses_nothing_behind_an_open_exchange) {
  send(std::string("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") + health);
  EXPECT_EQ(backend_.queries, std::vector<std::string>{"metrics"});
  EXPECT_EQ(given_, "");
  session_.on_text(0, "text/plain", "m 1\n");
  end_turn();
  EXPECT_EQ(given_.find("HTTP/1.1 200 OK\r\nContent-Type: text/plain"), 0u) << given_;
  EXPECT_TRUE(given_.ends_with("Content-Length: 0\r\n\r\n")) << given_;
}

TEST_F(HttpSessionTest, parses_nothing_behind_a_request_that_is_queued) {
  send(std::string("POST /rate/k?canWait=true HTTP/1.1\r\nHost: x\r\n\r\n") + health);
  const route::Request request = context_.turn.requests()[0];
  const api::Entry entry = context_.turn.entries()[0];
  context_.turn.clear();
  const std::array verdicts{api::Verdict::queued};
  const std::array details{api::Detail{.request_id = 42}};
  session_.on_verdicts(request, {.entries = {&entry, 1}, .verdicts = verdicts, .details = details});
  end_turn();
  EXPECT_EQ(given_, "");
  context_.waits[entry.ticket].follow(WaitEvent::granted);
  session_.on_granted(context_.waits[entry.ticket],
                      {.ticket = entry.ticket, .verdict = api::Verdict::approved});
  end_turn();
  EXPECT_NE(given_.find("\r\n\r\n42HTTP/1.1 200 OK\r\n"), std::string::npos) << given_;
}

TEST_F(HttpSessionTest, parses_nothing_behind_the_last_request) {
  send(std::string("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") + health);
  EXPECT_TRUE(given_.ends_with("Connection: close\r\n\r\n")) << given_;
  EXPECT_EQ(given_.find("HTTP/1.1", 1), std::string::npos) << given_;
}

TEST_F(HttpSessionTest, ends_with_a_path_that_is_no_path) {
  send(std::string("GET /rate/%zz HTTP/1.1\r\nHost: x\r\n\r\n") + health);
  EXPECT_EQ(given_.find("HTTP/1.1 400 Bad Request"), 0u) << given_;
  EXPECT_EQ(given_.find("HTTP/1.1", 1), std::string::npos) << given_;
}

// -------------------------------------------------------------------------- undelivered quotas

TEST_F(HttpSessionTest, keeps_what_was_told) {
  reserve();
  answer(QuotaCode::ok, 77);
  EXPECT_NE(given_.find("\"reservation\":\"000000000000004d\""), std::string::npos) << given_;
  session_.on_failed();
  EXPECT_EQ(backend_.given_back, Reservations{});
}

TEST_F(HttpSessionTest, gives_back_what_is_admitted_after_it_ended) {
  reserve();
  session_.on_failed();
  answer(QuotaCode::ok, 77);
  EXPECT_EQ(backend_.given_back, Reservations{77});
}

// Its client can ask again, and is told the same.
TEST_F(HttpSessionTest, gives_nothing_back_that_has_an_id) {
  post("reserve", R"({"subjects": ["gpt"], "id": "call"})");
  session_.on_failed();
  answer(QuotaCode::ok, 77);
  EXPECT_EQ(backend_.given_back, Reservations{});
}

// The store names the reservation in answers to everything that is about one.
TEST_F(HttpSessionTest, gives_nothing_back_that_was_told_before) {
  post("extend", R"({"reservation": "000000000000004d"})");
  session_.on_failed();
  answer(QuotaCode::ok, 77);
  EXPECT_EQ(backend_.given_back, Reservations{});
}

// ------------------------------------------------------------------------------ who holds what

TEST_F(HttpSessionTest, asks_who_holds_what) {
  send("GET /v1/reservations?subject=gpt&limit=7 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(asked().calls[0].op, QuotaOp::holders);
  EXPECT_EQ(asked().calls[0].limit, 7u);
  EXPECT_EQ(asked().subjects.at(0), "gpt");
  answer(QuotaCode::ok);
  EXPECT_NE(given_.find(R"({"reservations":[],"cursor":null})"), std::string::npos) << given_;
}

TEST_F(HttpSessionTest, only_looks_in_a_dry_run) {
  send("DELETE /v1/subjects/gpt?dry_run=true HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(asked().calls.size(), 1u);
  EXPECT_EQ(asked().calls[0].op, QuotaOp::usage);
  EXPECT_EQ(asked().subjects.at(0), "gpt");
  asked().rows.push_back({.source = api::QuotaSource::run_time});
  asked().quotas.emplace_back();
  asked().answers[0].rows_count = 1;
  answer(QuotaCode::ok);
  EXPECT_NE(given_.find(R"({"dry_run":true,"subject":"gpt","present":{)"), std::string::npos);
  post("reset-all?dry_run=1", "");
  EXPECT_TRUE(backend_.batches.empty());
  EXPECT_NE(given_.find("dry_run: must be true or false"), std::string::npos) << given_;
}

// Else it could be more than a reply may be.
TEST_F(HttpSessionTest, asks_for_a_shorter_page_of_holders_when_one_is_too_long) {
  send("GET /v1/reservations?limit=9&cursor=0000000000000005 HTTP/1.1\r\nHost: x\r\n\r\n");
  asked().answer_text.assign(limits::reply_bytes_max / 4, 'x');
  const auto bytes = static_cast<uint32_t>(asked().answer_text.size());
  asked().holders.assign(9, {.subjects_count = 1, .subjects = {{{.bytes = bytes}}}});
  asked().answers[0].rows_count = 9;
  answer(QuotaCode::ok);
  EXPECT_EQ(given_, "");
  EXPECT_EQ(asked().calls[0].limit, 4u);
  EXPECT_EQ(asked().calls[0].cursor, 5u);
  asked().answer_text.assign(9, 'x');
  asked().holders.assign(1, {});
  asked().answers[0].rows_count = 1;
  answer(QuotaCode::ok);
  EXPECT_NE(given_.find("200 OK"), std::string::npos) << given_;
}

TEST_F(HttpSessionTest, gives_nothing_back_that_is_shown) {
  peer_reads_ = false;
  send("GET /v1/reservations/000000000000004d HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(asked().calls[0].op, QuotaOp::show);
  EXPECT_EQ(asked().calls[0].reservation, 77u);
  asked().holders.assign(1, {.reservation = 77, .state = api::ReservationState::open});
  answer(QuotaCode::ok, 77);
  ASSERT_EQ(io_.sent.size(), 1u);
  EXPECT_NE(io_.sent[0].find("\"held_ms\":0"), std::string::npos) << io_.sent[0];
  session_.on_failed();
  EXPECT_EQ(backend_.given_back, Reservations{});
}

// ---------------------------------------------------------------- granted after it had waited

TEST_F(HttpSessionTest, tells_what_was_granted) {
  grant(queue_reserve(), QuotaCode::ok, 77);
  EXPECT_EQ(given_, "") << "in the next iteration";
  end_turn();
  EXPECT_NE(given_.find("\"reservation\":\"000000000000004d\""), std::string::npos) << given_;
  EXPECT_TRUE(backend_.batches.empty()) << "nothing is asked a second time";
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  send(health);
  EXPECT_TRUE(given_.ends_with("Content-Length: 0\r\n\r\n")) << given_;
  session_.on_failed();
  EXPECT_EQ(backend_.given_back, Reservations{});
}

TEST_F(HttpSessionTest, tells_at_once_what_was_not_granted) {
  grant(queue_reserve(), QuotaCode::wait_limit, 0);
  EXPECT_EQ(given_.find("HTTP/1.1 429 "), 0u) << given_;
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  session_.on_failed();
  EXPECT_EQ(backend_.abandoned, std::vector<api::Ticket>{});
}

// Its client may have left while others' work of the same iteration was done. As of one that waits:
// a client that ends its side before the outcome does not want it.
TEST_F(HttpSessionTest, the_owner_takes_back_what_was_granted_when_its_client_goes) {
  const api::Ticket ticket = queue_reserve();
  grant(ticket, QuotaCode::ok, 77);
  session_.on_end_of_stream();
  end_turn();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
  EXPECT_EQ(given_, "");
}

TEST_F(HttpSessionTest, the_owner_takes_back_what_was_granted_when_the_connection_fails) {
  const api::Ticket ticket = queue_reserve();
  grant(ticket, QuotaCode::ok, 77);
  session_.on_failed();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
  EXPECT_EQ(backend_.given_back, Reservations{});
}

// ---------------------------------------------------------------------- written, and not sent

TEST_F(HttpSessionTest, gives_back_what_is_written_and_is_not_sent) {
  peer_reads_ = false;
  reserve();
  answer(QuotaCode::ok, 77);  // on its way
  reserve();
  answer(QuotaCode::ok, 78);
  grant(queue_reserve(), QuotaCode::ok, 79);
  end_turn();
  post("extend", R"({"reservation": "0000000000000005"})");
  answer(QuotaCode::ok, 5);
  EXPECT_EQ(backend_.given_back, Reservations{});
  session_.on_failed();
  EXPECT_EQ(backend_.given_back, (Reservations{78, 79}));
}

// Of a send that fails the kernel may have taken a part; a part of an answer is of no use.
TEST_F(HttpSessionTest, gives_back_what_the_kernel_did_not_take) {
  peer_reads_ = false;
  for (const uint64_t reservation : {76, 77, 78}) {
    reserve();
    answer(QuotaCode::ok, reservation);
  }
  const auto answer_bytes = static_cast<uint32_t>(io_.sent.at(0).size());
  session_.on_sent(static_cast<int32_t>(answer_bytes), 0);
  end_turn();
  ASSERT_EQ(io_.sent.at(1).size(), 2 * answer_bytes);
  reserve();
  answer(QuotaCode::ok, 79);
  session_.on_sent(-104, answer_bytes - 1);
  EXPECT_EQ(backend_.given_back, (Reservations{78, 79}));
}

TEST_F(HttpSessionTest, keeps_what_was_sent_before_what_is_not) {
  reserve();
  answer(QuotaCode::ok, 77);
  peer_reads_ = false;
  send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");  // on its way
  send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  session_.on_failed();
  EXPECT_EQ(backend_.given_back, Reservations{});
}

}  // namespace
}  // namespace sluice::session
