// The guard of a reservation: its destructor ends a reservation that is still open, so a caller
// cannot leave one open by mistake: it settles what was reported, or cancels.
// Errors: settle(), cancel() and extend() throw like the client's calls; the destructor never does.
// Lives:  no longer than the client that returned it.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "sluicegate/quota.hpp"

namespace sluicegate {

class ClientImpl;
struct KeptSettle;
struct ReservedCall;
class Tenure;

class [[nodiscard]] Reservation {
 public:
  Reservation() = default;
  // Ends an open reservation: settles what report() has kept; if that is nothing, cancels it, so
  // the server refunds all of it; as ReserveOptions::on_exception says, if an exception destroys
  // it. It neither waits for the server nor throws. Where the server cannot be asked, the client
  // keeps a settle, unless its policy is `error`; a cancelled reservation ends with its lifetime.
  ~Reservation() { end_if_open(); }
  Reservation(Reservation&& other) noexcept { take(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    if (this == &other) return *this;
    end_if_open();
    take(other);
    return *this;
  }

  bool admitted() const noexcept { return outcome_.admitted(); }
  explicit operator bool() const noexcept { return admitted(); }
  const QuotaOutcome& outcome() const noexcept { return outcome_; }
  uint64_t id() const noexcept { return outcome_.reservation; }
  bool is_open() const noexcept { return impl_ != nullptr && id() != 0; }
  // False once it is ended, lost, or may be lost: after its lifetime, unless it was extended in
  // time. Where no lifetime was given, only its end makes it false.
  bool held() const noexcept;

  // Keeps what was used so far, in total; sends nothing. Amounts that are never reported stay as
  // reserved. Errors: std::invalid_argument, as of settle().
  void report(const Used& used);
  // Replaces the reserved amounts by the used ones. A call that failed is kept under the policies
  // `open` and `closed` (QuotaOutcome::kept). Even if this throws, the guard will not cancel the
  // reservation, because the server must not refund quota that was used. The reservation then ends
  // with its lifetime, unless Client::settle() reaches the server in time.
  // Where the failure policy has admitted the call without a server, this records the usage.
  QuotaOutcome settle(const Used& used = {});
  // Like Client::settle_nowait(): returns at once, and the client repeats it.
  void settle_nowait(const Used& used = {});
  // Refunds everything; all but the requests with `keep_requests`, when they were made anyway.
  QuotaOutcome cancel(bool keep_requests = false);
  // For a lease: frees its slot.
  QuotaOutcome release() { return cancel(); }
  // Renews the lifetime, counted from now; 0: as long as the last one.
  QuotaOutcome extend(uint32_t lifetime_ms = 0);
  // Leaves the reservation open; the caller ends it by its id.
  uint64_t detach() noexcept {
    impl_ = nullptr;
    tenure_.reset();  // nothing renews it
    return id();
  }

 private:
  friend class ClientImpl;
  using Clock = std::chrono::steady_clock;
  Reservation(ClientImpl& impl, QuotaOutcome outcome, std::shared_ptr<const ReservedCall> reserved);

  void take(Reservation& other) noexcept {
    impl_ = std::exchange(other.impl_, nullptr);
    outcome_ = std::move(other.outcome_);
    reported_ = other.reported_;
    exceptions_ = other.exceptions_;
    reserved_ = std::move(other.reserved_);
    tenure_ = std::move(other.tenure_);
    lifetime_ = other.lifetime_;
    instance_id_ = other.instance_id_;
    ends_ = other.ends_;
  }
  KeptSettle settle_of_guard(const Used& used) const;
  // It is ended: returns the client, to which it was open.
  ClientImpl* end() noexcept;
  std::optional<Used> used_at_end() const noexcept;
  void end_if_open() noexcept;

  ClientImpl* impl_ = nullptr;  // null when nothing is left to settle
  QuotaOutcome outcome_;
  std::optional<Used> reported_;
  int exceptions_ = std::uncaught_exceptions();  // more: an exception destroys it
  std::shared_ptr<const ReservedCall> reserved_;
  std::shared_ptr<Tenure> tenure_;
  std::chrono::milliseconds lifetime_{};
  uint64_t instance_id_ = 0;  // of the start of the server that has it; 0: not known
  Clock::time_point ends_{};  // of the lifetime
};

}  // namespace sluicegate
