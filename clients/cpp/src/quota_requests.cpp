#include "quota_requests.hpp"

#include "quota_checks.hpp"
#include "quota_slice.hpp"

namespace sluicegate {
namespace {

using Kind = QuotaCall::Kind;

// 0 is the default, so the frame needs no value.
uint64_t unset_if_zero(uint64_t amount) noexcept {
  return amount == 0 ? unset : amount;
}

void put_used(QuotaCall& call, const Used& used) {
  require_valid(used);
  call.requests = used.requests.value_or(keep);
  call.input_tokens = used.input_tokens.value_or(unset);
  call.cached_input_tokens = unset_if_zero(used.cached_input_tokens);
  call.output_tokens = used.output_tokens.value_or(unset);
  call.cost = used.cost.value_or(unset);
}

}  // namespace

Client::QuotaCallback or_nothing(Client::QuotaCallback done) {
  if (done) return done;
  return [](const QuotaOutcome&) {};
}

QuotaCall call_of(Kind kind, const Subjects& subjects, const ReserveOptions& options) {
  require_valid(options);
  return {.kind = kind,
          .flags = flags_of(options),
          .wait_limit_ms = options.wait_limit_ms,
          .lifetime_ms = options.lifetime_ms,
          .owner = options.owner,
          .subjects = subjects.names(),
          .client_id = options.id,
          .requests = options.requests == 1 ? keep : options.requests,
          .input_tokens = unset_if_zero(options.input_tokens),
          .output_tokens = options.max_output_tokens.value_or(unset),
          .cost = unset_if_zero(options.cost),
          .timeout = options.timeout};
}

QuotaCall settle_of(uint64_t reservation, const Used& used) {
  QuotaCall call{.kind = Kind::settle, .reservation = reservation};
  put_used(call, used);
  return call;
}

QuotaCall cancel_of(uint64_t reservation, bool keep_requests) {
  return {.kind = Kind::cancel,
          .flags = keep_requests ? quota_flag::keep_requests : uint8_t{0},
          .reservation = reservation};
}

QuotaCall extend_of(uint64_t reservation, uint32_t lifetime_ms) {
  require_lifetime(lifetime_ms);
  return {.kind = Kind::extend, .lifetime_ms = lifetime_ms, .reservation = reservation};
}

QuotaCall consume_of(const Subjects& subjects, const Used& used, const ConsumeOptions& options) {
  require_valid(options);
  QuotaCall call{.kind = Kind::consume,
                 .flags = flags_of(options),
                 .wait_limit_ms = options.wait_limit_ms,
                 .subjects = subjects.names(),
                 .client_id = options.id,
                 .timeout = options.timeout};
  put_used(call, used);
  return call;
}

QuotaCall record_of(const Subjects& subjects, const Used& used, std::string_view id) {
  QuotaCall call = consume_of(subjects, used, {.id = id});
  call.kind = Kind::record;
  return call;
}

}  // namespace sluicegate
