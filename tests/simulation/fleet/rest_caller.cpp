#include "rest_caller.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

namespace sluice::simulation {
namespace {

using api::Verdict;

std::vector<Verdict> verdicts_of(int status) {
  switch (status) {
    case 200:
      return {Verdict::approved};
    case 429:
      return {Verdict::denied, Verdict::wait_limit};
    case 400:
      return {Verdict::never_fits};
    case 502:
      return {Verdict::owner_unreachable};
    default:
      return {};
  }
}

std::string target_of(const Call& call) {
  std::string target = "/rate/" + call.key;
  if (call.op == api::Op::release) {
    return target + "/1?cost=" + std::to_string(call.cost);
  }
  target += "?cost=" + std::to_string(call.cost);
  if (call.may_wait) target += "&canWait=true";
  if (call.wait_limit_ms > 0) target += "&maxWaitMillis=" + std::to_string(call.wait_limit_ms);
  if (call.op == api::Op::acquire) {
    target += "&maxRequestsInQueue=" + std::to_string(call_mark + call.id);
  }
  return target;
}

}  // namespace

void RestCaller::ask() {
  if (call_ != nullptr) return;
  call_ = &world_.oracle.ask(drawn_call(true));
  const std::string method = call_->op == api::Op::release ? "DELETE" : "GET";
  client_.write(method + " " + target_of(*call_) + " HTTP/1.1\r\nHost: node\r\n\r\n");
}

void RestCaller::leave_calls() {
  if (call_ != nullptr) world_.oracle.left(*call_);
  call_ = nullptr;
}

void RestCaller::take_answers() {
  if (const auto answer = take_rest_answer(inbox_)) on_response(*answer);
}

void RestCaller::on_response(const RestAnswer& response) {
  if (call_ == nullptr) return fail("an answer to what was not asked");
  Call& call = *std::exchange(call_, nullptr);
  const std::vector<Verdict> verdicts = verdicts_of(response.status);
  if (verdicts.empty()) return fail("status " + std::to_string(response.status));
  // What a waiter gets is its outcome.
  const bool waited = call.decision && call.decision->verdict == Verdict::queued;
  FleetOracle::Answer answer{.verdict = verdicts.front(),
                             .is_degraded = response.is_degraded,
                             .shows_degraded = true,
                             .may_have_waited = waited};
  answer.is_outcome = waited && call.decision->outcome.has_value();
  if (answer.is_outcome && std::ranges::count(verdicts, *call.decision->outcome) > 0) {
    answer.verdict = *call.decision->outcome;
  }
  world_.oracle.answered(call, answer);
}

}  // namespace sluice::simulation
