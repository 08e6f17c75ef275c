#include "wire/rest_quota_route.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"

namespace sluice::wire {
namespace {

constexpr std::string_view subjects_path = "/v1/subjects";
constexpr std::string_view reservations_path = "/v1/reservations";

constexpr std::array<QuotaEndpointInfo, 12> endpoints{{
    {QuotaEndpoint::subjects, subjects_path, "OPTIONS, GET"},
    {QuotaEndpoint::subject, "/v1/subjects/:key", "OPTIONS, GET, PUT, DELETE"},
    {QuotaEndpoint::reserve, "/v1/reserve", "OPTIONS, POST"},
    {QuotaEndpoint::check, "/v1/check", "OPTIONS, POST"},
    {QuotaEndpoint::settle, "/v1/settle", "OPTIONS, POST"},
    {QuotaEndpoint::cancel, "/v1/cancel", "OPTIONS, POST"},
    {QuotaEndpoint::extend, "/v1/extend", "OPTIONS, POST"},
    {QuotaEndpoint::record, "/v1/record", "OPTIONS, POST"},
    {QuotaEndpoint::reset, "/v1/reset", "OPTIONS, POST"},
    {QuotaEndpoint::reset_all, "/v1/reset-all", "OPTIONS, POST"},
    {QuotaEndpoint::reservations, reservations_path, "OPTIONS, GET"},
    {QuotaEndpoint::reservation, "/v1/reservations/:id", "OPTIONS, GET"},
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

}  // namespace sluice::wire
