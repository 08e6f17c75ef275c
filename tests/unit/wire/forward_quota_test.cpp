// Goal: calls reach the other node as they were asked for, and nothing that a call can never ask
//       for does.
// Method: batches are written and read again; single values of a frame are set with the library.
#include "wire/forward_quota.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <sluicegate.capnp.h>

#include <cstring>
#include <functional>
#include <string>

#include "base/limits.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_reader.hpp"
#include "wire/quota_outcomes.hpp"
#include "wire/visit_time.hpp"

namespace sluice::wire {
namespace {

using api::QuotaBatch;
using api::QuotaCall;
using api::QuotaOp;

constexpr uint64_t sender = 77;

class Received {
 public:
  explicit Received(FrameWords words) : words_(std::move(words)) {
    const auto decoded = decode(std::as_bytes(std::span(words_)));
    if (!decoded) {
      ADD_FAILURE() << error_name(decoded.error().code);
      return;
    }
    id = decoded->id;
    const auto& request = std::get<ForwardQuotaRequest>(decoded->body);
    from = request.sender;
    is_read = read_calls(request, batch, wants_outcome);
  }

  uint64_t id = 0, from = 0;
  bool is_read = false;
  QuotaBatch batch;
  std::vector<bool> wants_outcome;

 private:
  const FrameWords words_;
};

void add(QuotaBatch& batch, QuotaCall call, const std::vector<std::string_view>& subjects) {
  call.first_subject = static_cast<uint32_t>(batch.subjects.size());
  call.subjects_count = static_cast<uint8_t>(subjects.size());
  batch.calls.push_back(call);
  batch.subjects.insert(batch.subjects.end(), subjects.begin(), subjects.end());
}

TEST(ForwardQuota, brings_all_that_a_reserve_asks_for) {
  QuotaBatch sent;
  add(sent,
      {.op = QuotaOp::reserve,
       .flags = api::quota_flag::may_wait | api::quota_flag::wants_limits,
       .given_bits = api::given::input_tokens | api::given::cost,
       .lifetime_ms = 5'000,
       .wait_ms_max = 400,
       .ticket = 9,
       .amounts = {.requests = 2, .input_tokens = 30, .output_tokens = 40, .cost = 50},
       .binding = binding_of_node | 6,
       .client_id = "id-1",
       .owner = "somebody"},
      {"{t}model", "{t}tenant"});
  api::WaitAnswer wanted;
  sent.wait_answers = {&wanted};
  const Received received(encode_forward_quota(12, sender, sent));
  EXPECT_EQ(received.id, 12U);
  EXPECT_EQ(received.from, sender);
  ASSERT_TRUE(received.is_read);
  ASSERT_EQ(received.batch.calls.size(), 1U);
  const QuotaCall& call = received.batch.calls[0];
  EXPECT_EQ(call.op, QuotaOp::reserve);
  EXPECT_EQ(call.flags, sent.calls[0].flags);
  EXPECT_EQ(call.given_bits, sent.calls[0].given_bits);
  EXPECT_EQ(call.lifetime_ms, 5'000U);
  EXPECT_EQ(call.wait_ms_max, 400U);
  EXPECT_EQ(call.ticket, api::no_ticket);  // it belongs to the node that sends
  EXPECT_EQ(call.amounts, sent.calls[0].amounts);
  EXPECT_EQ(call.binding, sent.calls[0].binding);
  EXPECT_EQ(call.client_id, "id-1");
  EXPECT_EQ(call.owner, "somebody");
  EXPECT_EQ(received.batch.subjects, sent.subjects);
  EXPECT_EQ(received.wants_outcome, std::vector{true});
}

TEST(ForwardQuota, brings_each_operation_by_its_name) {
  using enum QuotaOp;
  const std::vector ops{reserve, check, record, consume, usage, remove, position, holders, reset};
  QuotaBatch sent;
  for (const QuotaOp op : ops) add(sent, {.op = op, .limit = 7, .cursor = 8}, {"subject"});
  const std::vector about_reservations{settle,      cancel,   extend,      show,
                                       end_binding, end_part, extend_part, expire_part};
  for (const QuotaOp op : about_reservations) {
    sent.calls.push_back({.op = op, .cached_input_tokens = 3, .reservation = 99});
  }
  for (const QuotaCall& call : sent.calls) EXPECT_TRUE(may_forward(call.op));
  const Received received(encode_forward_quota(1, sender, sent));
  // Only a settle, or the end of a part, knows cached tokens without their input.
  EXPECT_FALSE(received.is_read);
  for (QuotaCall& call : sent.calls) call.cached_input_tokens = 0;
  const Received again(encode_forward_quota(1, sender, sent));
  ASSERT_TRUE(again.is_read);
  ASSERT_EQ(again.batch.calls.size(), sent.calls.size());
  for (size_t i = 0; i < sent.calls.size(); ++i) {
    EXPECT_EQ(again.batch.calls[i].op, sent.calls[i].op);
    EXPECT_EQ(again.batch.calls[i].reservation, sent.calls[i].reservation);
    EXPECT_EQ(again.batch.calls[i].limit, sent.calls[i].limit);
    EXPECT_EQ(again.batch.calls[i].cursor, sent.calls[i].cursor);
  }
  for (const QuotaOp op : {page, reset_all, leave_queues}) {
    EXPECT_FALSE(may_forward(op));
  }
}

TEST(ForwardQuota, brings_what_nodes_report_of_waiters_and_their_parts) {
  QuotaBatch sent;
  sent.calls.push_back({.op = QuotaOp::part_fits,
                        .place = 5,
                        .home_shard = 3,
                        .shard = api::stop_of_node(1),
                        .waiter = 70});
  sent.calls.push_back({.op = QuotaOp::part_is_out, .home_shard = 4, .waiter = 71});
  sent.calls.push_back(
      {.op = QuotaOp::leave_node, .waiter = 2, .cursor = ~uint64_t{0}, .arrival_ns = 9});
  const Received received(encode_forward_quota(1, sender, sent));
  ASSERT_TRUE(received.is_read);
  const std::vector<QuotaCall>& calls = received.batch.calls;
  EXPECT_EQ(calls.at(0).op, QuotaOp::part_fits);
  EXPECT_EQ(calls.at(0).place, 5);
  EXPECT_EQ(calls.at(0).shard, 3);
  EXPECT_EQ(calls.at(0).waiter, 70U);
  EXPECT_EQ(calls.at(1).shard, 4);
  EXPECT_EQ(calls.at(2).op, QuotaOp::leave_node);
  EXPECT_EQ(calls.at(2).cursor, ~uint64_t{0});
  EXPECT_EQ(calls.at(2).arrival_ns, 9);
  sent.calls[0].place = limits::call_subjects_max;
  EXPECT_FALSE(Received(encode_forward_quota(1, sender, sent)).is_read);
}

constexpr uint64_t first_number = uint64_t{2} << api::Arrival::node_bit | 99;  // of node 2

QuotaBatch visited_batch() {
  QuotaBatch batch;
  add(batch, {.op = QuotaOp::consume, .amounts = {.input_tokens = 5}}, {"model", "tenant"});
  batch.pass = api::Pass::ask;
  batch.arrival = {.ns = 123'456, .number = first_number};
  batch.asker = 8;
  batch.visit = {.number = 3, .home = 2, .places = {17}, .subject_bits = {2}};
  batch.answers.resize(1);
  api::SpreadCall part{.has_quota = true,
                       .rounds = 2,
                       .problem_place = 1,
                       .problem = api::QuotaCode::unknown_subject,
                       .code = api::QuotaCode::tpm_exceeded,
                       .fits_at_ns = 5,
                       .earliest_ns = never_in_ns,
                       .queue_fits_at_ns = unset_in_ns,
                       .output_tokens = 70,
                       .reservation = 81,
                       .lifetime_ms = 900};
  part.holds.fill(api::SpreadCall::no_hold);
  part.waiters.fill(api::no_waiter);
  batch.spread.push_back(part);
  return batch;
}

// It waits already, and has a place there.
QuotaBatch tried_batch() {
  QuotaBatch batch = visited_batch();
  api::SpreadCall& part = batch.spread[0];
  part.is_try = true;
  part.waiters = {
      60, 61, 62, api::no_waiter, api::no_waiter, api::no_waiter, api::no_waiter, api::no_waiter};
  part.home_shard = 3;
  part.fit_bits = 7;
  part.no_waiter_code = api::QuotaCode::waiters_full;
  batch.subjects = {"", ""};
  return batch;
}

void expect_same_part(const api::SpreadCall& read, const api::SpreadCall& sent) {
  EXPECT_EQ(read.state, sent.state);
  EXPECT_EQ(read.has_quota, sent.has_quota);
  EXPECT_EQ(read.limits_anything, sent.limits_anything);
  EXPECT_EQ(read.reservations_full, sent.reservations_full);
  EXPECT_EQ(read.awaits_own, sent.awaits_own);
  EXPECT_EQ(read.awaits_others, sent.awaits_others);
  EXPECT_EQ(read.is_repeat, sent.is_repeat);
  EXPECT_EQ(read.rounds, sent.rounds);
  EXPECT_EQ(read.problem, sent.problem);
  EXPECT_EQ(read.problem_place, sent.problem_place);
  EXPECT_EQ(read.code, sent.code);
  EXPECT_EQ(read.fits_at_ns, sent.fits_at_ns);
  EXPECT_EQ(read.earliest_ns, sent.earliest_ns);
  EXPECT_EQ(read.queue_fits_at_ns, sent.queue_fits_at_ns);
  EXPECT_EQ(read.output_tokens, sent.output_tokens);
  EXPECT_EQ(read.reservation, sent.reservation);
  EXPECT_EQ(read.lifetime_ms, sent.lifetime_ms);
  EXPECT_EQ(api::holds_anything(read), api::holds_anything(sent));
  EXPECT_EQ(read.is_try, sent.is_try);
  EXPECT_EQ(read.waiters[0], sent.waiters[0]);
  EXPECT_EQ(read.home_shard, sent.home_shard);
  EXPECT_EQ(read.fit_bits, sent.fit_bits & 2);  // of the node's subjects
  EXPECT_EQ(read.waiters[1] != api::no_waiter, sent.waiters[1] != api::no_waiter);
  EXPECT_EQ(read.waiters[2], api::no_waiter);
  EXPECT_EQ(read.no_waiter_code, sent.no_waiter_code);
}

TEST(ForwardQuota, brings_the_share_of_a_node_in_a_pass) {
  using enum api::Pass;
  for (const api::Pass pass : {look, ask, await, apply}) {
    QuotaBatch sent = visited_batch();
    sent.pass = pass;
    const Received received(encode_forward_quota(1, sender, sent));
    ASSERT_TRUE(received.is_read);
    EXPECT_EQ(received.batch.pass, pass);
    EXPECT_EQ(received.batch.arrival, sent.arrival);
    EXPECT_EQ(received.batch.arrival_of(0).number, first_number + 17);
    EXPECT_EQ(received.batch.asker, 8U);
    EXPECT_EQ(received.batch.visit.number, 3U);
    EXPECT_EQ(received.batch.visit.home, 2U);
    EXPECT_EQ(received.batch.visit.places, sent.visit.places);
    EXPECT_EQ(received.batch.visit.subject_bits, sent.visit.subject_bits);
    expect_same_part(received.batch.spread.at(0), sent.spread[0]);
  }
}

TEST(ForwardQuota, brings_the_try_of_a_call_that_waits) {
  const QuotaBatch sent = tried_batch();
  const Received received(encode_forward_quota(1, sender, sent));
  ASSERT_TRUE(received.is_read);
  expect_same_part(received.batch.spread.at(0), sent.spread[0]);
}

TEST(ForwardQuota, brings_the_verdict_that_a_call_waits) {
  QuotaBatch sent = visited_batch();
  sent.pass = api::Pass::apply;
  sent.calls[0].flags |= api::quota_flag::may_wait;
  sent.spread[0].state = api::SpreadCall::State::queued;
  sent.answers[0].code = api::QuotaCode::queued;
  const Received received(encode_forward_quota(1, sender, sent));
  ASSERT_TRUE(received.is_read);
  EXPECT_EQ(received.batch.spread.at(0).state, api::SpreadCall::State::queued);
}

TEST(ForwardQuota, brings_what_a_node_says_of_its_part) {
  QuotaBatch sent = visited_batch();
  sent.spread[0].holds[1] = 4;
  sent.answers[0].code = api::QuotaCode::id_in_use;
  sent.part_reports.push_back({.call = 0, .number = 2, .limit = {.subject = 1, .amount = 60}});
  sent.visit.is_known = true;
  sent.visit.clock_ns = 77;
  const FrameWords words = encode_outcomes(5, outcomes_of(sent));
  EXPECT_LE(std::span(words).size_bytes(), outcomes_bytes_max(sent));
  const auto frame = read_frame(std::as_bytes(std::span(words)), limits::reply_bytes_max);
  const auto read = read_outcomes({std::get<base::Complete<Frame>>(frame).value});
  ASSERT_TRUE(read);
  expect_same_part(read->parts.at(0), sent.spread[0]);
  EXPECT_EQ(read->answers.at(0).code, api::QuotaCode::id_in_use);
  EXPECT_TRUE(read->knows_round);
  EXPECT_EQ(read->clock_ns, 77);
  ASSERT_EQ(read->reports.size(), 1U);
  EXPECT_EQ(read->reports[0].number, 2U);
  EXPECT_EQ(read->reports[0].limit.subject, 1);
  EXPECT_EQ(read->reports[0].limit.amount, 60U);
}

TEST(ForwardQuota, refuses_shares_that_are_impossible) {
  using Breaks = std::function<void(QuotaBatch&)>;
  for (const Breaks& breaks : std::initializer_list<Breaks>{
           [](QuotaBatch& batch) { batch.visit.home = limits::instances_max; },
           [](QuotaBatch& batch) { batch.arrival.ns = -1; },
           [](QuotaBatch& batch) { batch.spread[0].problem_place = limits::call_subjects_max; },
           [](QuotaBatch& batch) { batch.spread[0].fits_at_ns = unset_in_ns - 1; },
           [](QuotaBatch& batch) { batch.spread[0].code = api::QuotaCode(api::quota_codes_count); },
           [](QuotaBatch& batch) { batch.spread[0].is_repeat = true; },  // of what answer?
           [](QuotaBatch& batch) { batch.spread[0].state = api::SpreadCall::State::admitted; },
           [](QuotaBatch& batch) { batch.spread[0].holds[1] = 4; },          // before it is asked
           [](QuotaBatch& batch) { batch.spread[0].awaits_others = true; },  // nor asked then
           [](QuotaBatch& batch) { batch.visit.subject_bits = {0}; },
           [](QuotaBatch& batch) { batch.visit.subject_bits = {3}; },  // the first is its home's
           [](QuotaBatch& batch) { batch.visit.subject_bits = {4}; },
           [](QuotaBatch& batch) { batch.calls[0].op = QuotaOp::usage; },
           [](QuotaBatch& batch) { batch.calls[0].subjects_count = 1; },
           [](QuotaBatch& batch) {
             batch.spread[0].no_waiter_code = api::QuotaCode(api::quota_codes_count);
           },
           [](QuotaBatch& batch) {
             batch.pass = api::Pass::apply;
             batch.spread[0].state = api::SpreadCall::State::admitted;
             batch.answers[0].code = api::QuotaCode::rpm_exceeded;
           },
           [](QuotaBatch& batch) {
             batch.pass = api::Pass::apply;
             batch.spread[0].state = api::SpreadCall::State::queued;
           },
           [](QuotaBatch& batch) {  // one call twice
             batch.calls.push_back(batch.calls[0]);
             batch.spread.push_back(batch.spread[0]);
             batch.answers.resize(2);
             batch.visit.places = {17, 17};
             batch.visit.subject_bits = {2, 2};
           },
       }) {
    QuotaBatch sent = visited_batch();
    breaks(sent);
    EXPECT_FALSE(Received(encode_forward_quota(1, sender, sent)).is_read);
  }
}

TEST(ForwardQuota, refuses_tries_that_are_impossible) {
  using Breaks = std::function<void(QuotaBatch&)>;
  for (const Breaks& breaks : std::initializer_list<Breaks>{
           [](QuotaBatch& batch) { batch.calls[0].flags |= api::quota_flag::may_wait; },
           [](QuotaBatch& batch) { batch.calls[0].op = QuotaOp::record; },
           [](QuotaBatch& batch) { batch.spread[0].no_waiter_code = api::QuotaCode::ok; },
           [](QuotaBatch& batch) { batch.spread[0].no_waiter_code = api::QuotaCode::queued; },
           [](QuotaBatch& batch) { batch.visit.home = 1; },  // that is another one's number
           [](QuotaBatch& batch) {                           // which its place would make it
             batch.arrival.number = (uint64_t{3} << api::Arrival::node_bit) - 1;
           },
       }) {
    QuotaBatch sent = tried_batch();
    breaks(sent);
    EXPECT_FALSE(Received(encode_forward_quota(1, sender, sent)).is_read);
  }
  QuotaBatch waiting = visited_batch();
  waiting.calls[0].flags |= api::quota_flag::may_wait;
  EXPECT_TRUE(Received(encode_forward_quota(1, sender, waiting)).is_read);
  waiting.visit.home = 1;
  EXPECT_FALSE(Received(encode_forward_quota(1, sender, waiting)).is_read);
}

TEST(ForwardQuota, brings_the_quota_that_is_put) {
  QuotaBatch sent;
  add(sent, {.op = QuotaOp::put}, {"m"});
  add(sent, {.op = QuotaOp::usage}, {"m"});
  sent.new_quotas.resize(2);
  sent.new_quotas[0] = {.limits = {{.name = "tpm",
                                    .metric = api::Metric::tokens,
                                    .kind = api::LimitKind::sliding,
                                    .amount = 30'000,
                                    .period_ms = 60'000}},
                        .refund_expired = true,
                        .overtakers_max = 3};
  const Received received(encode_forward_quota(1, sender, sent));
  ASSERT_TRUE(received.is_read);
  EXPECT_EQ(received.batch.new_quotas, sent.new_quotas);
}

TEST(ForwardQuota, flags_mean_what_their_operation_has_them_mean) {
  QuotaBatch sent;
  add(sent,
      {.op = QuotaOp::put, .flags = api::quota_flag::not_durable | api::quota_flag::handed_over},
      {"m"});
  sent.new_quotas.resize(1);
  sent.calls.push_back({.op = QuotaOp::cancel,
                        .flags = api::quota_flag::keep_requests | api::quota_flag::undelivered});
  add(sent,
      {.op = QuotaOp::consume,
       .flags = api::quota_flag::may_wait | api::quota_flag::connection_waiters_full},
      {"m"});
  const Received received(encode_forward_quota(1, sender, sent));
  ASSERT_TRUE(received.is_read);
  EXPECT_EQ(received.batch.calls[0].flags, api::quota_flag::handed_over);  // not of this disk
  EXPECT_EQ(received.batch.calls[1].flags, sent.calls[1].flags);
  EXPECT_EQ(received.batch.calls[2].flags, sent.calls[2].flags);
}

TEST(ForwardQuota, brings_a_quota_whose_time_zone_is_missing_here) {
  QuotaBatch sent;
  for (int call = 0; call < 2; ++call) add(sent, {.op = QuotaOp::put}, {"m"});
  sent.new_quotas.resize(2);
  sent.new_quotas[0] = {.limits = {{.name = "rpd",
                                    .kind = api::LimitKind::calendar,
                                    .amount = 5,
                                    .unit = api::CalendarUnit::day,
                                    .time_zone = "Mars/Olympus"}},
                        .profile = {}};
  const Received received(encode_forward_quota(1, sender, sent));
  ASSERT_TRUE(received.is_read);
  EXPECT_EQ(received.batch.new_quotas, sent.new_quotas);
}

TEST(ForwardQuota, without_calls_announces_the_sender) {
  const Received received(encode_forward_quota(3, sender, {}));
  EXPECT_TRUE(received.is_read);
  EXPECT_EQ(received.from, sender);
  EXPECT_TRUE(received.batch.calls.empty());
}

TEST(ForwardQuota, is_not_longer_than_it_was_said_to_be) {
  QuotaBatch sent;
  add(sent, {.op = QuotaOp::reserve, .client_id = "x", .owner = std::string_view("12345678")},
      {"a", std::string_view("123456789")});
  sent.calls.push_back({.op = QuotaOp::settle});
  add(sent, {.op = QuotaOp::put}, {"m"});
  sent.new_quotas.resize(3);
  sent.new_quotas[2].limits.resize(1);
  size_t bytes = forward_quota_head_bytes;
  for (size_t i = 0; i < sent.calls.size(); ++i) bytes += forwarded_call_bytes(sent, i);
  const FrameWords words = encode_forward_quota(1, sender, sent);
  EXPECT_LE(words.size() * sizeof(uint64_t), bytes);
  EXPECT_GT(words.size() * sizeof(uint64_t) + 64, bytes);
  EXPECT_EQ(words[0] & 0xFFFF'FFFF, 0U);  // one segment
}

TEST(ForwardQuota, of_a_visit_is_not_longer_than_it_was_said_to_be) {
  QuotaBatch sent = visited_batch();
  for (const uint32_t place : {18U, 19U}) {
    add(sent, {.op = QuotaOp::consume, .client_id = "123456789"}, {"model", "123456789"});
    sent.spread.push_back(sent.spread[0]);
    sent.answers.emplace_back();
    sent.visit.places.push_back(place);
    sent.visit.subject_bits.push_back(2);
  }
  const FrameWords words = encode_forward_quota(1, sender, sent);
  EXPECT_LE(std::span(words).size_bytes(), forward_quota_bytes(sent));
  EXPECT_GT(std::span(words).size_bytes() + 128, forward_quota_bytes(sent));
  EXPECT_EQ(words[0] & 0xFFFF'FFFF, 0U);  // one segment
}

// A frame with one reserve, which `fill` changes.
bool is_read_with(const std::function<void(schema::QuotaCall::Builder)>& fill) {
  capnp::MallocMessageBuilder message;
  auto frame = message.initRoot<schema::ClientFrame>();
  auto forward = frame.initForwardQuota();
  forward.setSender(sender);
  auto call = forward.initCalls(1)[0];
  call.initSubjects(1).set(0, kj::StringPtr("m").asBytes());
  fill(call);
  const auto flat = capnp::messageToFlatArray(message);
  FrameWords words(flat.size());
  std::memcpy(words.data(), flat.begin(), words.size() * sizeof(uint64_t));
  return Received(words).is_read;
}

TEST(ForwardQuota, refuses_what_no_call_asks_for) {
  using Call = schema::QuotaCall::Builder;
  EXPECT_TRUE(is_read_with([](Call) {}));
  EXPECT_FALSE(is_read_with([](Call call) { call.setInputTokens(~uint64_t{0}); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.setCost(~uint64_t{0}); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.setCachedInputTokens(1); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.setGiven(16); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.setLifetimeMs(limits::lifetime_ms_min - 1); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.setLifetimeMs(limits::lifetime_ms_max + 1); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.setWaitLimitMs(limits::wait_ms_max + 1); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.setBinding(1); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.setPlace(1); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.initClientId(limits::client_id_bytes_max + 1); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.initOwner(limits::client_id_bytes_max + 1); }));
  EXPECT_FALSE(is_read_with([](Call call) { call.initSubjects(256); }));
  EXPECT_FALSE(
      is_read_with([](Call call) { call.setOperation(static_cast<schema::QuotaOperation>(15)); }));
  EXPECT_FALSE(is_read_with(
      [](Call call) { call.setOperation(schema::QuotaOperation::SETTLE); }));  // with a subject
  const auto put = [](const char* quota) {
    return is_read_with([quota](Call call) {
      call.setOperation(schema::QuotaOperation::PUT);
      call.setQuota(quota);
    });
  };
  EXPECT_TRUE(put(R"({"limits":[]})"));
  EXPECT_FALSE(put("{"));
  EXPECT_FALSE(put(R"({"limits":[{"name":"x"}]})"));
}

TEST(ForwardQuota, has_a_sender) {
  const FrameWords words = encode_forward_quota(3, 0, {});
  EXPECT_FALSE(decode(std::as_bytes(std::span(words))));
}

TEST(ForwardQuota, takes_so_many_calls) {
  QuotaBatch sent;
  for (size_t i = 0; i < forwarded_calls_max; ++i) add(sent, {.op = QuotaOp::record}, {"m"});
  EXPECT_TRUE(Received(encode_forward_quota(1, sender, sent)).is_read);
  add(sent, {.op = QuotaOp::record}, {"m"});
  EXPECT_FALSE(Received(encode_forward_quota(1, sender, sent)).is_read);
}

}  // namespace
}  // namespace sluice::wire
