// Routes one request line, for tests that compare the answer or the value.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wire/http_codec.hpp"

namespace sluice::wire {

// One routed request, with the buffers of its views.
struct Routed {
  std::string target;
  std::vector<char> buffer;
  RestRequest request;

  const RestReply* reply() const { return std::get_if<RestReply>(&request); }
  const RestDecision* decision() const { return std::get_if<RestDecision>(&request); }
  const RestInspect* inspect() const { return std::get_if<RestInspect>(&request); }
  const RestQuota* quota() const { return std::get_if<RestQuota>(&request); }
};

inline std::unique_ptr<Routed> route(std::string_view method, std::string_view target,
                                     const RestOptions& options = {},
                                     std::string_view accept = {}) {
  auto routed = std::make_unique<Routed>();
  routed->target = target;
  routed->buffer.resize(target.size());
  const HttpRequest request{.method = method, .target = routed->target, .accept = accept};
  routed->request = route_request(request, options, routed->buffer);
  return routed;
}

// The reply as "200 text", or the kind of request with its values.
inline std::string answer(std::string_view method, std::string_view target,
                          const RestOptions& options = {}) {
  const auto routed = route(method, target, options);
  if (const RestReply* reply = routed->reply()) {
    return std::to_string(reply->status) + " " + std::string(reply->body);
  }
  if (const RestDecision* decision = routed->decision()) {
    const char* op = decision->entry.op == api::Op::acquire ? "acquire " : "release ";
    return op + std::string(decision->entry.key());
  }
  if (const RestInspect* inspect = routed->inspect()) return "inspect " + std::string(inspect->key);
  if (std::holds_alternative<RestDebug>(routed->request)) return "debug";
  if (std::holds_alternative<RestHealth>(routed->request)) return "health";
  if (std::holds_alternative<RestOpenapi>(routed->request)) return "openapi";
  if (const RestQuota* quota = routed->quota()) {
    return std::string{"quota "}.append(quota->subject);
  }
  if (const auto* top = std::get_if<RestTop>(&routed->request)) {
    return std::string{"top "}.append(std::to_string(top->keys_max));
  }
  if (const auto* all = std::get_if<RestOfAllNodes>(&routed->request)) {
    return std::string{"all nodes "}.append(all->method).append(" ").append(all->target);
  }
  return "metrics";
}

inline constexpr const char* not_found = "404 {\"message\":\"Not Found\"}\n";
inline constexpr const char* not_allowed = "405 {\"message\":\"Method Not Allowed\"}\n";

}  // namespace sluice::wire
