// Finds what an earlier call has made under the same client's id, and answers its repeat.
// Flow:   a Request with an id -> find() -> code(), or answer().
// Errors: `id_in_use`: the id names another request, or a waiter.
// Lives:  one thread only.
#pragma once

#include <optional>

#include "quota/client_ids.hpp"
#include "quota/request.hpp"
#include "quota/reservation_book.hpp"
#include "quota/wait_queues.hpp"

namespace sluice::quota {

class RepeatedCalls {
 public:
  RepeatedCalls(const ClientIds& client_ids, ReservationBook& reservations,
                const WaitQueues& queues) noexcept
      : client_ids_(client_ids), reservations_(reservations), queues_(queues) {}

  // The reservation that the request's id names, or the waiter.
  std::optional<ClientIds::Entry> find(const Request& request) const noexcept;
  // Whether there is no verdict on the earlier call yet: it is a hold, or a waiter that may join.
  bool is_undecided(ClientIds::Entry found) const noexcept;
  // What the earlier call was admitted with.
  api::QuotaCode code(const Request& request, ClientIds::Entry found) const noexcept;
  // True: the request's id names a reservation or a waiter, and the answer follows from it.
  bool answer(const Request& request, api::QuotaAnswer& answer) noexcept;

 private:
  const ClientIds& client_ids_;
  ReservationBook& reservations_;
  const WaitQueues& queues_;
};

}  // namespace sluice::quota
