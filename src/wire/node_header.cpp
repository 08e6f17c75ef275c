#include "wire/node_header.hpp"

#include "base/limits.hpp"
#include "text/number.hpp"
#include "wire/http_text.hpp"

namespace sluice::wire {
namespace {

// Takes the text up to the next comma from `rest`.
std::string_view take_field(std::string_view& rest) noexcept {
  const std::string_view field = rest.substr(0, rest.find(','));
  rest.remove_prefix(field.size() == rest.size() ? field.size() : field.size() + 1);
  return trim_white_space(field);
}

struct FoundFields {
  std::optional<uint16_t> native_port;
  std::optional<uint32_t> shards;
  std::optional<uint64_t> instance;
  std::optional<uint64_t> rules;

  void take(std::string_view name, std::string_view value) noexcept {
    if (name == "native") native_port = text::parse_whole<uint16_t>(value);
    if (name == "shards") shards = text::parse_whole<uint32_t>(value);
    if (name == "instance") instance = text::parse_hex_id(value);
    if (name == "rules") rules = text::parse_hex_id(value);
  }
};

}  // namespace

std::string node_header_line(const NodeFacts& facts) {
  return std::string(node_header_name) + ": native=" + std::to_string(facts.native_port) +
         ", shards=" + std::to_string(facts.shards) + ", instance=" + text::hex_id(facts.instance) +
         (facts.rules != 0 ? ", rules=" + text::hex_id(facts.rules) : "") + "\r\n";
}

std::optional<NodeFacts> parse_node_header(std::string_view value) noexcept {
  FoundFields found;
  while (!value.empty()) {
    const std::string_view field = take_field(value);
    const size_t equals = field.find('=');
    if (equals != field.npos) found.take(field.substr(0, equals), field.substr(equals + 1));
  }
  if (!found.native_port || !found.shards || !found.instance) return std::nullopt;
  if (*found.shards == 0 || *found.shards > limits::shards_max) return std::nullopt;
  return NodeFacts{.native_port = *found.native_port,
                   .shards = *found.shards,
                   .instance = *found.instance,
                   .rules = found.rules.value_or(0)};
}

}  // namespace sluice::wire
