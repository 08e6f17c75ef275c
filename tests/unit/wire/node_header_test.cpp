// Goal: a peer reads from the header what the other instance wrote, and nothing from other texts.
// Method: written lines read again; lines of later versions; broken ones.
#include "wire/node_header.hpp"

#include <gtest/gtest.h>

namespace sluice::wire {
namespace {

TEST(NodeHeader, is_a_whole_line) {
  EXPECT_EQ(node_header_line({.native_port = 8'081, .shards = 4, .instance = 0x11223344556677}),
            "Sluicegate-Node: native=8081, shards=4, instance=0011223344556677\r\n");
  EXPECT_EQ(node_header_line({.native_port = 1, .shards = 2, .instance = 3, .rules = 0xABC}),
            "Sluicegate-Node: native=1, shards=2, instance=0000000000000003, "
            "rules=0000000000000abc\r\n");
}

TEST(NodeHeader, is_read_as_it_was_written) {
  for (const NodeFacts& facts :
       {NodeFacts{}, NodeFacts{.native_port = 65'535, .shards = 256, .instance = ~uint64_t{0}},
        NodeFacts{.native_port = 1, .rules = 7}}) {
    const std::string line = node_header_line(facts);
    const size_t begin = node_header_name.size() + 2;
    EXPECT_EQ(parse_node_header(std::string_view(line).substr(begin, line.size() - begin - 2)),
              facts);
  }
}

TEST(NodeHeader, of_a_later_version_may_have_more_fields) {
  const NodeFacts facts{.native_port = 1, .shards = 2, .instance = 3};
  EXPECT_EQ(parse_node_header("zone=a,instance=0000000000000003 ,  shards=2, new, native=1,"),
            facts);
}

TEST(NodeHeader, without_its_fields_is_none) {
  for (const char* broken :
       {"", ",", "native=1, shards=2", "native=1, instance=0000000000000003",
        "shards=2, instance=0000000000000003", "native=65536, shards=2, instance=0000000000000003",
        "native=1, shards=0, instance=0000000000000003",
        "native=1, shards=257, instance=0000000000000003", "native=1, shards=2, instance=3",
        "native=, shards=2, instance=0000000000000003",
        "native =1, shards=2, instance=0000000000000003"}) {
    EXPECT_EQ(parse_node_header(broken), std::nullopt) << broken;
  }
}

}  // namespace
}  // namespace sluice::wire
