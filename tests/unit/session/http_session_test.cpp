// Goal: nothing behind an open request is parsed, and nothing behind the last one; a reservation
//       that its client cannot receive any more is cancelled, wherever between decision and answer
//       the connection ends.
// Method: a session over a backend that only records calls; the test answers them.
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

  // Sends a reserve that is queued.
  api::Ticket queue_reserve() {
    post("reserve", R"({"subjects": ["gpt"], "wait_limit_ms": 500})");
    const api::Ticket ticket = asked().calls[0].ticket;
    answer(QuotaCode::queued);
    return ticket;
  }
  // Delivers its outcome, in this loop iteration.
  void grant(api::Ticket ticket, QuotaCode code, uint64_t reservation) {
    WaitingEntry& entry = context_.waits[ticket];
    context_.waits.follow(entry, WaitEvent::granted);
    entry.answer->answer = {.code = code, .reservation = reservation};
    session_.on_granted(
        entry, {.ticket = ticket, .code = code, .refund_claim = {.reservation = reservation}});
    end_turn();
  }

  void end_turn() {
    while (!context_.ready.empty()) context_.ready.pop().resume();
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
  HttpSession session_{context_, io_, {0, 1}, memory_, {.key = key_memory_, .log = log_memory_}};
  std::string given_;
  bool peer_reads_ = true;  // false: sends stay in flight
};

// ------------------------------------------------------------------------ pipelining, keep-alive

constexpr const char* health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(HttpSessionTest, executes_the_turn_when_there_is_no_room_for_the_text_of_another_key) {
  backend_.executed = [this] { context_.text.clear(); };
  context_.text.commit(context_.text.room().size() - 7);
  send("POST /rate/k HTTP/1.1\r\nHost: x\r\n\r\n");  // a target of seven bytes
  EXPECT_EQ(backend_.executions, 0u);
  send("POST /rate/kk HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(backend_.executions, 1u);
}

// The rows of GET /debug are work of the turn, and the bytes that they become.
TEST_F(HttpSessionTest, counts_the_rows_of_a_page) {
  const std::vector<api::KeyState> keys(100);
  const auto work_of_page = [&] {
    send("GET /debug HTTP/1.1\r\nHost: x\r\n\r\n");
    context_.work.begin_turn(true);
    session_.on_page(0, keys, 0);
    uint64_t left = 0;
    for (; !context_.work.is_over(); ++left) context_.work.spend(1);
    return context_.work.turn_work() - left;
  };
  const uint64_t work = work_of_page();
  end_turn();
  size_t bytes = 0;
  for (const std::string& sent : io_.sent) bytes += sent.size();
  EXPECT_GE(work, keys.size() * work::row + work::bytes(bytes) / 2);
}

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
  context_.waits.follow(context_.waits[entry.ticket], WaitEvent::granted);
  session_.on_granted(context_.waits[entry.ticket],
                      {.ticket = entry.ticket, .verdict = api::Verdict::approved});
  end_turn();
  EXPECT_NE(given_.find("\r\n\r\n42HTTP/1.1 200 OK\r\n"), std::string::npos) << given_;
}

TEST_F(HttpSessionTest, confirms_no_release_that_reached_no_owner) {
  send("DELETE /rate/k/7 HTTP/1.1\r\nHost: x\r\n\r\n");
  const route::Request request = context_.turn.requests()[0];
  const api::Entry entry = context_.turn.entries()[0];
  context_.turn.clear();
  const std::array verdicts{api::Verdict::owner_unreachable};
  const std::array details{api::Detail{}};
  session_.on_verdicts(request, {.entries = {&entry, 1}, .verdicts = verdicts, .details = details});
  end_turn();
  EXPECT_TRUE(given_.starts_with("HTTP/1.1 502 ")) << given_;
}

TEST_F(HttpSessionTest, parses_nothing_behind_the_last_request) {
  send(std::string("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") + health);
  EXPECT_TRUE(given_.ends_with("Connection: close\r\n\r\n")) << given_;
  EXPECT_EQ(given_.find("HTTP/1.1", 1), std::string::npos) << given_;
}

