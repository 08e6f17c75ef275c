#include "wire/node_answers.hpp"

#include <algorithm>

#include "text/json_writer.hpp"
#include "wire/http_text.hpp"

namespace sluice::wire {
namespace {

constexpr text::JsonStyle json_style{.escapes = text::Escapes::ascii};
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

// Of a node that has answered.
void append_item(std::string& list, const NodeAnswer& answer) {
  if (list.back() != '[') list += ',';
  text::JsonWriter<std::string> out(list, json_style);
  out.open_object();
  out.field("node", answer.node);
  if (answer.status != 200) out.field("status", answer.status);
  out.name("answer");
  const std::string_view body = answer.body;
  if (answer.is_json) {
    out.written(body.substr(0, body.find_last_not_of('\n') + 1));
  } else {
    out.value(body.substr(0, plain_bytes_max));
  }
  out.close_object();
}

void append_unanswered(std::string& list, const NodeAnswer& answer, std::string_view reason) {
  if (list.back() != '[') list += ',';
  text::JsonWriter<std::string> out(list, json_style);
  out.open_object();
  out.field("node", answer.node);
  out.field("reason", reason);
  out.close_object();
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
  std::string text = "{\"nodes\":[";
  std::string unanswered = "],\"unanswered\":[";
  text.reserve(bytes_max);
  for (const NodeAnswer& answer : answers) {
    if (!answer.reason.empty()) {
      append_unanswered(unanswered, answer,
                        std::string_view(answer.reason).substr(0, reason_bytes_max));
      continue;
    }
    const size_t before = text.size();
    append_item(text, answer);
    const size_t bytes = text.size() - before;
    if (bytes <= left) {
      left -= bytes;
    } else {
      text.resize(before);
      append_unanswered(unanswered, answer, answer_too_long);
    }
  }
  return text.append(unanswered).append("]}\n");
}

}  // namespace sluice::wire
