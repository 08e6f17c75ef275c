// Any bytes as the body of a request under /v1/: it is either a request with values within their
// bounds, or a problem that is JSON itself. A request is made and answered.
// Shape: [endpoint][method and style][body]
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/limits.hpp"
#include "wire/rest_endpoint.hpp"
#include "wire/rest_quota.hpp"

namespace {

using namespace sluice;
using Json = nlohmann::json;

constexpr wire::QuotaOptions options{.name_bytes_max = 64, .wait_ms_max = 1'000};

void require(bool condition) {
  if (!condition) std::abort();
}

// Header lines of printable bytes, each with its end.
void check_reply(const wire::QuotaReply& reply) {
  require(reply.content_type.empty() ? reply.body.empty() : Json::accept(reply.body));
  require(reply.headers.empty() || reply.headers.ends_with("\r\n"));
  for (char c : reply.headers) require(c == '\r' || c == '\n' || (c >= 0x20 && c < 0x7F));
}

void check_request(const wire::QuotaRequest& request) {
  const api::QuotaCall& call = request.call;
  require(request.subjects.size() <= limits::call_subjects_max);
  for (const std::string& subject : request.subjects) {
    require(!subject.empty() && subject.size() <= options.name_bytes_max);
  }
  require(request.client_id.size() <= limits::client_id_bytes_max);
  require(request.owner.size() <= limits::client_id_bytes_max);
  require(call.wait_ms_max <= limits::wait_ms_max);
  const bool may_wait = (call.flags & api::quota_flag::may_wait) != 0;
  require(!may_wait || (call.wait_ms_max > 0 && call.wait_ms_max <= options.wait_ms_max));
  require(call.lifetime_ms == 0 || call.lifetime_ms >= limits::lifetime_ms_min);
  require(call.lifetime_ms <= limits::lifetime_ms_max);
  for (uint64_t amount : {call.amounts.requests, call.amounts.input_tokens,
                          call.amounts.output_tokens, call.amounts.cost}) {
    require(amount <= limits::amount_max);
  }
  require(request.quota.limits.size() <= limits::quota_limits_max);
}

// Answers as a store would that has a limit for every subject.
void answer(const wire::QuotaRequest& request) {
  api::QuotaBatch batch;
  wire::fill_batch(request, batch);
  batch.make_answers();
  for (api::QuotaAnswer& one : batch.answers) one.code = api::QuotaCode::ok;
  for (size_t i = 0; i < request.subjects.size(); ++i) {
    api::LimitReport report;
    report.subject = static_cast<uint8_t>(i);
    report.kind = api::LimitKind::sliding;
    report.name_bytes = 3;
    report.name[1] = '"';
    batch.limits.push_back(report);
  }
  const bool wants_limits = request.call.op == api::QuotaOp::reserve ||
                            request.call.op == api::QuotaOp::check ||
                            request.call.op == api::QuotaOp::record;
  if (wants_limits) batch.answers[0].limits_count = static_cast<uint32_t>(batch.limits.size());
  if (request.call.op == api::QuotaOp::show || request.call.op == api::QuotaOp::holders) {
    batch.answer_text = "\"\xFF\n";
    batch.holders.push_back({.state = api::ReservationState::open,
                             .owner = {.begin = 0, .bytes = 3},
                             .subjects_count = 1});
    batch.answers[0].rows_count = 1;
  }
  check_reply(wire::quota_reply(request, batch, 0));
  batch.answers[0].code = api::QuotaCode::queue_ahead;
  check_reply(wire::quota_reply(request, batch, 0));
}

std::vector<wire::QuotaEndpoint> quota_endpoints() {
  std::vector<wire::QuotaEndpoint> endpoints;
  for (const wire::RestEndpoint& endpoint : wire::rest_endpoints()) {
    if (endpoint.quota != wire::QuotaEndpoint::none) endpoints.push_back(endpoint.quota);
  }
  return endpoints;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view body{reinterpret_cast<const char*>(data + 2), size - 2};
  static const std::vector<wire::QuotaEndpoint> endpoints = quota_endpoints();
  const wire::QuotaEndpoint endpoint = endpoints[data[0] % endpoints.size()];
  constexpr std::array<std::string_view, 4> methods{"POST", "PUT", "GET", "DELETE"};
  constexpr std::array<std::string_view, 4> styles{"", "openai", "anthropic", "other"};
  const std::string_view method = methods[data[1] % methods.size()];
  if (!wire::has_method(wire::quota_endpoint(endpoint), method)) return 0;
  const wire::RestQuota asked{.endpoint = endpoint,
                              .method = method,
                              .subject = body.substr(0, 80),
                              .by_subject = data[1] / 16 % 2 == 1,
                              .reservation = body.substr(0, 17),
                              .cursor = body.substr(0, 16),
                              .limit = body.substr(0, 3),
                              .rate_style = styles[data[1] / methods.size() % styles.size()],
                              .unknown_parameter = body.substr(0, data[1] / 32)};
  const auto read = wire::read_quota_request(asked, body, options);
  if (const auto* problem = std::get_if<wire::QuotaProblem>(&read)) {
    require(problem->status >= 400 && !problem->code.empty() && !problem->title.empty());
    check_reply(wire::problem_reply(*problem));
    return 0;
  }
  check_request(std::get<wire::QuotaRequest>(read));
  answer(std::get<wire::QuotaRequest>(read));
  return 0;
}
