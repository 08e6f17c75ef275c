#include "sluicegate/reservation.hpp"

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
Reservation::Reservation(ClientImpl& impl, QuotaOutcome outcome, OnException on_exception,
                         std::shared_ptr<const ReservedCall> reserved,
                         Clock::time_point ends) noexcept
    : impl_{outcome.reservation != 0 || is_by_policy(outcome) ? &impl : nullptr},
      outcome_{std::move(outcome)},
      on_exception_{on_exception},
      reserved_{std::move(reserved)},
      lifetime_{reserved_->lifetime},
      ends_{ends} {}

Reservation ClientImpl::guard(QuotaOutcome outcome, OnException on_exception,
                              std::shared_ptr<const ReservedCall> reserved) noexcept {
  const auto ends = platform_.about_now() + reserved->lifetime;
  return {*this, std::move(outcome), on_exception, std::move(reserved), ends};
}

KeptSettle Reservation::settle_of_guard(const Used& used) const {
  require_valid(settle_of(id(), used));
  KeptSettle settle{.reservation = id(), .used = used, .reserved = reserved_, .ends = ends_};
  if (id() == 0) {
    settle.stage = KeptSettle::Stage::record;
    settle.own_id = impl_->new_settle_id();
  }
  return settle;
}

QuotaOutcome Reservation::settle(const Used& used) {
  if (impl_ == nullptr) return {.code = QuotaCode::ok};
  KeptSettle settle = settle_of_guard(used);
  return std::exchange(impl_, nullptr)->settle(std::move(settle));
}

void Reservation::settle_nowait(const Used& used) {
  if (impl_ == nullptr) return;
  impl_->settle_nowait(settle_of_guard(used));
  impl_ = nullptr;
}

QuotaOutcome Reservation::cancel(bool keep_requests) {
  ClientImpl* impl = std::exchange(impl_, nullptr);
  if (impl == nullptr || id() == 0) return {.code = QuotaCode::ok};
  return impl->call(cancel_of(id(), keep_requests), {});
}

QuotaOutcome Reservation::extend(uint32_t lifetime_ms) {
  if (!is_open()) return {.code = QuotaCode::ok};
  const QuotaOutcome outcome = impl_->call(extend_of(id(), lifetime_ms), {});
  if (outcome.failure != Failure::none || !outcome.admitted()) return outcome;
  if (lifetime_ms > 0) lifetime_ = std::chrono::milliseconds{lifetime_ms};
  ends_ = impl_->platform().about_now() + lifetime_;
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
    if (on_exception_ == OnException::refund) return std::nullopt;
    if (on_exception_ == OnException::charge_all) return Used{};
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
  impl_ = nullptr;
}

}  // namespace sluicegate
