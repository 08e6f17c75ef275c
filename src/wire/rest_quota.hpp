// REST <-> values of quotas: what a request under /v1/ asks for, and the answer it gets.
// Flow:   RestQuota and its body -> read_quota_request() -> fill_batch() -> the batch is decided ->
//         quota_reply() -> the bytes of an answer. (rest_quota_body.cpp, rest_quota_call.cpp,
//         rest_quota_reply.cpp, rest_quota_headers.cpp)
// Shape:  docs/rest.md, "Quotas", and openapi.json beside this file.
// Errors: whatever a request gets wrong comes back as a QuotaProblem that names field and cure.
// Lives:  a QuotaRequest owns its texts, a batch that was filled from it points into it. Allocates:
//         a request for quotas over REST may.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "wire/rest_request.hpp"

namespace sluice::wire {

// How limits are told in headers, beside RateLimit and RateLimit-Policy.
enum class RateStyle : uint8_t { plain, openai, anthropic };

struct QuotaRequest {
  QuotaEndpoint endpoint = QuotaEndpoint::none;
  RateStyle style = RateStyle::plain;
  api::QuotaCall call;  // its texts and subjects stand below
  std::vector<std::string> subjects;
  std::string client_id;
  std::string owner;
  api::Quota quota;      // put
  bool dry_run = false;  // tells what the call would change, and changes nothing
};

// Why something is not done. `code` and `title` are what programs and people tell it apart by.
struct QuotaProblem {
  uint16_t status = 400;
  std::string_view code;                // static
  std::string_view title;               // static
  std::string detail;                   // field and cure; empty: the title says all
  std::vector<std::string> complaints;  // of a quota: the first things that are wrong with it
  size_t complaints_left_out = 0;       // how many more there are
};

struct QuotaOptions {
  uint32_t name_bytes_max = 1'024;
  uint32_t wait_ms_max = 0;  // 0: none
};

// Rows of a page when the request does not say.
inline constexpr uint32_t quota_page_rows = 100;

// Whether the endpoint's body is read at all.
bool reads_quota_body(const RestQuota& asked) noexcept;

std::variant<QuotaRequest, QuotaProblem> read_quota_request(const RestQuota& asked,
                                                            std::string_view body,
                                                            const QuotaOptions& options);

// As calls of an empty batch; the first one is the request's, its answer the request's answer.
void fill_batch(const QuotaRequest& request, api::QuotaBatch& batch);

struct QuotaReply {
  uint16_t status = 200;
  std::string_view content_type;  // static; empty: no body
  std::string headers;            // whole lines
  std::string body;
  bool closes = false;  // the server goes down: the connection ends after it
};

// Of the batch that was filled from the request.
QuotaReply quota_reply(const QuotaRequest& request, const api::QuotaBatch& batch, int64_t wall_ns);

// Of a request that waited.
QuotaReply waited_reply(const QuotaRequest& request, const api::WaitAnswer& waited,
                        int64_t wall_ns);

// A denial without limits.
QuotaReply denied_reply(const QuotaRequest& request, api::QuotaCode code);
QuotaReply problem_reply(const QuotaProblem& problem);

// A reservation's id as REST tells it: 16 lower-case hex digits.
std::string reservation_text(uint64_t reservation);

// One limit as an answer tells it, of which subject.
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
