// Reads a request of one endpoint out of its path and query.
// Flow:   route_request() -> RestTarget -> the reader that the endpoint's row names -> RestRequest.
// Shape:  docs/rest.md; the order of the checks is part of what callers see.
// Errors: a faulty request becomes a ready RestReply; for quotas everything but the path is checked
//         together with the body.
// Lives:  views as in RestTarget.
#pragma once

#include <string_view>

#include "wire/http_parser.hpp"
#include "wire/rest_query.hpp"
#include "wire/rest_request.hpp"

namespace sluice::wire {

// The parts of a request with a known path and method.
struct RestTarget {
  const RestEndpoint& endpoint;
  const HttpRequest& request;
  const RestOptions& options;
  const RestQuery& query;
  std::string_view name;  // of a subject or a reservation: the decoded key, not trimmed
  std::string_view key;   // the same, trimmed
  std::string_view id;    // decoded, not trimmed
};

using RestReader = RestRequest (*)(const RestTarget&) noexcept;

RestRequest read_rate(const RestTarget&) noexcept;
RestRequest read_release(const RestTarget&) noexcept;
RestRequest read_debug(const RestTarget&) noexcept;
RestRequest read_inspect(const RestTarget&) noexcept;
RestRequest read_health(const RestTarget&) noexcept;
RestRequest read_metrics(const RestTarget&) noexcept;
RestRequest read_top(const RestTarget&) noexcept;
RestRequest read_openapi(const RestTarget&) noexcept;
RestRequest read_quota(const RestTarget&) noexcept;

}  // namespace sluice::wire
