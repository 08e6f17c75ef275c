#include "transfer/yaml_document.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.hpp"
#include "text/number.hpp"
#include "text/quote.hpp"
#include "text/utf8.hpp"
#include "transfer/go_time.hpp"

namespace sluice::transfer {
namespace {

struct Field {
  NodeType owner;
  std::string_view name;
  NodeType type;
  bool is_needed;
};

// The library writes all of them. That a section or a field of a usage is missing is the only sign
// that the file was cut; a quota is often written by hand, and what it lacks is unlimited.
constexpr std::array<Field, 11> fields{{
    {NodeType::document, "quotas", NodeType::quotas, true},
    {NodeType::document, "state", NodeType::states, true},
    {NodeType::quota, "max_rpm", NodeType::number, false},
    {NodeType::quota, "max_tpm", NodeType::number, false},
    {NodeType::quota, "max_rpd", NodeType::number, false},
    {NodeType::usage, "requests", NodeType::requests, true},
    {NodeType::usage, "tokens", NodeType::tokens, true},
    {NodeType::usage, "day_start", NodeType::time, true},
    {NodeType::usage, "day_count", NodeType::number, true},
    {NodeType::token, "time", NodeType::time, true},
    {NodeType::token, "count", NodeType::number, true},
}};

bool is_list(NodeType type) noexcept {
  return type == NodeType::requests || type == NodeType::tokens;
}

bool is_scalar(NodeType type) noexcept {
  return type == NodeType::number || type == NodeType::time;
}

// Times are plain texts for YAML 1.2, and Go reads quoted ones too.
bool fits(NodeKind kind, NodeType type) noexcept {
  switch (kind) {
    case NodeKind::null:
      return false;
    case NodeKind::plain:
      return is_scalar(type);
    case NodeKind::quoted:
      return type == NodeType::time;
    case NodeKind::list:
      return is_list(type);
    case NodeKind::map:
      break;
  }
  return !is_scalar(type) && !is_list(type);
}

std::string_view words_of(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::null:
      return "null";
    case NodeKind::plain:
      return "a single value";
    case NodeKind::quoted:
      return "a text";
    case NodeKind::list:
      return "a list";
    case NodeKind::map:
      break;
  }
  return "a map";
}

std::string_view words_of(NodeType type) noexcept {
  if (type == NodeType::number) return "a number";
  if (type == NodeType::time) return "a time";
  return is_list(type) ? "a list" : "a map";
}

std::string_view names_of(NodeType owner) noexcept {
  switch (owner) {
    case NodeType::document:
      return "quotas and state";
    case NodeType::quota:
      return "max_rpm, max_tpm and max_rpd";
    case NodeType::usage:
      return "requests, tokens, day_start and day_count";
    default:
      return "time and count";
  }
}

void sort_by_time(ModelUsage& usage) {
  std::ranges::sort(usage.requests_wall_ns);
  std::ranges::stable_sort(usage.tokens, {}, &TokenEvent::wall_ns);
}

tl::expected<int64_t, std::string> parse_number(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  const bool is_whole =
      !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  // Go reads 010 as eight.
  if (!is_whole || (digits.size() > 1 && digits.starts_with('0'))) {
    return tl::unexpected(text::quoted_excerpt(text) + " is no whole number in decimal digits");
  }
  if (is_negative) return tl::unexpected(text::quoted_excerpt(text) + " is negative");
  const std::optional<int64_t> number = text::parse_whole<int64_t>(digits);
  if (!number) {
    return tl::unexpected(text::quoted_excerpt(text) + " does not fit into 64 bits");
  }
  return *number;
}

}  // namespace

void YamlDocument::scalar(NodeKind kind, std::string_view text, TextPosition position) {
  if (skipped_depth_ > 0) return;
  if (is_at_key()) {
    if (kind == NodeKind::null) return refuse("null is no name", position);
    return take_key(text, position);
  }
  if (expects(kind, position)) take_value(*expected(), text, position);
  finish_value();
}

void YamlDocument::begin(NodeKind kind, TextPosition position) {
  if (skipped_depth_ > 0) {
    ++skipped_depth_;
    return;
  }
  skips_key_ = is_at_key();
  if (skips_key_) complain_at(position, std::string(words_of(kind)) + " is no name");
  if (skips_key_ || !expects(kind, position)) {
    skipped_depth_ = 1;
    return;
  }
  open_.push_back({.type = *expected(), .position = position});
  if (open_.back().type == NodeType::token) token_ = {};
}

void YamlDocument::end() {
  if (skipped_depth_ > 1) {
    --skipped_depth_;
    return;
  }
  if (skipped_depth_ == 0) {
    finish(open_.back());
    open_.pop_back();
  } else if (std::exchange(skips_key_, false)) {
    open_.back().has_key = true;
    open_.back().expected.reset();
    skipped_depth_ = 0;
    return;
  }
  skipped_depth_ = 0;
  finish_value();
}

void YamlDocument::refuse(std::string_view text, TextPosition position) {
  if (skipped_depth_ > 0) return;
  complain_at(position, std::string(text));
  if (is_at_key()) {
    open_.back().has_key = true;
    open_.back().key.clear();
    open_.back().expected.reset();
  } else {
    finish_value();
  }
}

