// Goal: what a native client has reserved, and was not and will not be told of, is given back,
//       wherever between decision and answer its connection ends.
// Method: a session over a backend that only keeps what it is asked, to be answered by the test.
#include "tests/unit/session/native_quota_fixture.hpp"

namespace sluice::session {
namespace {

using api::QuotaCode;

using NativeSessionUndeliveredTest = NativeQuotaFixture;

TEST_F(NativeSessionUndeliveredTest, gives_back_what_is_admitted_after_it_ended) {
  send_reserve(7);
  send_settle(8, 5);
  session_.close();
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  asked().answers[1] = {.code = QuotaCode::tpm_exceeded};
  answer();
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 5};
  answer();
  EXPECT_EQ(backend_.given_back, std::vector<uint64_t>{77});
}

// Its client can ask again, and is told the same.
TEST_F(NativeSessionUndeliveredTest, gives_nothing_back_that_has_an_id) {
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
  EXPECT_EQ(backend_.given_back, std::vector<uint64_t>{77});
}

TEST_F(NativeSessionUndeliveredTest, gives_back_what_was_granted_and_is_not_written) {
  send_reserve(7, wire::quota_bit::may_wait);
  const api::Ticket first = asked().calls[0].ticket;
  const api::Ticket second = asked().calls[1].ticket;
  answer_with({QuotaCode::queued, QuotaCode::queued});
  grant_unwritten(second, 77);
  session_.close();
  EXPECT_EQ(backend_.abandoned, (std::vector{first, second}));
  EXPECT_TRUE(backend_.given_back.empty()) << "the owner refunds it";
}

TEST_F(NativeSessionUndeliveredTest, gives_back_what_is_written_and_is_not_sent) {
  send_reserve(5, wire::quota_bit::may_wait);
  const api::Ticket waiting = asked().calls[0].ticket;
  answer_with({QuotaCode::queued, QuotaCode::queued});
  peer_reads_ = false;
  send_reserve(7);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  asked().answers[1] = {.code = QuotaCode::tpm_exceeded};
  answer();  // on its way
  send_reserve(8);
  asked().answers[0] = {.code = QuotaCode::tpm_exceeded};
  asked().answers[1] = {.code = QuotaCode::ok, .reservation = 78};
  answer();
  send_settle(9, 5);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 5};
  answer();
  grant(waiting, api::QuotaCode::ok, 79);
  EXPECT_TRUE(backend_.given_back.empty());
  session_.on_failed();
  EXPECT_EQ(backend_.given_back, (std::vector<uint64_t>{78, 79}));
}

// Of a send that fails the kernel may have taken a part; what of a frame it took is of no use.
TEST_F(NativeSessionUndeliveredTest, gives_back_what_the_kernel_did_not_take) {
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
  EXPECT_EQ(backend_.given_back, (std::vector<uint64_t>{78, 88}));
  EXPECT_TRUE(session_.ended());
}

TEST_F(NativeSessionUndeliveredTest, gives_back_a_send_that_ends_with_its_connection) {
  peer_reads_ = false;
  send_reserve(7);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  answer();
  session_.on_failed();
  EXPECT_TRUE(backend_.given_back.empty());
  session_.on_sent(-125, static_cast<uint32_t>(io_.sent.at(0).size()));
  EXPECT_EQ(backend_.given_back, std::vector<uint64_t>{77});
}

TEST_F(NativeSessionUndeliveredTest, keeps_what_was_sent) {
  send_reserve(7);
  asked().answers[0] = {.code = QuotaCode::ok, .reservation = 77};
  asked().answers[1] = {.code = QuotaCode::ok, .reservation = 78};
  answer();
  session_.close();
  EXPECT_TRUE(backend_.given_back.empty());
}

}  // namespace
}  // namespace sluice::session
