// Both ways to find the nodes of a column of keys say what proto::key_node() says of each key.
#include "route/key_nodes.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "proto/node_hash.hpp"

namespace sluice::route {
namespace {

// Its text ends where its memory does, so that the sanitizer sees every byte read behind it.
class Column {
 public:
  void add(const std::string& key, uint16_t nodes_count) {
    text_ += key;
    sizes_.push_back(static_cast<uint16_t>(key.size()));
    expected_.push_back(static_cast<uint16_t>(proto::key_node(key, nodes_count)));
  }

  void check(uint16_t nodes_count) const {
    const auto exact = std::make_unique<char[]>(text_.size());
    std::memcpy(exact.get(), text_.data(), text_.size());
    const KeyColumn keys{.text = {exact.get(), text_.size()}, .sizes = sizes_};
    for (const auto find : {find_nodes, find_nodes_by_fours, find_nodes_by_eights}) {
      if (find == find_nodes_by_eights && !can_find_nodes_by_eights()) continue;
      std::vector<uint16_t> nodes(sizes_.size());
      find(keys, nodes_count, nodes);
      EXPECT_EQ(nodes, expected_);
    }
  }

 private:
  std::string text_;
  std::vector<uint16_t> sizes_;
  std::vector<uint16_t> expected_;
};

constexpr uint16_t nodes_counts[] = {2, 3, 5, 8, 200, 1'000, 32'767, 65'535};

TEST(KeyNodes, of_a_column_are_those_of_each_key) {
  std::mt19937 random(7);
  for (const uint32_t key_bytes_max : {1U, 4U, 15U, 16U, 17U, 40U, 1'024U}) {
    for (const uint16_t nodes_count : nodes_counts) {
      Column column;
      for (uint32_t count = random() % 200; count > 0; --count) {
        std::string key(random() % (key_bytes_max + 1), '\0');
        for (char& letter : key) letter = static_cast<char>(random());
        column.add(key, nodes_count);
      }
      column.check(nodes_count);
    }
  }
}

TEST(KeyNodes, of_keys_of_one_length_are_those_of_each_key) {
  for (size_t key_bytes = 1; key_bytes <= 33; ++key_bytes) {
    Column column;
    for (char letter = 'a'; letter <= 'z'; ++letter) column.add(std::string(key_bytes, letter), 3);
    column.check(3);
  }
}

TEST(KeyNodes, of_no_key_are_none) {
  find_nodes({}, 2, {});
  Column().check(2);
}

}  // namespace
}  // namespace sluice::route
