// Builds a GoRatelimitFile from the nodes of a YAML document, in the order of the text.
// Flow:   read_go_ratelimit_yaml() -> begin(), end(), scalar() for each node -> take().
// Shape:  a table says which field has which type; what stands at an unknown or wrong place is
//         passed over, whatever it has in it.
// Errors: complaints with the place and the path of the node.
// Lives:  the complaints outlive the document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transfer/complaints.hpp"
#include "transfer/go_ratelimit.hpp"
#include "transfer/yaml_source.hpp"

namespace sluice::transfer {

enum class NodeKind : uint8_t { null, plain, quoted, list, map };

// The type of a node, by its place in the document.
enum class NodeType : uint8_t {
  document,
  quotas,
  quota,
  states,
  usage,
  requests,
  tokens,
  token,
  number,
  time,
};

class YamlDocument {
 public:
  explicit YamlDocument(Complaints& complaints) noexcept : complaints_(complaints) {}

  // Keys of maps are nodes too, before their values.
  void scalar(NodeKind kind, std::string_view text, TextPosition position);
  void begin(NodeKind kind, TextPosition position);
  void end();
  // An alias, or a node with a tag: passed over as a whole, with a complaint.
  void refuse(std::string_view text, TextPosition position);

  // After the last node: sorted by time.
  GoRatelimitFile take();

 private:
  // A map or list that has begun.
  struct Open {
    NodeType type;
    TextPosition position;
    std::string key;  // of a map, when it has_key
    bool has_key = false;
    std::optional<NodeType> expected;  // of the key's value; empty: it is passed over
    size_t index = 0;                  // of a list's next element
    uint32_t fields = 0;               // of the table, which it has
  };

  bool is_at_key() const noexcept;
  std::optional<NodeType> expected() const noexcept;
  bool expects(NodeKind kind, TextPosition position);
  void take_key(std::string_view key, TextPosition position);
  std::optional<NodeType> type_of_field(std::string_view key, TextPosition position);
  std::optional<NodeType> type_of_model(std::string_view key, TextPosition position);
  void take_value(NodeType type, std::string_view text, TextPosition position);
  void store(int64_t value);
  void store_time(std::optional<int64_t> wall_ns, TextPosition position);
  void finish_value() noexcept;
  void finish(const Open& open);
  void complain_at(TextPosition position, std::string text);
  std::string path() const;

  Complaints& complaints_;
  GoRatelimitFile file_;
  std::vector<Open> open_;
  size_t skipped_depth_ = 0;  // of the maps and lists within one that is passed over
  bool skips_key_ = false;    // it stands where a key should
  ModelQuota* quota_ = nullptr;
  ModelUsage* usage_ = nullptr;
  TokenEvent token_;
};

}  // namespace sluice::transfer
