// Goal: streams are answered in any order and each exactly once; one that ends takes with it what
//       it holds (tickets, reservations, memory).
// Method: http2_session_driver.hpp.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/hpack.hpp"
#include "tests/support/log_lines.hpp"
#include "tests/unit/session/http2_session_driver.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;
namespace hpack = support::hpack;
using support::http2_frame;
using wire::Http2Error;

TEST_F(Http2SessionTest, confirms_no_release_that_reached_no_owner) {
  const int32_t stream = client_.ask("DELETE", "/rate/k/7");
  exchange();
  decide_all(api::Verdict::owner_unreachable);
  exchange();
  EXPECT_EQ(client_.answer(stream).status, 502);
}

TEST_F(Http2SessionTest, answers_streams_in_any_order) {
  const int32_t rate = client_.ask("POST", "/rate/k");
  const int32_t health = client_.ask("GET", "/healthz");
  exchange();
  EXPECT_FALSE(client_.answer(rate).ended);
  EXPECT_EQ(client_.answer(health).status, 200);
  decide_all();
  exchange();
  EXPECT_EQ(client_.answer(rate).status, 200);
  EXPECT_EQ(client_.answer(rate).body, "1");
  EXPECT_EQ(client_.answer(rate).fields.at("ratelimit-policy"), "\"window\";q=5;w=1");
}

