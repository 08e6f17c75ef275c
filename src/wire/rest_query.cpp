#include "wire/rest_query.hpp"

#include <array>
#include <optional>

#include "wire/rest_endpoint.hpp"

namespace sluice::wire {
namespace {

// The most frequent first.
constexpr std::array<NamedParameter, 16> parameters{{
    {"canWait", &RestQuery::can_wait},
    {"maxRequests", &RestQuery::max_requests},
    {"maxRequestsInQueue", &RestQuery::max_requests_in_queue},
    {"cost", &RestQuery::cost},
    {"maxWaitMillis", &RestQuery::max_wait_ms},
    {"windowMillis", &RestQuery::window_ms},
    {"pretty", &RestQuery::pretty},
    {"prefix", &RestQuery::prefix},
    {"limit", &RestQuery::limit},
    {"keys", &RestQuery::keys},
    {"cursor", &RestQuery::cursor},
    {"headers", &RestQuery::headers},
    {"subject", &RestQuery::subject},
    {"dry_run", &RestQuery::dry_run},
    {"ik", &RestQuery::stays_here},
    {"cluster", &RestQuery::of_all_nodes},
}};

QueryParameter* find_parameter(RestQuery& query, std::string_view name) noexcept {
  for (const NamedParameter& named : parameters) {
    if (named.name == name) return &(query.*named.parameter);
  }
  return nullptr;
}

}  // namespace

std::span<const NamedParameter> query_parameters() noexcept {
  return parameters;
}

// gocc ignores parameters that it does not know or cannot read, and so do its endpoints here. Those
// for quotas refuse them, as they do in a body: a client that misspells dry_run wants no change.
RestQuery read_query(std::string_view query, const RestEndpoint* endpoint,
                     DecodeBuffer& buffer) noexcept {
  const bool is_strict = endpoint != nullptr && endpoint->quota != QuotaEndpoint::none;
  RestQuery read;
  while (!query.empty()) {
    const std::string_view text = query.substr(0, query.find('&'));
    const std::optional<QueryPair> pair = take_query_pair(query);
    const auto name = pair ? buffer.form_decode(pair->name) : std::nullopt;
    const bool is_known = name && (!is_strict || takes_parameter(*endpoint, *name));
    if (!is_known && read.unknown_parameter.empty()) {
      read.unknown_parameter = name && !name->empty() ? *name : text;
    }
    QueryParameter* parameter = is_known ? find_parameter(read, *name) : nullptr;
    if (parameter == nullptr) continue;
    const bool repeated = parameter->was_given;
    const std::optional<std::string_view> value = buffer.form_decode(pair->value);
    if (repeated || !value) {
      read.invalid_parameter = *name;
      continue;
    }
    // A subject is not trimmed: its name is the same text in queries, paths and bodies.
    const bool is_subject = parameter == &read.subject;
    *parameter = {.was_given = true, .value = is_subject ? *value : trim_white_space(*value)};
  }
  return read;
}

}  // namespace sluice::wire
