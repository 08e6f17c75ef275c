// The guard of a reservation: its destructor cancels a reservation that is still open, so a caller
// cannot leave one open by mistake.
// Errors: settle(), cancel() and extend() throw like the client's calls; the destructor never does.
// Lives:  no longer than the client that returned it.
#pragma once

#include <cstdint>
#include <utility>

#include "sluicegate/quota.hpp"

namespace sluicegate {

class ClientImpl;

class [[nodiscard]] Reservation {
 public:
  Reservation() = default;
  // Cancels an open reservation, so the server refunds all of it. It neither waits for the server
  // nor throws; without a connection the reservation ends with its lifetime.
  ~Reservation() { cancel_if_open(); }
  Reservation(Reservation&& other) noexcept
      : impl_{std::exchange(other.impl_, nullptr)}, outcome_{std::move(other.outcome_)} {}
  Reservation& operator=(Reservation&& other) noexcept {
    if (this == &other) return *this;
    cancel_if_open();
    impl_ = std::exchange(other.impl_, nullptr);
    outcome_ = std::move(other.outcome_);
    return *this;
  }

  bool admitted() const noexcept { return outcome_.admitted(); }
  explicit operator bool() const noexcept { return admitted(); }
  const QuotaOutcome& outcome() const noexcept { return outcome_; }
  uint64_t id() const noexcept { return outcome_.reservation; }
  bool is_open() const noexcept { return impl_ != nullptr; }

  // Replaces the reserved amounts by the used ones. Even if this throws, the guard will not cancel
  // the reservation, because the server must not refund quota that was used. The reservation then
  // ends with its lifetime, unless Client::settle() reaches the server in time.
  QuotaOutcome settle(const Used& used = {});
  // Refunds everything; all but the requests with `keep_requests`, when they were made anyway.
  QuotaOutcome cancel(bool keep_requests = false);
  // For a lease: frees its slot.
  QuotaOutcome release() { return cancel(); }
  // Renews the lifetime, counted from now; 0: as long as the last one.
  QuotaOutcome extend(uint32_t lifetime_ms = 0);
  // Leaves the reservation open; the caller ends it by its id.
  uint64_t detach() noexcept {
    impl_ = nullptr;
    return id();
  }

 private:
  friend class ClientImpl;
  Reservation(ClientImpl& impl, QuotaOutcome outcome) noexcept
      : impl_{outcome.reservation != 0 ? &impl : nullptr}, outcome_{std::move(outcome)} {}

  void cancel_if_open() noexcept;

  ClientImpl* impl_ = nullptr;  // null when nothing is open
  QuotaOutcome outcome_;
};

}  // namespace sluicegate
