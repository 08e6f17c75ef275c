#include "wire/rest_quota_route.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"

namespace sluice::wire {
namespace {

constexpr std::string_view subjects_path = "/v1/subjects";
constexpr std::string_view reservations_path = "/v1/reservations";

constexpr std::array<QuotaEndpointInfo, 12> endpoints{{
    {QuotaEndpoint::subjects, subjects_path, "OPTIONS, GET", "cursor, limit, headers"},
    {QuotaEndpoint::subject, "/v1/subjects/:key", "OPTIONS, GET, PUT, DELETE", "headers, dry_run"},
    {QuotaEndpoint::reserve, "/v1/reserve", "OPTIONS, POST", "headers"},
    {QuotaEndpoint::check, "/v1/check", "OPTIONS, POST", "headers"},
    {QuotaEndpoint::settle, "/v1/settle", "OPTIONS, POST", "headers"},
    {QuotaEndpoint::cancel, "/v1/cancel", "OPTIONS, POST", "headers"},
    {QuotaEndpoint::extend, "/v1/extend", "OPTIONS, POST", "headers"},
    {QuotaEndpoint::record, "/v1/record", "OPTIONS, POST", "headers"},
    {QuotaEndpoint::reset, "/v1/reset", "OPTIONS, POST", "headers, dry_run"},
    {QuotaEndpoint::reset_all, "/v1/reset-all", "OPTIONS, POST", "headers, dry_run"},
    {QuotaEndpoint::reservations, reservations_path, "OPTIONS, GET",
     "subject, cursor, limit, headers"},
    {QuotaEndpoint::reservation, "/v1/reservations/:id", "OPTIONS, GET", "headers"},
}};

// What stands behind PREFIX/, if anything does.
std::string_view behind(std::string_view prefix, std::string_view path) noexcept {
  const bool is_longer = path.starts_with(prefix) && path.size() > prefix.size() + 1;
  if (!is_longer || path[prefix.size()] != '/') return {};
  return path.substr(prefix.size() + 1);
}

}  // namespace

std::span<const QuotaEndpointInfo> quota_endpoints() noexcept {
  return endpoints;
}

QuotaPath cut_quota_path(std::string_view path) noexcept {
  if (const std::string_view name = behind(subjects_path, path); !name.empty()) {
    return {.endpoint = QuotaEndpoint::subject, .key = name};
  }
  if (const std::string_view id = behind(reservations_path, path); !id.empty()) {
    return {.endpoint = QuotaEndpoint::reservation, .key = id};
  }
  const auto found = std::find_if(endpoints.begin(), endpoints.end(),
                                  [path](const auto& info) { return info.route == path; });
  return found == endpoints.end() ? QuotaPath{} : QuotaPath{.endpoint = found->endpoint};
}

const QuotaEndpointInfo& quota_endpoint_info(QuotaEndpoint endpoint) noexcept {
  const auto found = std::find_if(endpoints.begin(), endpoints.end(), [endpoint](const auto& info) {
    return info.endpoint == endpoint;
  });
  ASSERT(found != endpoints.end());
  return *found;
}

// OPTIONS is answered for every path alike.
bool has_quota_method(QuotaEndpoint endpoint, std::string_view method) noexcept {
  switch (endpoint) {
    case QuotaEndpoint::none:
      return false;
    case QuotaEndpoint::subjects:
    case QuotaEndpoint::reservations:
    case QuotaEndpoint::reservation:
      return method == "GET";
    case QuotaEndpoint::subject:
      return method == "GET" || method == "PUT" || method == "DELETE";
    default:
      return method == "POST";
  }
}

bool has_quota_field(QuotaEndpoint endpoint, std::string_view name) noexcept {
  std::string_view fields = quota_endpoint_info(endpoint).fields;
  while (!fields.empty()) {
    const size_t comma = std::min(fields.find(", "), fields.size());
    if (fields.substr(0, comma) == name) return true;
    fields.remove_prefix(std::min(comma + 2, fields.size()));
  }
  return name == "dry_run";
}

}  // namespace sluice::wire
