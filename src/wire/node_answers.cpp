#include "wire/node_answers.hpp"

#include <algorithm>
#include <optional>

#include "text/json.hpp"
#include "wire/http_text.hpp"

namespace sluice::wire {
namespace {

using text::Json;

constexpr std::string_view parameter = "cluster";
constexpr size_t plain_bytes_max = 256;  // of an answer that is no JSON: a sentence

bool is_of_target(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7F;
}

void append_escaped(std::string& text, std::string_view part) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (const char c : part) {
    if (is_of_target(c)) {
      text += c;
    } else {
      const auto byte = static_cast<uint8_t>(c);
      text += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
}

std::string json_text(std::string_view text) {
  return text::one_line(Json(text), text::Escapes::ascii);
}

// The item of a node that has answered; nothing: its answer cannot be shown as it is.
std::optional<std::string> item_of(const NodeAnswer& answer) {
  std::string item = "{\"node\":" + json_text(answer.node);
  if (answer.status != 200) item += ",\"status\":" + std::to_string(answer.status);
  item += ",\"answer\":";
  if (!answer.is_json) return item + json_text(answer.body.substr(0, plain_bytes_max)) + "}";
  if (!Json::accept(answer.body)) return std::nullopt;
  return item.append(answer.body, 0, answer.body.find_last_not_of('\n') + 1) + "}";
}

void append_unanswered(std::string& list, const NodeAnswer& answer, std::string_view reason) {
  if (!list.empty()) list += ',';
  list += "{\"node\":" + json_text(answer.node) + ",\"reason\":" + json_text(reason) + "}";
}

}  // namespace

std::string target_of_each(std::string_view target) {
  std::string text;
  const size_t path_bytes = std::min(target.find('?'), target.size());
  append_escaped(text, target.substr(0, path_bytes));
  std::string_view query = target.substr(path_bytes);
  if (!query.empty()) query.remove_prefix(1);
  std::string memory(query.size(), '\0');
  for (char separator = '?'; !query.empty();) {
    const std::string_view part = query.substr(0, query.find('&'));
    const auto pair = take_query_pair(query);
    DecodeBuffer buffer{memory};
    if (pair && buffer.form_decode(pair->name) == parameter) continue;
    text += separator;
    append_escaped(text, part);
    separator = '&';
  }
  return text;
}

std::string node_request(std::string_view method, std::string_view target, std::string_view host) {
  std::string text;
  text.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: ").append(host);
  return text + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
}

std::string nodes_text(std::span<const NodeAnswer> answers, size_t bytes_max) {
  constexpr size_t reason_bytes_max = 96;
  constexpr size_t item_bytes_max = 256;  // of an unanswered node, beside its name
  size_t left = bytes_max;
  for (const NodeAnswer& answer : answers) {
    left -= std::min(left, answer.node.size() + item_bytes_max);
  }
  std::string items;
  std::string unanswered;
  for (const NodeAnswer& answer : answers) {
    if (!answer.reason.empty()) {
      append_unanswered(unanswered, answer, answer.reason.substr(0, reason_bytes_max));
      continue;
    }
    const auto item = item_of(answer);
    if (!item) {
      append_unanswered(unanswered, answer, "its answer is not JSON");
    } else if (item->size() + 1 > left) {
      append_unanswered(unanswered, answer, "its answer is too long here: ask it alone");
    } else {
      if (!items.empty()) items += ',';
      items += *item;
      left -= item->size() + 1;
    }
  }
  return "{\"nodes\":[" + items + "],\"unanswered\":[" + unanswered + "]}\n";
}

}  // namespace sluice::wire
