#include "sluicegate/reservation.hpp"

#include <algorithm>

#include "client_impl.hpp"
#include "quota_checks.hpp"
#include "quota_requests.hpp"

namespace sluicegate {
namespace {

bool is_by_policy(const QuotaOutcome& outcome) noexcept {
  return outcome.admitted() && outcome.failure != Failure::none;
}

}  // namespace

// Nothing is left to settle of a denied call; one that the policy admitted has usage to record.
Reservation::Reservation(ClientImpl& impl, QuotaOutcome outcome,
                         std::shared_ptr<const ReservedCall> reserved)
    : outcome_{std::move(outcome)}, reserved_{std::move(reserved)}, lifetime_{reserved_->lifetime} {
  if (id() == 0 && !is_by_policy(outcome_)) return;
  ends_ = reserved_->since.value_or(impl.platform().about_now()) + lifetime_;
  // Another node may have answered for the one that has it.
  if (outcome_.instance_id == impl.instance_of(id())) instance_id_ = outcome_.instance_id;
  const bool is_limited = id() != 0 && reserved_->has_lifetime;
  tenure_ =
      std::make_shared<Tenure>(id(), lifetime_, is_limited ? ends_ : Clock::time_point::max());
  if (is_limited && reserved_->renew) impl.renewals().add(tenure_);
  impl_ = &impl;
}

Reservation ClientImpl::guard(QuotaOutcome outcome, std::shared_ptr<const ReservedCall> reserved) {
  return {*this, std::move(outcome), std::move(reserved)};
}

void ClientImpl::renew(const Tenure& tenure, std::chrono::milliseconds timeout, QuotaDone done) {
  QuotaCall call =
      extend_of(tenure.reservation(), static_cast<uint32_t>(tenure.lifetime().count()));
  call.timeout = std::max(timeout, std::chrono::milliseconds{1});
  call_async(call, std::move(done));
}

ClientImpl* Reservation::end() noexcept {
  tenure_.reset();
  return std::exchange(impl_, nullptr);
}

bool Reservation::held() const noexcept {
  return impl_ != nullptr && tenure_->is_held(impl_->platform().now());
}

KeptSettle Reservation::settle_of_guard(const Used& used) const {
  require_valid(settle_of(id(), used));
  KeptSettle settle{.reservation = id(),
                    .used = used,
                    .reserved = reserved_,
                    .ends = ends_,
                    .instance_id = instance_id_};
  if (id() == 0) {
    settle.stage = KeptSettle::Stage::record;
    settle.own_id = impl_->new_settle_id();
  }
  return settle;
}

QuotaOutcome Reservation::settle(const Used& used) {
  if (impl_ == nullptr) return {.code = QuotaCode::ok};
  KeptSettle settle = settle_of_guard(used);
  return end()->settle(std::move(settle));
}

void Reservation::settle_nowait(const Used& used) {
  if (impl_ == nullptr) return;
  impl_->settle_nowait(settle_of_guard(used));
  (void)end();
}

QuotaOutcome Reservation::cancel(bool keep_requests) {
  ClientImpl* impl = end();
  if (impl == nullptr || id() == 0) return {.code = QuotaCode::ok};
  return impl->call(cancel_of(id(), keep_requests), {});
}

QuotaOutcome Reservation::extend(uint32_t lifetime_ms) {
  if (!is_open()) return {.code = QuotaCode::ok};
  const auto since = impl_->platform().about_now();
  const std::chrono::milliseconds given{lifetime_ms};
  if (lifetime_ms > 0) tenure_->may_end(since + given);
  const QuotaOutcome outcome = impl_->call(extend_of(id(), lifetime_ms), {});
  if (outcome.failure != Failure::none || may_retry(outcome.code)) return outcome;
  if (!outcome.admitted()) {
    tenure_->lose();
    return outcome;
  }
  if (lifetime_ms > 0) lifetime_ = given;
  ends_ = since + lifetime_;
  if (lifetime_ms > 0 || reserved_->has_lifetime) tenure_->extend(ends_);
  return outcome;
}

void Reservation::report(const Used& used) {
  Used all = reported_.value_or(Used{});
  if (used.requests) all.requests = used.requests;
  if (used.input_tokens) all.input_tokens = used.input_tokens;
  if (used.output_tokens) all.output_tokens = used.output_tokens;
  if (used.cost) all.cost = used.cost;
  if (used.cached_input_tokens != 0) all.cached_input_tokens = used.cached_input_tokens;
  require_valid(settle_of(id(), all));
  reported_ = all;
}

// What is settled without the caller's word. Nothing: it is cancelled.
std::optional<Used> Reservation::used_at_end() const noexcept {
  if (std::uncaught_exceptions() > exceptions_) {
    if (reserved_->on_exception == OnException::refund) return std::nullopt;
    if (reserved_->on_exception == OnException::charge_all) return Used{};
  }
  return reported_;
}

void Reservation::end_if_open() noexcept {
  if (impl_ == nullptr) return;
  try {
    if (const std::optional<Used> used = used_at_end()) {
      impl_->settle_at_end(settle_of_guard(*used));
    } else if (is_open()) {
      impl_->send_detached(cancel_of(id(), false));
    }
  } catch (const std::exception&) {
    // It could not be sent: the reservation ends with its lifetime.
  }
  (void)end();
}

}  // namespace sluicegate
