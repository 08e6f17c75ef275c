// The paths under /v1/: which endpoint of quotas is asked, how, and with which subject.
// Flow:   http_codec_route.cpp -> cut_quota_path() -> RestQuota -> rest_quota.hpp reads the body.
// Shape:  all behind /v1/subjects/ is the subject's name, slashes too; all behind /v1/reservations/
//         an id.
// Errors: an endpoint that does not exist is `none`; what a query gets wrong is judged with the
//         body.
// Lives:  views of the request's target and of the buffer that its escapes were decoded in.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::wire {

enum class QuotaEndpoint : uint8_t {
  none,
  subjects,
  subject,
  reserve,
  check,
  settle,
  cancel,
  extend,
  record,
  reset,
  reset_all,
  reservations,
  reservation,
};

// One endpoint: its path as documents and the log tell it, and the methods it has.
struct QuotaEndpointInfo {
  QuotaEndpoint endpoint;
  std::string_view route;
  std::string_view methods;  // as Allow tells them
  std::string_view fields;   // of its query, with ", " between
};

// Every one of them but `none`.
std::span<const QuotaEndpointInfo> quota_endpoints() noexcept;

struct QuotaPath {
  QuotaEndpoint endpoint = QuotaEndpoint::none;
  std::string_view key;  // still percent-encoded: the subject, or the reservation's id
};
QuotaPath cut_quota_path(std::string_view path) noexcept;

const QuotaEndpointInfo& quota_endpoint_info(QuotaEndpoint endpoint) noexcept;
bool has_quota_method(QuotaEndpoint endpoint, std::string_view method) noexcept;
// dry_run is everybody's: where there is none it is refused with what to do instead.
bool has_quota_field(QuotaEndpoint endpoint, std::string_view name) noexcept;

// ?dry_run=
enum class DryRun : uint8_t { absent, no, yes, unclear };

// A request for quotas as its head has it; what it asks stands in its body, too.
struct RestQuota {
  QuotaEndpoint endpoint = QuotaEndpoint::none;
  std::string_view method;       // one that the endpoint has
  std::string_view subject;      // GET|PUT|DELETE /v1/subjects/NAME; GET /v1/reservations?subject=
  bool by_subject = false;       // GET /v1/reservations: of `subject` alone
  std::string_view reservation;  // GET /v1/reservations/ID
  std::string_view cursor;       // GET /v1/subjects, /v1/reservations; empty: from the start
  std::string_view limit;        // likewise; empty: as many as usual
  std::string_view rate_style;   // of headers: X-RateLimit-Style; empty: plain ones
  std::string_view headers;      // the same as ?headers=
  DryRun dry_run = DryRun::absent;
  std::string_view unknown_field;  // of the query: the first that the endpoint does not have
  std::string_view unclear_field;  // of the query: given twice, or not to be decoded
};

}  // namespace sluice::wire
