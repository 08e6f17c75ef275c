#include "wire/rest_quota_route.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"

namespace sluice::wire {
namespace {

constexpr std::string_view subjects_path = "/v1/subjects";

constexpr std::array<QuotaEndpointInfo, 10> endpoints{{
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
}};

}  // namespace

std::span<const QuotaEndpointInfo> quota_endpoints() noexcept {
  return endpoints;
}

QuotaPath cut_quota_path(std::string_view path) noexcept {
  if (path.starts_with(subjects_path) && path.size() > subjects_path.size() + 1 &&
      path[subjects_path.size()] == '/') {
    return {.endpoint = QuotaEndpoint::subject, .subject = path.substr(subjects_path.size() + 1)};
  }
  const auto found = std::find_if(endpoints.begin(), endpoints.end(), [path](const auto& info) {
    return info.endpoint != QuotaEndpoint::subject && info.route == path;
  });
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
      return method == "GET";
    case QuotaEndpoint::subject:
      return method == "GET" || method == "PUT" || method == "DELETE";
    default:
      return method == "POST";
  }
}

}  // namespace sluice::wire
