// REST <-> values of quotas: requests under /v1/ and their answers.
// Flow:   RestQuota and its body -> read_quota_request() -> fill_batch() -> the batch is decided ->
//         quota_reply() -> the bytes of an answer. (rest_quota_body.cpp, rest_quota_call.cpp,
//         rest_quota_reply.cpp, rest_quota_headers.cpp)
// Shape:  docs/rest.md, "Quotas", and openapi.json beside this file.
// Errors: a faulty request becomes a QuotaProblem that names field and cure.
// Lives:  a QuotaRequest owns its texts; a batch that was filled from it points into it. Allocates,
//         as requests for quotas over REST may.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "wire/rest_request.hpp"

namespace sluice::wire {

// The style of the headers for limits, beside RateLimit and RateLimit-Policy.
enum class RateStyle : uint8_t { plain, openai, anthropic };

struct QuotaRequest {
  QuotaEndpoint endpoint = QuotaEndpoint::none;
  RateStyle style = RateStyle::plain;
  api::QuotaCall call;  // without its texts and subjects, which follow
  std::vector<std::string> subjects;
  std::string client_id;
  std::string owner;
  api::Quota quota;      // put
  bool dry_run = false;  // reports what the call would change, and changes nothing
};

// The reason of a refusal. `code` is for programs, `title` and `detail` are for people.
struct QuotaProblem {
  uint16_t status = 400;
  std::string_view code;                // static
  std::string_view title;               // static
  std::string detail;                   // field and cure; empty: the title is enough
  std::vector<std::string> complaints;  // the first faults of a quota
  size_t complaints_left_out = 0;       // the number of further faults
};

struct QuotaOptions {
  uint32_t name_bytes_max = 1'024;
  uint32_t wait_ms_max = 0;  // 0: none
};

// Rows of a page when the request gives no limit.
inline constexpr uint32_t quota_page_rows = 100;

// Whether the endpoint reads a body.
bool reads_quota_body(const RestQuota& asked) noexcept;

std::variant<QuotaRequest, QuotaProblem> read_quota_request(const RestQuota& asked,
                                                            std::string_view body,
                                                            const QuotaOptions& options);

// Adds the request's calls to an empty batch; the answer to the first call is the request's answer.
void fill_batch(const QuotaRequest& request, api::QuotaBatch& batch);

struct QuotaReply {
  uint16_t status = 200;
  std::string_view content_type;  // static; empty: no body
  std::string headers;            // whole lines
  std::string body;
  bool closes = false;  // the server shuts down: the connection ends after the reply
};

// The reply from the decided batch that was filled from the request. `node_names`: host and port of
// each node, in the list's order.
QuotaReply quota_reply(const QuotaRequest& request, const api::QuotaBatch& batch, int64_t wall_ns,
                       std::span<const std::string> node_names = {});

// The reply to a request that waited.
QuotaReply waited_reply(const QuotaRequest& request, const api::WaitAnswer& waited,
                        int64_t wall_ns);

// The reply of a denial without limits.
QuotaReply denied_reply(const QuotaRequest& request, api::QuotaCode code);
QuotaReply problem_reply(const QuotaProblem& problem);

// A limit in an answer, with the name of its subject.
struct ReportedLimit {
  std::string_view subject;
  const api::LimitReport* report = nullptr;
};

// Header lines: RateLimit and RateLimit-Policy, and those of the style. (rest_quota_headers.cpp)
std::string limit_headers(const std::vector<ReportedLimit>& limits, RateStyle style,
                          int64_t wall_ns);

// "20ms", "1.5s", "6m0s", "1h2m3s"
std::string duration_text(int64_t ms);

}  // namespace sluice::wire
