// A routed REST request: one type for each kind of request.
// Flow:   route_request() -> RestRequest -> the session decides, asks other shards, or replies.
// Shape:  docs/rest.md.
// Lives:  views of the request's target and of the buffer with its decoded escapes.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "api/entry.hpp"
#include "base/limits.hpp"
#include "wire/content_type.hpp"

namespace sluice::wire {

struct RestOptions {
  uint32_t key_bytes_max = 1'024;
  bool requests_can_set_rate = true;
  bool requests_can_mod_queue = true;
  bool requests_can_set_window = true;
  bool has_other_nodes = false;
};

// GET|POST /rate/:key and DELETE /rate/:key/:id, as one entry. wait_ms_max is the request's own.
// The entry does not point to the overrides yet.
struct RestDecision {
  api::Entry entry;
  api::Overrides overrides;
  bool json = false;  // Accept: application/json
};

struct RestInspect {
  std::string_view key;  // GET /debug/:key
  bool pretty = false;
};

struct RestDebug {  // GET /debug
  bool pretty = false;
  std::string_view prefix;                     // of the keys shown
  uint32_t keys_max = limits::debug_keys_max;  // shown at most
};

struct RestHealth {};
struct RestMetrics {};
struct RestOpenapi {};  // GET /openapi.json

// GET /top.
struct RestTop {
  uint32_t keys_max = 0;
};

// ?cluster=true: all nodes answer the same request, each for itself.
struct RestOfAllNodes {
  std::string_view method;
  std::string_view target;  // as it was sent
};

// The endpoints under /v1/.
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
  consume,
  position,
  reset,
  reset_all,
  reservations,
  reservation,
};

// ?dry_run=
enum class DryRun : uint8_t { absent, no, yes, unclear };

// The head of a request for quotas; the rest of the request is in its body.
struct RestQuota {
  QuotaEndpoint endpoint = QuotaEndpoint::none;
  std::string_view method;       // one of the endpoint's
  std::string_view subject;      // GET|PUT|DELETE /v1/subjects/NAME; GET /v1/reservations?subject=
  bool by_subject = false;       // GET /v1/reservations: only those of `subject`
  std::string_view reservation;  // GET /v1/reservations/ID
  std::string_view cursor;       // GET /v1/subjects, /v1/reservations; empty: from the start
  std::string_view limit;        // likewise; empty: quota_page_rows
  std::string_view rate_style;   // X-RateLimit-Style; empty: plain headers
  std::string_view headers;      // the same style as ?headers=
  DryRun dry_run = DryRun::absent;
  bool has_unclear_cluster = false;    // ?cluster= that is neither true nor false
  std::string_view unknown_parameter;  // of the query: the first that the endpoint does not have
  std::string_view invalid_parameter;  // of the query: given twice, or impossible to decode
};

// A reply with a static body: a refusal, OPTIONS, /healthz, a release.
struct RestReply {
  uint16_t status = 0;
  std::string_view body;          // static
  std::string_view content_type;  // static; empty: none
  std::string_view allow;         // static; empty: none
  bool json = false;              // wraps the body's text in {"error":"..."}
  bool closes = false;            // the connection ends after the reply
  bool is_rate_refusal = false;   // refuses a /rate request, which the session logs
};

// The reply to a RestInspect of a key that is not live.
inline constexpr RestReply key_not_found{
    .status = 404, .body = "Key not found", .content_type = text_plain};

using RestRequest = std::variant<RestReply, RestDecision, RestInspect, RestDebug, RestHealth,
                                 RestMetrics, RestTop, RestOpenapi, RestQuota, RestOfAllNodes>;

}  // namespace sluice::wire