GoRatelimitFile YamlDocument::take() {
  for (auto& [model, usage] : file_.usage) sort_by_time(usage);
  return std::exchange(file_, {});
}

bool YamlDocument::is_at_key() const noexcept {
  return !open_.empty() && !is_list(open_.back().type) && !open_.back().has_key;
}

std::optional<NodeType> YamlDocument::expected() const noexcept {
  if (open_.empty()) return NodeType::document;
  const Open& open = open_.back();
  if (open.type == NodeType::requests) return NodeType::time;
  if (open.type == NodeType::tokens) return NodeType::token;
  return open.expected;
}

bool YamlDocument::expects(NodeKind kind, TextPosition position) {
  const std::optional<NodeType> type = expected();
  if (!type) return false;  // its key has its complaint
  if (fits(kind, *type)) return true;
  complain_at(position, "is " + std::string(words_of(kind)) + ", and must be " +
                            std::string(words_of(*type)));
  return false;
}

void YamlDocument::take_key(std::string_view key, TextPosition position) {
  Open& open = open_.back();
  open.key = key;
  open.has_key = true;
  open.expected.reset();
  // yaml-cpp makes one byte of each of these two escapes.
  if (!text::is_utf8(key)) {
    return complain_at(position, "is no UTF-8: write \\u0085 for \\N, and \\u00a0 for \\_");
  }
  const bool is_model = open.type == NodeType::quotas || open.type == NodeType::states;
  open.expected = is_model ? type_of_model(key, position) : type_of_field(key, position);
}

std::optional<NodeType> YamlDocument::type_of_field(std::string_view key, TextPosition position) {
  Open& open = open_.back();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].owner != open.type || fields[i].name != key) continue;
    const uint32_t bit = 1U << i;
    if ((open.fields & bit) != 0) {
      complain_at(position, "is there twice");
      return std::nullopt;
    }
    open.fields |= bit;
    return fields[i].type;
  }
  complain_at(position, "is unknown; there are " + std::string(names_of(open.type)));
  return std::nullopt;
}

std::optional<NodeType> YamlDocument::type_of_model(std::string_view key, TextPosition position) {
  const std::string name{key};
  const bool is_quota = open_.back().type == NodeType::quotas;
  const bool is_new =
      is_quota ? file_.quotas.try_emplace(name).second : file_.usage.try_emplace(name).second;
  if (!is_new) {
    complain_at(position, "is there twice");
    return std::nullopt;
  }
  if (is_quota) {
    quota_ = &file_.quotas.at(name);
    return NodeType::quota;
  }
  usage_ = &file_.usage.at(name);
  return NodeType::usage;
}

void YamlDocument::take_value(NodeType type, std::string_view text, TextPosition position) {
  if (type == NodeType::time) {
    const GoTime time = parse_go_time(text);
    if (time) return store_time(*time, position);
    complain_at(position, text::quoted_excerpt(text) + " " + std::string(time.error()));
    return;
  }
  ASSERT(type == NodeType::number);
  const auto number = parse_number(text);
  if (number) return store(*number);
  complain_at(position, number.error());
}

// Numbers are known by their names, which are unique in the table.
void YamlDocument::store(int64_t value) {
  const std::string& key = open_.back().key;
  if (key == "max_rpm") quota_->max_rpm = value;
  if (key == "max_tpm") quota_->max_tpm = value;
  if (key == "max_rpd") quota_->max_rpd = value;
  if (key == "day_count") usage_->day_count = value;
  if (key == "count") token_.count = value;
}

void YamlDocument::store_time(std::optional<int64_t> wall_ns, TextPosition position) {
  const NodeType owner = open_.back().type;
  if (owner == NodeType::usage) {
    usage_->day_start_wall_ns = wall_ns;
    return;
  }
  if (!wall_ns) return complain_at(position, "is Go's zero time, at which nothing happened");
  if (owner == NodeType::requests) usage_->requests_wall_ns.push_back(*wall_ns);
  if (owner == NodeType::token) token_.wall_ns = *wall_ns;
}

void YamlDocument::finish_value() noexcept {
  if (open_.empty()) return;
  open_.back().has_key = false;
  ++open_.back().index;
}

void YamlDocument::finish(const Open& open) {
  if (open.type == NodeType::token) usage_->tokens.push_back(token_);
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool is_missing = fields[i].owner == open.type && (open.fields >> i & 1U) == 0;
    if (!is_missing || !fields[i].is_needed) continue;
    complain_at(open.position,
                std::string(fields[i].name) + " is missing; a file that was written whole has it");
  }
}

void YamlDocument::complain_at(TextPosition position, std::string text) {
  std::string place = place_of(position);
  const std::string names = path();
  if (!names.empty()) place.append(": ").append(names);
  complaints_.add(std::move(place), std::move(text));
}

std::string YamlDocument::path() const {
  std::string path;
  for (const Open& open : open_) {
    if (is_list(open.type)) {
      path.append("[").append(std::to_string(open.index)).append("]");
    } else if (open.has_key) {
      if (!path.empty()) path.append(".");
      path.append(shown_name(open.key));
    }
  }
  return path;
}

}  // namespace sluice::transfer
