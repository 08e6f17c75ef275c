// What a Client reserved, as a guard: it settles or cancels what is still open, so that nothing is
// held by who forgot it.
// Errors: settle(), cancel() and extend() throw as the client's calls do; the destructor never.
// Lives:  no longer than the client that gave it.
#pragma once

#include <cstdint>
#include <utility>

#include "sluicegate/quota.hpp"

namespace sluicegate {

class ClientImpl;

class Reservation {
 public:
  Reservation() = default;
  // Cancels what is open: everything comes back. It neither waits for the server nor throws; where
  // there is no connection, the reservation ends with its lifetime.
  ~Reservation() { give_up(); }
  Reservation(Reservation&& other) noexcept
      : impl_{std::exchange(other.impl_, nullptr)}, outcome_{std::move(other.outcome_)} {}
  Reservation& operator=(Reservation&& other) noexcept {
    if (this == &other) return *this;
    give_up();
    impl_ = std::exchange(other.impl_, nullptr);
    outcome_ = std::move(other.outcome_);
    return *this;
  }

  bool admitted() const noexcept { return outcome_.admitted(); }
  explicit operator bool() const noexcept { return admitted(); }
  const QuotaOutcome& outcome() const noexcept { return outcome_; }
  uint64_t id() const noexcept { return outcome_.reservation; }
  bool is_open() const noexcept { return impl_ != nullptr; }

  // Replaces what was reserved by what was used. The guard has done its duty then, even if this
  // throws: what was used must not come back. The reservation then ends with its lifetime, unless
  // Client::settle() reaches the server in time.
  QuotaOutcome settle(const Used& used = {});
  // Gives everything back; all but the requests where those were made all the same.
  QuotaOutcome cancel(bool keep_requests = false);
  // Of a lease: frees its slot.
  QuotaOutcome release() { return cancel(); }
  // A lifetime from now on; 0: as long as it last got.
  QuotaOutcome extend(uint32_t lifetime_ms = 0);
  // Leaves it open, for who has the id.
  uint64_t detach() noexcept {
    impl_ = nullptr;
    return id();
  }

 private:
  friend class ClientImpl;
  Reservation(ClientImpl& impl, QuotaOutcome outcome) noexcept
      : impl_{outcome.reservation != 0 ? &impl : nullptr}, outcome_{std::move(outcome)} {}

  void give_up() noexcept;

  ClientImpl* impl_ = nullptr;  // while it is open
  QuotaOutcome outcome_;
};

}  // namespace sluicegate
