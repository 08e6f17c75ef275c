// Goal: undelivered reservations of a native client are cancelled, wherever between decision and
//       answer its connection ends.
// Method: a session over a backend that only records calls; the test answers them.
#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;

using NativeSessionUndeliveredTest = NativeQuotaFixture;

TEST_F(NativeSessionUndeliveredTest, cancels_reservation_admitted_after_connection_ended) {
  send_reserve(7);
  send_settle(8, 5);
  session_.close();
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  asked().answers[1] = {.code = QuotaCode::tpm_exceeded};
  answer();
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 5};
  answer();
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{77});
}

// The client can ask again, and gets the same answer.
TEST_F(NativeSessionUndeliveredTest, keeps_reservation_with_client_id) {
  send(7, [](ClientFrame frame) {
    auto reserve = frame.initReserve();
    reserve.setSubjects(kj::StringPtr("gptclaude").asBytes());
    reserve.setSubjectSizes({3, 6});
    reserve.setIds(kj::StringPtr("call").asBytes());
    reserve.setIdSizes({0, 4});
  });
  session_.close();
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  asked().answers[1] = {.code = QuotaCode::ok, .reservation = 78};
  answer();
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{77});
}

TEST_F(NativeSessionUndeliveredTest, abandons_granted_waiters_when_connection_ends_before_write) {
  send_reserve(7, wire::quota_bit::may_wait);
  const api::Ticket first = asked().calls[0].ticket;
  const api::Ticket second = asked().calls[1].ticket;
  answer_with({QuotaCode::queued, QuotaCode::queued});
  grant_unwritten(second, 77);
  session_.close();
  EXPECT_EQ(backend_.abandoned, (std::vector{first, second}));
  EXPECT_TRUE(backend_.cancelled.empty()) << "the owner refunds it";
}

TEST_F(NativeSessionUndeliveredTest, cancels_reservations_written_and_not_sent) {
  send_reserve(5, wire::quota_bit::may_wait);
  const api::Ticket waiting = asked().calls[0].ticket;
  answer_with({QuotaCode::queued, QuotaCode::queued});
  peer_reads_ = false;
  send_reserve(7);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  asked().answers[1] = {.code = QuotaCode::tpm_exceeded};
  answer();  // in flight
  send_reserve(8);
  asked().answers[0] = {.code = QuotaCode::tpm_exceeded};
  asked().answers[1] = {.code = QuotaCode::ok, .reservation = 78};
  answer();
  send_settle(9, 5);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 5};
  answer();
  grant(waiting, api::QuotaCode::ok, 79);
  EXPECT_TRUE(backend_.cancelled.empty());
  session_.on_failed();
  EXPECT_EQ(backend_.cancelled, (std::vector<uint64_t>{78, 79}));
}

// The kernel may have taken a part of a send that fails; a part of a frame is of no use.
TEST_F(NativeSessionUndeliveredTest, cancels_reservations_the_kernel_did_not_take) {
  peer_reads_ = false;
  for (const uint64_t id : {6, 7, 8}) {
    send_reserve(id);
    asked().answers[0] = {.code = QuotaCode::ok, .reservation = 70 + id};
    asked().answers[1] = {.code = QuotaCode::ok, .reservation = 80 + id};
    answer();
  }
  const auto frame_bytes = static_cast<uint32_t>(io_.sent.at(0).size());
  session_.on_sent(static_cast<int32_t>(frame_bytes), 0);
  end_turn();
  ASSERT_EQ(io_.sent.at(1).size(), 2 * frame_bytes);
  session_.on_sent(-104, frame_bytes - 8);
  EXPECT_EQ(backend_.cancelled, (std::vector<uint64_t>{78, 88}));
  EXPECT_TRUE(session_.ended());
}

TEST_F(NativeSessionUndeliveredTest, cancels_reservations_of_send_that_fails_with_connection) {
  peer_reads_ = false;
  send_reserve(7);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  answer();
  session_.on_failed();
  EXPECT_TRUE(backend_.cancelled.empty());
  session_.on_sent(-125, static_cast<uint32_t>(io_.sent.at(0).size()));
  EXPECT_EQ(backend_.cancelled, std::vector<uint64_t>{77});
}

TEST_F(NativeSessionUndeliveredTest, keeps_reservations_that_were_sent) {
  send_reserve(7);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  asked().answers[1] = {.code = QuotaCode::ok, .reservation = 78};
  answer();
  session_.close();
  EXPECT_TRUE(backend_.cancelled.empty());
}

}  // namespace
}  // namespace sluice::session
