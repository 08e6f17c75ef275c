// A lane to the other node, which the test plays.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>

#include "peer/lane.hpp"
#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {

class LaneFixture : public PeerFixture {
 protected:
  explicit LaneFixture(const FleetOptions& options = fleet()) : PeerFixture(options) {
    lane_ = std::make_unique<Lane>(context_, memory_, 0, 2);
    lane_->connect(*io::PeerAddress::parse("10.0.0.2:8081"));
  }
  ~LaneFixture() override {
    lane_->lose("the test is over");
    deliver(target_);
  }

  void event(io::EventKind kind, int32_t result = 0) { lane_->on_event(event_of(0, kind, result)); }
  void receive(Words words) {
    lane_->on_event(received_event(0, std::as_writable_bytes(std::span(words))));
  }
  void greet(uint32_t shards = 4) {
    event(io::EventKind::connected);
    receive(welcome_words({.shard = 2,
                           .shards = shards,
                           .routing_seed = 7,
                           .instance_id = 5,
                           .takes_quota_calls = takes_quota_calls_}));
    lane_->serve(target_);
    sent();
  }
  // All that the lane has sent so far. The kernel takes it at once.
  const SentFrames& sent() {
    for (;;) {
      context_.flush();
      if (read_ == io_.sent.size()) return frames_;
      const std::string bytes = io_.sent[read_++];
      frames_.feed(bytes);
      event(io::EventKind::sent, static_cast<int32_t>(bytes.size()));
    }
  }
  void pass(int64_t ms) {
    context_.now_ms += ms;
    lane_->on_tick();
  }
  route::Notice& notice_of(route::Notice::Kind kind, api::WaiterId waiter, api::Ticket ticket) {
    route::Notice& notice = notices_.emplace_back();
    notice.kind = kind;
    notice.waiter = waiter;
    notice.ticket = ticket;
    return notice;
  }
  // An entry waits at the owner, with this ticket; returns its waiter.
  api::WaiterId queue(api::Ticket ticket) {
    send(target_, std::vector{waiting_entry("waits", ticket)});
    const size_t forwards = sent().count<wire::ForwardRequest>();
    receive(verdicts_words(frames_.id<wire::ForwardRequest>(forwards - 1), {api::Verdict::queued}));
    deliver(target_);
    return delivered_.answers.back().waiter;
  }

  PeerTarget target_{1, context_, counts_};
  bool takes_quota_calls_ = false;  // the other node, over this lane
  std::unique_ptr<Lane> lane_;
  SentFrames frames_;
  size_t read_ = 0;
  std::deque<route::Notice> notices_;
};

}  // namespace sluice::peer
