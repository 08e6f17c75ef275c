// Nodes are asked for the number of their rules, one after the other; a difference counts when it
// is there twice. The test is the nodes.
#include "peer/rules_check.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/peer/peer_fixture.hpp"

namespace sluice::peer {
namespace {

class RulesCheckTest : public PeerFixture {
 protected:
  static FleetOptions three_nodes() {
    FleetOptions options = fleet();
    options.instances.push_back({"http://10.0.0.3:8080", "10.0.0.3", 8080});
    return options;
  }
  RulesCheckTest() : PeerFixture(three_nodes()) {
    addresses_.set(1, *io::PeerAddress::parse("10.0.0.2:8080"));
    addresses_.set(2, *io::PeerAddress::parse("10.0.0.3:8080"));
    check_.set_own(7);
  }
  ~RulesCheckTest() override {
    check_.close();
    if (!check_.is_closed()) event(io::EventKind::closed);
    EXPECT_TRUE(check_.is_closed());
  }

  uint32_t socket() const { return static_cast<uint32_t>(io_.connected_to.size() - 1); }
  void event(io::EventKind kind) {
    context_.user_of(socket())->on_event(event_of(socket(), kind));
    if (kind == io::EventKind::closed) context_.free(socket());
    check_.go_on();
  }
  // The next check is of the node with this address, which answers so.
  void answer(const std::string& address, const std::string& header) {
    check_.on_tick();
    ASSERT_EQ(io_.connected_to.back().text(), address);
    event(io::EventKind::connected);
    EXPECT_TRUE(io_.sent.back().starts_with("GET /healthz HTTP/1.1\r\n")) << io_.sent.back();
    std::string text = "HTTP/1.1 200 OK\r\n" + header + "Content-Length: 0\r\n\r\n";
    context_.user_of(socket())->on_event(
        received_event(socket(), std::as_writable_bytes(std::span(text))));
    event(io::EventKind::closed);
  }
  static std::string with_rules(uint64_t digest) {
    return wire::node_header_line({.native_port = 1, .shards = 1, .instance = 5, .rules = digest});
  }
  // One check of each node; the second one has our rules.
  void round(const std::string& of_first) {
    answer("10.0.0.2:8080", of_first);
    answer("10.0.0.3:8080", with_rules(7));
    context_.now_ms += RulesCheck::check_ms;
  }

  AddressBook addresses_{3};
  RulesCheck check_{context_, addresses_};
};

TEST_F(RulesCheckTest, a_difference_counts_the_second_time) {
  round(with_rules(8));
  EXPECT_FALSE(check_.differs(1)) << "files are replaced one by one";
  round(with_rules(8));
  EXPECT_TRUE(check_.differs(1));
  EXPECT_FALSE(check_.differs(2));
  round(with_rules(7));
  EXPECT_FALSE(check_.differs(1));
}

TEST_F(RulesCheckTest, what_gives_no_number_leaves_what_was_known) {
  round(with_rules(8));
  round(with_rules(8));
  for (const std::string& header :
       {std::string{}, with_rules(0), std::string("Sluicegate-Node: x\r\n")}) {
    round(header);
    EXPECT_TRUE(check_.differs(1)) << header;
  }
}

TEST_F(RulesCheckTest, each_node_is_asked_after_a_while) {
  round(with_rules(7));
  --context_.now_ms;
  check_.on_tick();
  EXPECT_EQ(io_.connected_to.size(), 2U);
  ++context_.now_ms;
  check_.on_tick();
  EXPECT_EQ(io_.connected_to.size(), 3U);
  check_.on_tick();
  EXPECT_EQ(io_.connected_to.size(), 3U) << "one at a time";
}

TEST_F(RulesCheckTest, a_node_that_does_not_answer_does_not_keep_others_waiting) {
  check_.on_tick();
  context_.now_ms += options_.timeout_ms;
  check_.on_tick();
  event(io::EventKind::closed);
  answer("10.0.0.3:8080", with_rules(7));
}

TEST_F(RulesCheckTest, a_node_that_is_not_reached_is_asked_at_its_next_address) {
  addresses_.set(1, std::array{*io::PeerAddress::parse("10.0.0.2:8080"),
                               *io::PeerAddress::parse("10.0.0.4:8080")});
  check_.on_tick();
  event(io::EventKind::failed);
  event(io::EventKind::closed);
  answer("10.0.0.3:8080", with_rules(7));
  context_.now_ms += RulesCheck::check_ms;
  answer("10.0.0.4:8080", with_rules(7));
}

TEST_F(RulesCheckTest, nobody_is_asked_while_the_own_rules_are_unknown) {
  check_.set_own(0);
  check_.on_tick();
  EXPECT_TRUE(io_.connected_to.empty());
}

}  // namespace
}  // namespace sluice::peer
