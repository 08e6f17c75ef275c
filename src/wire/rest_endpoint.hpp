// The endpoints of REST in one table: path, methods, parameters, the reader of its requests and the
// operations that describe it in openapi.json.
// Flow:   a request's path -> find_endpoint() -> its row -> RestEndpoint::read() -> RestRequest.
// Shape:  one row per path. Routing, 404, 405, `Allow`, the log's route and the known parameters
//         all come from the row; openapi_test.cpp compares openapi.json with the rows, in both
//         directions.
// Errors: a path that matches no row has no endpoint.
// Lives:  rows are constants; a match's key and id are views of the path.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "wire/rest_reader.hpp"
#include "wire/rest_request.hpp"

namespace sluice::wire {

// The part of a path behind its fixed part. Slashes at the edges are not ignored, as in gocc:
// /rate, /rate/, /rate/k/ and /debug/ do not exist, while /rate//5 does: its key is empty, which
// its reader refuses.
enum class PathTail : uint8_t {
  none,            // /debug
  segment,         // /rate/:key, up to the end, without a slash
  segment_and_id,  // /rate/:key/:id, the id is the rest of the path
  text,            // /debug/:key, the rest of the path with its slashes
};

// HEAD and OPTIONS are not listed: the answer to them is the same for every path.
enum class RestMethod : uint8_t { none, get, post, put, remove };

// "GET", ... "DELETE"
std::string_view method_name(RestMethod method) noexcept;

// A method of a path, and its operationId in openapi.json.
struct RestOperation {
  RestMethod method = RestMethod::none;
  std::string_view id;
};

struct RestEndpoint {
  static constexpr size_t operations_max = 3;

  std::string_view route;  // as the log shows it: "/rate/:key"
  PathTail tail;
  RestOperation operations[operations_max];  // in the order of Allow; unused ones at the end
  RestReader read;
  std::string_view parameters;                // of the query, with ", " between
  QuotaEndpoint quota = QuotaEndpoint::none;  // under /v1/, which refuses unknown parameters
};

std::span<const RestEndpoint> rest_endpoints() noexcept;

// The row of an endpoint under /v1/.
const RestEndpoint& quota_endpoint(QuotaEndpoint endpoint) noexcept;

// A path cut into its parts; key and id are still percent-encoded.
struct PathMatch {
  const RestEndpoint* endpoint = nullptr;
  std::string_view key;
  std::string_view id;
};
PathMatch find_endpoint(std::string_view path) noexcept;

bool has_method(const RestEndpoint& endpoint, std::string_view method) noexcept;

// "OPTIONS, GET, POST"
std::string_view allowed_methods(const RestEndpoint& endpoint) noexcept;

// Every endpoint under /v1/ takes dry_run; one without a dry run refuses it with a message of its
// own.
bool takes_parameter(const RestEndpoint& endpoint, std::string_view name) noexcept;

}  // namespace sluice::wire
