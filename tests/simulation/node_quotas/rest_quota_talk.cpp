#include <nlohmann/json.hpp>

#include <cstdio>

#include "quota_talk.hpp"
#include "server/worker.hpp"

namespace sluice::simulation {
namespace {

using api::QuotaCode;
using api::QuotaOp;
using Json = nlohmann::json;

const char* path_of(QuotaOp op) {
  switch (op) {
    case QuotaOp::check:
      return "check";
    case QuotaOp::settle:
      return "settle";
    case QuotaOp::cancel:
      return "cancel";
    case QuotaOp::extend:
      return "extend";
    case QuotaOp::record:
      return "record";
    case QuotaOp::consume:
      return "consume";
    default:
      return "reserve";
  }
}

std::string hex_of(uint64_t reservation) {
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", reservation);
  return text;
}

Json json_of(const QuotaQuestion& question) {
  Json json;
  if (question.calls.empty()) {
    json["reservation"] = hex_of(question.reservation);
    if (question.op == QuotaOp::settle) json["input_tokens"] = question.settled_tokens;
  } else {
    const ReserveEntry& call = question.calls.front();
    json["subjects"] = call.subjects;
    json["input_tokens"] = call.amounts.input_tokens;
    if (!call.client_id.empty()) json["id"] = call.client_id;
  }
  if (question.lifetime_ms != 0) json["lifetime_ms"] = question.lifetime_ms;
  if (question.wait_limit_ms != 0) json["wait_limit_ms"] = question.wait_limit_ms;
  return json;
}

QuotaCode code_named(const std::string& name) {
  for (uint32_t code = 0; code < api::quota_codes_count; ++code) {
    if (api::code_name(static_cast<QuotaCode>(code)) == name) return static_cast<QuotaCode>(code);
  }
  return QuotaCode::none;
}

}  // namespace

uint64_t RestQuotaTalk::ask(const QuotaQuestion& question) {
  const std::string body = json_of(question).dump();
  client_.write("POST /v1/" + std::string(path_of(question.op)) +
                " HTTP/1.1\r\nHost: node\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
  return ++last_number_;
}

// Answers come in the order of the requests.
bool RestQuotaTalk::take_answer() {
  const std::string text(reinterpret_cast<const char*>(inbox_.data()), inbox_.size());
  const size_t head_end = text.find("\r\n\r\n");
  if (head_end == std::string::npos) return false;
  constexpr std::string_view length_name = "\r\nContent-Length: ";
  const size_t length = text.find(length_name);
  if (length > head_end) {
    listener_.on_error("an answer without a length: " + text);
    return false;
  }
  const size_t end = head_end + 4 + std::stoul(text.substr(length + length_name.size()));
  if (text.size() < end) return false;
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<ptrdiff_t>(end));
  take(std::stoi(text.substr(9, 3)), text.substr(head_end + 4, end - head_end - 4));
  return true;
}

// That of a settle, cancel or extend has a code only when it is refused.
void RestQuotaTalk::take(int status, const std::string& body) {
  const Json json = Json::parse(body);
  QuotaOutcome outcome{.code = QuotaCode::ok};
  if (json.contains("code")) outcome.code = code_named(json.at("code"));
  if (json.contains("reservation")) {
    outcome.reservation = std::stoull(json.at("reservation").get<std::string>(), nullptr, 16);
  }
  if (outcome.code == QuotaCode::none || api::admits(outcome.code) != (status == 200)) {
    return listener_.on_error(std::to_string(status) + " " + body);
  }
  listener_.on_answered(++answered_, {outcome});
}

}  // namespace sluice::simulation