TEST_F(HttpSessionTest, is_idle_from_its_last_answer_on) {
  constexpr int64_t ns_per_s = base::ns_per_s;
  reserve();
  context_.now.monotonic_ns = 119 * ns_per_s;  // the default time-out has 120
  answer(QuotaCode::ok, 7);
  context_.now.monotonic_ns = 238 * ns_per_s;
  session_.on_timer();
  EXPECT_FALSE(session_.connection().finishing());
  context_.now.monotonic_ns = 239 * ns_per_s;
  session_.on_timer();
  EXPECT_TRUE(session_.connection().finishing());
}

// ------------------------------------------------------------------------ one request, one answer

constexpr const char* chunked_health =
    "GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST_F(HttpSessionTest, ends_without_second_answer_after_malformed_chunk) {
  send(std::string(chunked_health) + "2\r\nab\r\nzz\r\n");
  EXPECT_EQ(given_.find("HTTP/1.1 200 OK"), 0u) << given_;
  EXPECT_EQ(given_.find("HTTP/1.1", 1), std::string::npos) << given_;
  EXPECT_TRUE(session_.connection().finishing());
}

TEST_F(HttpSessionTest, ends_without_second_answer_after_too_large_chunked_body) {
  send(chunked_health);
  send("ffff\r\n");
  EXPECT_FALSE(session_.connection().finishing());
  send(std::string(0xffff, 'x') + "\r\n2\r\n");
  EXPECT_EQ(given_.find("HTTP/1.1", 1), std::string::npos) << given_;
  EXPECT_TRUE(session_.connection().finishing());
}

