#include "wire/rest_endpoint.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.hpp"

namespace sluice::wire {
namespace {

using Method = RestMethod;
using Tail = PathTail;
using Quota = QuotaEndpoint;

// Paths are compared from the top, so the most frequent ones come first.
constexpr std::array<RestEndpoint, 22> endpoints{{
    {"/rate/:key",
     Tail::segment,
     {{Method::get, "acquireByGet"}, {Method::post, "acquire"}, {Method::remove, "resetKey"}},
     read_rate,
     "canWait, maxRequests, maxRequestsInQueue, cost, maxWaitMillis, windowMillis, ik"},
    {"/rate/:key/:id",
     Tail::segment_and_id,
     {{Method::remove, "release"}},
     read_release,
     "cost, ik"},
    {"/debug",
     Tail::none,
     {{Method::get, "listKeys"}},
     read_debug,
     "pretty, prefix, limit, cluster"},
    {"/debug/:key", Tail::text, {{Method::get, "getKey"}}, read_inspect, "pretty, cluster"},
    {"/healthz", Tail::none, {{Method::get, "getHealth"}}, read_health, ""},
    {"/metrics", Tail::none, {{Method::get, "getMetrics"}}, read_metrics, ""},
    {"/top", Tail::none, {{Method::get, "getTop"}}, read_top, "keys, cluster"},
    {"/openapi.json", Tail::none, {{Method::get, "getOpenapi"}}, read_openapi, ""},
    {"/v1/subjects",
     Tail::none,
     {{Method::get, "listSubjects"}},
     read_quota,
     "cursor, limit, headers, cluster",
     Quota::subjects},
    {"/v1/subjects/:key",
     Tail::text,
     {{Method::get, "getSubject"}, {Method::put, "putSubject"}, {Method::remove, "deleteSubject"}},
     read_quota,
     "headers, dry_run",
     Quota::subject},
    {"/v1/reserve", Tail::none, {{Method::post, "reserve"}}, read_quota, "headers", Quota::reserve},
    {"/v1/check", Tail::none, {{Method::post, "check"}}, read_quota, "headers", Quota::check},
    {"/v1/settle", Tail::none, {{Method::post, "settle"}}, read_quota, "headers", Quota::settle},
    {"/v1/cancel", Tail::none, {{Method::post, "cancel"}}, read_quota, "headers", Quota::cancel},
    {"/v1/extend", Tail::none, {{Method::post, "extend"}}, read_quota, "headers", Quota::extend},
    {"/v1/record", Tail::none, {{Method::post, "record"}}, read_quota, "headers", Quota::record},
    {"/v1/consume", Tail::none, {{Method::post, "consume"}}, read_quota, "headers", Quota::consume},
    {"/v1/position",
     Tail::none,
     {{Method::post, "position"}},
     read_quota,
     "headers",
     Quota::position},
    {"/v1/reset",
     Tail::none,
     {{Method::post, "reset"}},
     read_quota,
     "headers, dry_run",
     Quota::reset},
    {"/v1/reset-all",
     Tail::none,
     {{Method::post, "resetAll"}},
     read_quota,
     "headers, dry_run, cluster",
     Quota::reset_all},
    {"/v1/reservations",
     Tail::none,
     {{Method::get, "listReservations"}},
     read_quota,
     "subject, cursor, limit, headers, cluster",
     Quota::reservations},
    {"/v1/reservations/:id",
     Tail::text,
     {{Method::get, "getReservation"}},
     read_quota,
     "headers",
     Quota::reservation},
}};

// The part of a route in front of its parameters: "/rate/" of "/rate/:key/:id".
constexpr std::string_view fixed_part(std::string_view route) noexcept {
  return route.substr(0, route.find(':'));
}

// Whether the path is that of the row. A template, because comparing a constant prefix takes few
// instructions, and the rows of /rate are tried for every request.
template <size_t Row>
bool match_path(std::string_view path, PathMatch& match) noexcept {
  constexpr const RestEndpoint& endpoint = endpoints[Row];
  constexpr std::string_view fixed = fixed_part(endpoint.route);
  if constexpr (endpoint.tail == Tail::none) {
    if (path != fixed) return false;
    match = {&endpoint, {}, {}};
    return true;
  }
  if (!path.starts_with(fixed) || path.size() == fixed.size()) return false;
  const std::string_view rest = path.substr(fixed.size());
  const size_t slash = endpoint.tail == Tail::text ? rest.npos : rest.find('/');
  if constexpr (endpoint.tail == Tail::segment_and_id) {
    if (slash == rest.npos || slash + 1 == rest.size()) return false;
    match = {&endpoint, rest.substr(0, slash), rest.substr(slash + 1)};
    return true;
  }
  if (slash != rest.npos) return false;
  match = {&endpoint, rest, {}};
  return true;
}

template <size_t... Rows>
PathMatch match_any(std::string_view path, std::index_sequence<Rows...>) noexcept {
  PathMatch match;
  static_cast<void>((match_path<Rows>(path, match) || ...));
  return match;
}

constexpr std::array<std::string_view, 5> method_names{"", "GET", "POST", "PUT", "DELETE"};

constexpr std::string_view name_of(Method method) noexcept {
  return method_names[static_cast<size_t>(method)];
}

Method method_of(std::string_view name) noexcept {
  if (name == "GET") return Method::get;
  if (name == "POST") return Method::post;
  if (name == "DELETE") return Method::remove;
  return name == "PUT" ? Method::put : Method::none;
}

constexpr std::string_view separator = ", ";

// "OPTIONS, GET, POST" of each row, composed by the compiler.
struct AllowText {
  std::array<char, 32> chars{};
  size_t size = 0;

