// All that a worker has for the other node, over a FakeIo: the test is that node, and the worker.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include "peer/peers.hpp"
#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {

class PeersFixture : public ::testing::Test {
 protected:
  static FleetOptions fleet(base::PeerFailure on_failure) {
    FleetOptions options{.on_failure = on_failure};
    options.instances = {{"http://10.0.0.1:8080", "10.0.0.1", 8080},
                         {"http://10.0.0.2:8080", "10.0.0.2", 8080}};
    return options;
  }
  explicit PeersFixture(base::PeerFailure on_failure = base::PeerFailure::error)
      : PeersFixture(fleet(on_failure)) {}
  explicit PeersFixture(const FleetOptions& options)
      : peers_(io_, mailboxes_, options, {.waiters_max = 4, .sockets_max = 1'000}, addresses_, 1) {
    addresses_.set(1, *io::PeerAddress::parse("10.0.0.2:8080"));
    turn();
  }
  ~PeersFixture() override {
    peers_.close();
    for (int i = 0; i < 3; ++i) turn();
    EXPECT_TRUE(peers_.are_closed());
  }

  // One turn; what was closed before is free in it, and what is sent has left in the next one.
  void turn(int64_t ms = 0) {
    for (; ms > Peers::tick_ms; ms -= Peers::tick_ms) {
      now_ms_ += Peers::tick_ms;
      peers_.begin_turn(now_ms_);
    }
    now_ms_ += ms;
    peers_.begin_turn(now_ms_);
    while (closed_ < io_.closed.size()) {
      event(event_of(io_.closed[closed_++].index, io::EventKind::closed));
    }
    peers_.deliver(delivered_);
    mailboxes_.flush();
    peers_.end_turn();
    for (; read_ < io_.sent.size(); ++read_) {
      sent_[io_.sent_by[read_]] += io_.sent[read_];
      ++sending_[io_.sent_by[read_]];
    }
  }
  void event(const io::Event& event) {
    if (peers_.uses(event.socket)) peers_.on_event(event);
  }
  // What has left of a socket, if anything is under way there.
  void finish_send(uint32_t socket) {
    if (sending_[socket] == 0) return;
    sending_[socket] = 0;
    event(event_of(socket, io::EventKind::sent, 1));
  }
  uint32_t last_socket() { return static_cast<uint32_t>(io_.connected_to.size() - 1); }

  // The probe that is under way is answered.
  void answer_probe(const std::string& header) {
    const uint32_t socket = last_socket();
    event(event_of(socket, io::EventKind::connected));
    turn();
    EXPECT_TRUE(sent_[socket].starts_with("GET /healthz")) << sent_[socket];
    std::string answer = "HTTP/1.1 200 OK\r\n" + header + "\r\n";
    finish_send(socket);
    event(received_event(socket, std::as_writable_bytes(std::span(answer))));
    turn();  // its socket is closed
    turn();
  }
  static std::string header_of(const wire::NodeFacts& facts) {
    return wire::node_header_line(facts);
  }
  void greet(uint32_t socket, const wire::WelcomeAnswer& welcome) {
    event(event_of(socket, io::EventKind::connected));
    turn();
    finish_send(socket);
    Words words = welcome_words(welcome);
    event(received_event(socket, std::as_writable_bytes(std::span(words))));
    turn();
  }
  // A node of ours with two shards. Returns the socket of its first lane.
  uint32_t connect_ours(uint64_t instance = 5) {
    answer_probe(header_of({.native_port = 8081, .shards = 2, .instance = instance}));
    const uint32_t first = last_socket() - 1;
    for (const uint32_t shard : {0U, 1U}) {
      greet(first + shard,
            {.shard = shard, .shards = 2, .routing_seed = 7, .instance_id = instance});
    }
    return first;
  }
  void lose(uint32_t socket) {
    event(event_of(socket, io::EventKind::end_of_stream));
    turn();
    turn();
  }
  Peer& peer() { return *peers_.all()[0]; }
  std::string key_of_the_other() {
    for (int i = 0;; ++i) {
      const std::string key = "key" + std::to_string(i);
      if (!mailboxes_.nodes().owns(key)) return key;
    }
  }
  route::TargetId target_of(const std::string& key) {
    return mailboxes_.target_of(key, route::Reach::fleet);
  }
  void send(const std::string& key) {
    const route::TargetId id = target_of(key);
    const std::array sizes{static_cast<uint16_t>(key.size())};
    route::ShardMessage& message = mailboxes_.open(id, 1, key.size());
    message.begin_part(0, route::Form::plain, 1, true);
    message.add(route::KeyColumn{.text = key, .sizes = sizes});
    mailboxes_.target(id).end_part();
  }

  support::FakeIo io_;
  route::Mesh mesh_{{.shards = 1, .messages = 1, .entries_max = 4}};
  route::Mailboxes mailboxes_{mesh_, 0, {{2, 0}, 1}};
  AddressBook addresses_{2};
  Delivered delivered_;
  int64_t now_ms_ = 1'000'000;
  Peers peers_;
  size_t closed_ = 0, read_ = 0;
  std::map<uint32_t, std::string> sent_;  // by socket
  std::map<uint32_t, int> sending_;       // likewise
};

}  // namespace sluice::peer