TEST_F(HttpSessionTest, refuses_malformed_body_that_it_reads) {
  send("POST /v1/reserve HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
  EXPECT_EQ(given_.find("HTTP/1.1 400 Bad Request"), 0u) << given_;
  EXPECT_EQ(given_.find("HTTP/1.1", 1), std::string::npos) << given_;
  EXPECT_TRUE(session_.connection().finishing());
}

TEST_F(HttpSessionTest, cuts_off_peer_that_goes_on_sending_after_last_answer) {
  send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(session_.connection().finishing());
  send(std::string(Session::linger_bytes_max, 'x'));
  EXPECT_FALSE(session_.ended());
  send("x");
  EXPECT_TRUE(session_.ended());
}

TEST_F(HttpSessionTest, ends_after_malformed_path) {
  send(std::string("GET /rate/%zz HTTP/1.1\r\nHost: x\r\n\r\n") + health);
  EXPECT_EQ(given_.find("HTTP/1.1 400 Bad Request"), 0u) << given_;
  EXPECT_EQ(given_.find("HTTP/1.1", 1), std::string::npos) << given_;
}

// -------------------------------------------------------------------------- undelivered quotas

TEST_F(HttpSessionTest, keeps_reservation_after_its_reply_was_sent) {
  reserve();
  answer(QuotaCode::ok, 77);
  EXPECT_NE(given_.find("\"reservation\":\"000000000000004d\""), std::string::npos) << given_;
  session_.on_failed();
  EXPECT_EQ(backend_.cancelled, Reservations{});
}

TEST_F(HttpSessionTest, cancels_reservation_admitted_after_connection_ended) {
  reserve();
  session_.on_failed();
  answer(QuotaCode::ok, 77);
  EXPECT_EQ(backend_.cancelled, Reservations{77});
}

// The client can ask again, and gets the same answer.
TEST_F(HttpSessionTest, keeps_reservation_with_client_id) {
  post("reserve", R"({"subjects": ["gpt"], "id": "call"})");
  session_.on_failed();
  answer(QuotaCode::ok, 77);
  EXPECT_EQ(backend_.cancelled, Reservations{});
}

// The store names the reservation in the answer to every call about it.
TEST_F(HttpSessionTest, keeps_reservation_named_by_extend_reply) {
  post("extend", R"({"reservation": "000000000000004d"})");
  session_.on_failed();
  answer(QuotaCode::ok, 77);
  EXPECT_EQ(backend_.cancelled, Reservations{});
}

// ------------------------------------------------------------------------------------- holders

TEST_F(HttpSessionTest, lists_holders_of_subject) {
  send("GET /v1/reservations?subject=gpt&limit=7 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(asked().calls[0].op, QuotaOp::holders);
  EXPECT_EQ(asked().calls[0].limit, 7u);
  EXPECT_EQ(asked().subjects.at(0), "gpt");
  answer(QuotaCode::ok);
  EXPECT_NE(given_.find(R"({"reservations":[],"cursor":null})"), std::string::npos) << given_;
}

TEST_F(HttpSessionTest, dry_run_reads_usage_only) {
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

// A longer page could exceed the bound of a reply.
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

TEST_F(HttpSessionTest, keeps_reservation_that_was_only_shown) {
  peer_reads_ = false;
  send("GET /v1/reservations/000000000000004d HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(asked().calls[0].op, QuotaOp::show);
  EXPECT_EQ(asked().calls[0].reservation, 77u);
  asked().holders.assign(1, {.reservation = 77, .state = api::ReservationState::open});
  answer(QuotaCode::ok, 77);
  ASSERT_EQ(io_.sent.size(), 1u);
  EXPECT_NE(io_.sent[0].find("\"held_ms\":0"), std::string::npos) << io_.sent[0];
  session_.on_failed();
  EXPECT_EQ(backend_.cancelled, Reservations{});
}

// ---------------------------------------------------------------- granted after it had waited

TEST_F(HttpSessionTest, answers_granted_reserve_in_next_iteration) {
  grant(queue_reserve(), QuotaCode::ok, 77);
  EXPECT_EQ(given_, "") << "in the next iteration";
  end_turn();
  EXPECT_NE(given_.find("\"reservation\":\"000000000000004d\""), std::string::npos) << given_;
  EXPECT_TRUE(backend_.batches.empty()) << "the session asks only once";
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  send(health);
  EXPECT_TRUE(given_.ends_with("Content-Length: 0\r\n\r\n")) << given_;
  session_.on_failed();
  EXPECT_EQ(backend_.cancelled, Reservations{});
}

TEST_F(HttpSessionTest, answers_denied_reserve_at_once) {
  grant(queue_reserve(), QuotaCode::wait_limit, 0);
  EXPECT_EQ(given_.find("HTTP/1.1 429 "), 0u) << given_;
  EXPECT_EQ(context_.waits.tickets_count(), 0u);
  session_.on_failed();
  EXPECT_EQ(backend_.abandoned, std::vector<api::Ticket>{});
}

// The client may have left during the other work of the same iteration. Like a client that waits:
// one that ends its side before the outcome does not want it.
TEST_F(HttpSessionTest, abandons_granted_waiter_when_client_leaves) {
  const api::Ticket ticket = queue_reserve();
  grant(ticket, QuotaCode::ok, 77);
  session_.on_end_of_stream();
  end_turn();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
  EXPECT_EQ(given_, "");
}

TEST_F(HttpSessionTest, abandons_granted_waiter_when_connection_fails) {
  const api::Ticket ticket = queue_reserve();
  grant(ticket, QuotaCode::ok, 77);
  session_.on_failed();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
  EXPECT_EQ(backend_.cancelled, Reservations{});
}

// ---------------------------------------------------------------------- written, and not sent

TEST_F(HttpSessionTest, cancels_reservations_written_and_not_sent) {
  peer_reads_ = false;
  reserve();
  answer(QuotaCode::ok, 77);  // in flight
  reserve();
  answer(QuotaCode::ok, 78);
  grant(queue_reserve(), QuotaCode::ok, 79);
  end_turn();
  post("extend", R"({"reservation": "0000000000000005"})");
  answer(QuotaCode::ok, 5);
  EXPECT_EQ(backend_.cancelled, Reservations{});
  session_.on_failed();
  EXPECT_EQ(backend_.cancelled, (Reservations{78, 79}));
}

// The kernel may have taken a part of a send that fails; a part of an answer is of no use.
TEST_F(HttpSessionTest, cancels_reservations_the_kernel_did_not_take) {
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
  EXPECT_EQ(backend_.cancelled, (Reservations{78, 79}));
}

TEST_F(HttpSessionTest, keeps_reservation_sent_before_unsent_replies) {
  reserve();
  answer(QuotaCode::ok, 77);
  peer_reads_ = false;
  send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");  // in flight
  send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  session_.on_failed();
  EXPECT_EQ(backend_.cancelled, Reservations{});
}

}  // namespace
}  // namespace sluice::session