TEST_F(Http2SessionTest, a_line_of_the_log_is_work_of_the_turn) {
  support::LogLines log_lines;
  for (const bool logs : {false, true}) {
    if (logs) log_lines.start();
    exchange();
    client_.ask("GET", "/healthz");
    std::string bytes = client_.output();
    context_.work.spend(context_.work.turn_work() - work::log_line);
    session_->on_received(std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(context_.work.is_over(), logs);
  }
  log_lines.lines();
}

TEST_F(Http2SessionTest, logs_requests_that_are_undecided_when_the_connection_ends) {
  support::LogLines log_lines;
  log_lines.start();
  client_.ask("POST", "/rate/undecided");
  const int32_t reset = client_.ask("POST", "/rate/reset");
  client_.ask("POST", "/rate/waiting?canWait=true");
  client_.ask("GET", "/debug/key");
  exchange();
  decide(context_.turn.requests()[2], api::Verdict::queued);
  client_.reset(reset);
  exchange();
  context_.turn.clear();  // the verdicts on the others find no session
  session_->close();
  session_ = begin();
  EXPECT_EQ(
      log_lines.exchanges(),
      (std::vector<std::string>{"/rate/waiting 499", "/rate/undecided 499", "/rate/reset 499"}));
}

TEST_F(Http2SessionTest, decides_the_requests_of_a_group_of_streams_together) {
  const auto ask = [&](uint32_t count) {
    for (uint32_t number = 0; number < count; ++number) client_.ask("POST", "/rate/k");
    exchange();
  };
  ask(Http2Session::group_requests - 1);
  EXPECT_EQ(context_.turn.requests().size(), Http2Session::group_requests - 1);
  EXPECT_EQ(backend_.executions, 0u);
  ask(2 * Http2Session::group_requests);
  EXPECT_EQ(backend_.executions, 2u);
}

TEST_F(Http2SessionTest, answers_json_and_head) {
  const int32_t json = client_.ask("POST", "/rate/k", {}, {{"accept", "application/json"}});
  const int32_t head = client_.ask("HEAD", "/healthz");
  exchange();
  decide_all();
  exchange();
  EXPECT_EQ(client_.answer(json).body, R"({"request_id":1})");
  EXPECT_TRUE(client_.answer(head).ended);
  EXPECT_EQ(client_.answer(head).status, 405);
  EXPECT_EQ(client_.answer(head).body, "");
}

TEST_F(Http2SessionTest, refuses_a_head_on_its_stream_alone) {
  const int32_t bad = client_.ask("GET", "/%zz");
  const int32_t large = client_.ask("GET", "/healthz", {}, {{"a", std::string(9'000, 'v')}});
  const int32_t good = client_.ask("GET", "/healthz");
  exchange();
  EXPECT_EQ(client_.answer(bad).status, 400);
  EXPECT_EQ(client_.answer(large).status, 431);
  EXPECT_EQ(client_.answer(good).status, 200);
}

// ------------------------------------------------------------------------------------- bodies

TEST_F(Http2SessionTest, reads_the_body_of_a_quota_call) {
  const int32_t stream = reserve();
  exchange();
  ASSERT_EQ(backend_.batches.size(), 1u);
  answer_quota(QuotaCode::ok, 77);
  exchange();
  EXPECT_EQ(client_.answer(stream).status, 200);
  EXPECT_TRUE(backend_.cancelled.empty());
}

TEST_F(Http2SessionTest, refuses_a_body_above_64_kib) {
  const int32_t fits = client_.ask("PUT", "/v1/subjects/a", std::string(65'536, ' '));
  const int32_t large = client_.ask("PUT", "/v1/subjects/b", std::string(65'537, ' '));
  const int32_t announced =
      client_.ask("PUT", "/v1/subjects/c", std::string(70'000, ' '), {{"content-length", "70000"}});
  const int32_t ignored = client_.ask("GET", "/healthz", std::string(65'537, ' '));
  exchange();
  EXPECT_EQ(client_.answer(fits).status, 400);  // not JSON
  EXPECT_EQ(client_.answer(large).status, 413);
  EXPECT_EQ(client_.answer(announced).status, 413);
  EXPECT_EQ(client_.answer(ignored).status, 200);
}

TEST_F(Http2SessionTest, large_body_changes_nothing_about_an_answer_that_is_still_to_come) {
  const std::string large(70'000, ' ');
  const int32_t decided = client_.ask("POST", "/rate/k", large);
  const int32_t inspected = client_.ask("GET", "/debug/k", large);
  exchange();
  EXPECT_FALSE(client_.answer(decided).ended);
  EXPECT_FALSE(client_.answer(inspected).ended);
  decide_all();
  session_->on_inspected(static_cast<uint64_t>(inspected), nullptr);
  exchange();
  EXPECT_EQ(client_.answer(decided).status, 200);
  EXPECT_EQ(client_.answer(inspected).status, 404);
}

TEST_F(Http2SessionTest, ends_the_stream_of_a_late_body_without_an_error_behind_its_answer) {
  client_.send_in_parts(1);
  const int32_t stream = client_.ask("GET", "/healthz", "body");
  exchange();
  EXPECT_TRUE(client_.answer(stream).ended);
  pass(context_.options.header_timeout_ms);
  EXPECT_EQ(client_.answer(stream).reset, static_cast<uint32_t>(Http2Error::no_error));
}

// Nobody waits for room that others hold: a body that finds none is refused.
TEST_F(Http2SessionTest, refuses_a_body_beyond_what_it_keeps_of_all) {
  constexpr size_t part_bytes = 8'000;
  client_.send_in_parts(part_bytes);
  const auto status_of_another = [&] {
    const int32_t stream = client_.ask("POST", "/v1/reserve", std::string(3 * part_bytes, ' '));
    exchange();
    return client_.answer(stream).status;
  };
  for (size_t kept = part_bytes; kept <= Http2RequestBody::kept_bytes_max; kept += part_bytes) {
    ASSERT_EQ(status_of_another(), 0) << kept;
  }
  EXPECT_EQ(status_of_another(), 503);
  client_.send_part(1);
  exchange();
  EXPECT_EQ(client_.answer(1).status, 503) << "also one that has begun";
  EXPECT_EQ(status_of_another(), 0) << "its room is free";
  EXPECT_EQ(status_of_another(), 503);
  client_.reset(3);
  exchange();
  EXPECT_EQ(status_of_another(), 0) << "so is that of one that has ended";
}

TEST_F(Http2SessionTest, logs_a_body_that_finds_no_room) {
  support::LogLines log_lines;
  log_lines.start();
  constexpr size_t part_bytes = 16'000;
  client_.send_in_parts(part_bytes);
  for (size_t kept = 0; kept <= Http2RequestBody::kept_bytes_max; kept += part_bytes) {
    client_.ask("POST", "/v1/reserve", std::string(2 * part_bytes, ' '));
    exchange();
  }
  EXPECT_EQ(log_lines.exchanges(), std::vector<std::string>{"/v1/reserve 503"});
}

TEST_F(Http2SessionTest, keeps_no_room_for_bodies_that_are_whole) {
  const std::string body = R"({"subjects": ["gpt"]})" + std::string(60'000, ' ');
  size_t calls = 0;
  for (size_t bytes = 0; bytes < 2 * Http2RequestBody::kept_bytes_max; bytes += body.size()) {
    client_.ask("POST", "/v1/reserve", body);
    exchange();
    EXPECT_EQ(backend_.batches.size(), ++calls);
  }
}

TEST_F(Http2SessionTest, continues_where_it_is_asked_to) {
  const int32_t stream = client_.ask("PUT", "/v1/subjects/a", "{", {{"expect", "100-continue"}});
  exchange();
  EXPECT_EQ(client_.answer(stream).interim, 100);
  EXPECT_EQ(client_.answer(stream).status, 400);
}

// ------------------------------------------------------------------------------------ waiting

TEST_F(Http2SessionTest, answers_a_waiter_on_its_stream) {
  const int32_t first = client_.ask("POST", "/rate/a?canWait=true");
  const int32_t second = client_.ask("POST", "/rate/b?canWait=true");
  exchange();
  const api::Ticket ticket = context_.turn.entries()[1].ticket;
  decide_all(api::Verdict::queued);
  grant(ticket);
  exchange();
  EXPECT_TRUE(client_.answer(second).ended);
  EXPECT_FALSE(client_.answer(first).ended);
  EXPECT_EQ(context_.waits.tickets_count(), 1u);
}

TEST_F(Http2SessionTest, has_nothing_to_do_while_its_streams_wait) {
  client_.ask("POST", "/rate/a?canWait=true");
  // A body is to follow.
  client_.raw(http2_frame(1, 4, 3, hpack::head("/v1/reserve", hpack::method_post)));
  exchange();
  decide_all(api::Verdict::queued);
  exchange();
  EXPECT_TRUE(context_.dirty.empty()) << "its worker would not sleep";
  EXPECT_TRUE(context_.ready.empty());
}

TEST_F(Http2SessionTest, leaves_the_queue_when_its_stream_is_reset) {
  const int32_t stream = client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  const api::Ticket ticket = context_.turn.entries()[0].ticket;
  decide_all(api::Verdict::queued);
  client_.reset(stream);
  exchange();
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
}

TEST_F(Http2SessionTest, abandons_an_entry_that_is_queued_after_its_stream_was_reset) {
  const int32_t stream = client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  client_.reset(stream);
  exchange();
  const api::Ticket ticket = context_.turn.entries()[0].ticket;
  decide_all(api::Verdict::queued);
  EXPECT_EQ(backend_.abandoned, std::vector{ticket});
}

TEST_F(Http2SessionTest, leaves_as_many_places_as_it_takes) {
  for (int count = 0; count < 4; ++count) client_.ask("POST", "/rate/a?canWait=true");
  exchange();
  const auto entries = context_.turn.entries();
  EXPECT_EQ(entries[2].flags & api::flag::connection_waiters_full, 0);
  EXPECT_NE(entries[3].flags & api::flag::connection_waiters_full, 0);
}

TEST_F(Http2SessionTest, drops_all_waiters_with_the_connection) {
  client_.ask("POST", "/rate/a?canWait=true");
  client_.ask("POST", "/rate/b?canWait=true");
  exchange();
  decide_all(api::Verdict::queued);
  session_->on_end_of_stream();
  end_turn();
  EXPECT_EQ(backend_.abandoned.size(), 2u);
}

TEST_F(Http2SessionTest, answers_what_is_decided_before_it_drops_the_waiters) {
  const int32_t waiting = client_.ask("POST", "/rate/k?canWait=true");
  const int32_t decided = client_.ask("POST", "/rate/k");
  exchange();
  const std::vector<route::Request> requests(context_.turn.requests().begin(),
                                             context_.turn.requests().end());
  decide(requests[0], api::Verdict::queued);
  decide(requests[1], api::Verdict::approved);
  context_.turn.clear();
  session_->on_end_of_stream();
  exchange();
  EXPECT_FALSE(client_.answer(waiting).ended);
  EXPECT_EQ(client_.answer(decided).status, 200);
  EXPECT_TRUE(client_.answer(decided).ended);
}

TEST_F(Http2SessionTest, answers_what_waits_for_room_before_it_drops_the_waiters) {
  client_.ask("POST", "/rate/k?canWait=true");
  exchange();
  decide_all(api::Verdict::queued);
  backend_.has_room = false;
  const int32_t stream = reserve();
  exchange();
  session_->on_end_of_stream();
  end_turn();
  EXPECT_TRUE(backend_.abandoned.empty());
  backend_.has_room = true;
  session_->unblock();
  end_turn();
  ASSERT_EQ(backend_.batches.size(), 1u);
  answer_quota(QuotaCode::ok, 77);
  exchange();
  EXPECT_EQ(client_.answer(stream).status, 200);
  EXPECT_EQ(backend_.abandoned.size(), 1u);
}

// -------------------------------------------------------------------------------- reservations

TEST_F(Http2SessionTest, cancels_a_reservation_that_a_reset_stream_does_not_learn_of) {
  const int32_t stream = reserve();
  exchange();
  client_.reset(stream);
  exchange();
  answer_quota(QuotaCode::ok, 77);
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{77});
}

TEST_F(Http2SessionTest, cancels_a_reservation_of_an_unsent_answer) {
  reserve();
  exchange();
  answer_quota(QuotaCode::ok, 77);
  session_->close();
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{77});
}

TEST_F(Http2SessionTest, cancels_a_reservation_that_the_kernel_did_not_take) {
  reserve();
  exchange();
  answer_quota(QuotaCode::ok, 77);
  end_turn();
  ASSERT_EQ(io_.sent.size(), 1u);
  EXPECT_TRUE(backend_.cancelled.empty());
  session_->on_sent(-1, static_cast<uint32_t>(io_.sent[0].size()));
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{77});
}

// A part of an answer is of no use.
TEST_F(Http2SessionTest, cancels_a_reservation_whose_last_byte_the_kernel_did_not_take) {
  reserve();
  exchange();
  answer_quota(QuotaCode::ok, 77);
  end_turn();
  ASSERT_EQ(io_.sent.size(), 1u);
  session_->on_sent(-1, 1);
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{77});
}

}  // namespace
}  // namespace sluice::session
