// A native session over a backend that only records calls; frames are built and read by the
// library.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <sluicegate.capnp.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "session/native_session.hpp"
#include "tests/support/fake_io.hpp"
#include "tests/unit/session/keeping_backend.hpp"

namespace sluice::session {

using ClientFrame = schema::ClientFrame::Builder;

class NativeQuotaFixture : public ::testing::Test {
 protected:
  explicit NativeQuotaFixture(uint32_t waiters_max = 100, route::Ownership ownership = {})
      : NativeQuotaFixture({}, waiters_max, ownership) {
    greet();
    answers_.clear();
  }
  // Nothing is sent yet.
  NativeQuotaFixture(const std::string& peer_secret, uint32_t waiters_max,
                     route::Ownership ownership = {})
      : context_(backend_, {.waiters_max = waiters_max,
                            .wait_ms_max = 500,
                            .shard = 3,
                            .shards = 4,
                            .ownership = ownership,
                            .peer_secret = peer_secret}) {
    session_.begin();
  }
  ~NativeQuotaFixture() override {
    session_.close();
    for (Asked& asked : backend_.batches) session_.on_quota(asked.id, *asked.batch);
  }

  template <typename Fill>
  void send(uint64_t id, Fill fill) {
    capnp::MallocMessageBuilder message(1 << 16);
    auto frame = message.initRoot<schema::ClientFrame>();
    frame.setId(id);
    fill(frame);
    const auto words = capnp::messageToFlatArray(message);
    received_.resize(words.size());
    std::memcpy(received_.data(), words.begin(), words.size() * 8);
    context_.work.begin_turn(false);
    session_.on_received(std::as_writable_bytes(std::span(received_)));
    end_turn();
  }

  void greet(const std::string& token = {}) {
    send(1, [&](ClientFrame frame) {
      auto hello = frame.initHello();
      hello.setVersion(1);
      if (!token.empty()) hello.setToken(token.c_str());
    });
  }

  // Sends two entries with one subject each.
  void send_reserve(uint64_t id, uint8_t flags = 0) {
    send(id, [&](ClientFrame frame) {
      auto reserve = frame.initReserve();
      reserve.setFlags(flags);
      reserve.setSubjects(kj::StringPtr("gptclaude").asBytes());
      reserve.setSubjectSizes({3, 6});
    });
  }

  // Entries of the subject "a" that may wait.
  void send_waiting(uint64_t id, uint32_t entries) {
    send(id, [entries](ClientFrame frame) {
      auto reserve = frame.initReserve();
      reserve.setFlags(wire::quota_bit::may_wait);
      auto sizes = reserve.initSubjectSizes(entries);
      for (uint32_t index = 0; index < entries; ++index) sizes.set(index, 1);
      const std::string names(entries, 'a');
      reserve.setSubjects(kj::StringPtr(names.c_str()).asBytes());
    });
  }

  void send_settle(uint64_t id, uint64_t reservation) {
    send(id, [&](ClientFrame frame) { frame.initSettle().setReservations({reservation}); });
  }

  api::QuotaBatch& asked(size_t index = 0) { return *backend_.batches.at(index).batch; }

  // Answers the first batch with what the test has filled in.
  void answer() {
    const Asked asked = std::move(backend_.batches.front());
    backend_.batches.pop_front();
    session_.on_quota(asked.id, *asked.batch);
    end_turn();
  }

  void answer_with(std::initializer_list<api::QuotaCode> codes) {
    size_t index = 0;
    for (const api::QuotaCode code : codes) asked().answers.at(index++).code = code;
    answer();
  }

  void grant(api::Ticket ticket, api::QuotaCode code, uint64_t reservation) {
    context_.waits.follow(context_.waits[ticket], WaitEvent::granted);
    session_.on_granted(
        context_.waits[ticket],
        {.ticket = ticket, .code = code, .refund_claim = {.reservation = reservation}});
    end_turn();
  }

  // Sends what was written and cuts it into frames.
  void end_turn() {
    while (!context_.ready.empty()) {
      context_.work.begin_turn(false);
      context_.ready.pop().resume();
    }
    if (!session_.ended()) session_.end_turn();
    if (!peer_reads_) return;
    for (const std::string& sent : io_.sent) {
      for (size_t at = 0; at < sent.size();) {
        uint32_t words;
        std::memcpy(&words, sent.data() + at + 4, sizeof words);
        answers_.emplace_back(words + 1);
        std::memcpy(answers_.back().data(), sent.data() + at, 8 * (words + 1));
        at += 8 * (words + 1);
      }
      session_.on_sent(static_cast<int32_t>(sent.size()), 0);
    }
    io_.sent.clear();
  }

  // The answer with this index, as the library reads it.
  schema::ServerFrame::Reader answered_frame(size_t index) {
    const std::vector<uint64_t>& words = answers_.at(index);
    reader_ = std::make_unique<capnp::FlatArrayMessageReader>(kj::ArrayPtr<const capnp::word>(
        reinterpret_cast<const capnp::word*>(words.data()), words.size()));
    return reader_->getRoot<schema::ServerFrame>();
  }

  // Delivers a grant to the session in the middle of a turn.
  void grant_unwritten(api::Ticket ticket, uint64_t reservation) {
    context_.waits.follow(context_.waits[ticket], WaitEvent::granted);
    session_.on_granted(context_.waits[ticket], {.ticket = ticket,
                                                 .verdict = api::Verdict::approved,
                                                 .code = api::QuotaCode::ok,
                                                 .refund_claim = {.reservation = reservation}});
  }

  schema::ErrorCode error_code(size_t index) { return answered_frame(index).getError().getCode(); }

  support::FakeIo io_;
  KeepingBackend backend_;
  Context context_;
  std::vector<uint64_t> received_;  // last; entries of the turn point into it
  net::ConnectionMemory memory_{1};
  NativeSession session_{context_, io_, {0, 1}, memory_};
  std::vector<std::vector<uint64_t>> answers_;
  std::unique_ptr<capnp::FlatArrayMessageReader> reader_;
  bool peer_reads_ = true;  // false: sends stay in flight
};

}  // namespace sluice::session