  consteval void append(std::string_view text) noexcept {
    for (const char c : text) chars[size++] = c;
  }
};

consteval AllowText allow_text(const RestEndpoint& endpoint) noexcept {
  AllowText text;
  text.append("OPTIONS");
  for (const RestOperation& operation : endpoint.operations) {
    if (operation.method == Method::none) break;
    text.append(separator);
    text.append(name_of(operation.method));
  }
  return text;
}

consteval std::array<AllowText, endpoints.size()> make_allow_texts() {
  std::array<AllowText, endpoints.size()> texts;
  for (size_t row = 0; row < texts.size(); ++row) texts[row] = allow_text(endpoints[row]);
  return texts;
}

constexpr auto allow_texts = make_allow_texts();

}  // namespace

std::span<const RestEndpoint> rest_endpoints() noexcept {
  return endpoints;
}

const RestEndpoint& quota_endpoint(QuotaEndpoint endpoint) noexcept {
  ASSERT(endpoint != QuotaEndpoint::none);
  const auto found = std::ranges::find(endpoints, endpoint, &RestEndpoint::quota);
  ASSERT(found != endpoints.end());
  return *found;
}

PathMatch find_endpoint(std::string_view path) noexcept {
  return match_any(path, std::make_index_sequence<endpoints.size()>());
}

std::string_view method_name(RestMethod method) noexcept {
  return name_of(method);
}

bool has_method(const RestEndpoint& endpoint, std::string_view method) noexcept {
  const Method asked = method_of(method);
  for (const RestOperation& operation : endpoint.operations) {
    if (operation.method == asked) return asked != Method::none;
  }
  return false;
}

std::string_view allowed_methods(const RestEndpoint& endpoint) noexcept {
  const auto row = static_cast<size_t>(&endpoint - endpoints.data());
  ASSERT(row < endpoints.size());
  const AllowText& text = allow_texts[row];
  return {text.chars.data(), text.size};
}

bool takes_parameter(const RestEndpoint& endpoint, std::string_view name) noexcept {
  std::string_view rest = endpoint.parameters;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(separator), rest.size());
    if (rest.substr(0, end) == name) return true;
    rest.remove_prefix(std::min(end + separator.size(), rest.size()));
  }
  return endpoint.quota != Quota::none && name == "dry_run";
}

}  // namespace sluice::wire
