#include "quota/connection_bindings.hpp"

#include "base/assert.hpp"
#include "base/splitmix.hpp"

namespace sluice::quota {
namespace {

// Connections are numbered upwards, with the number of their shard in the upper bits: both have to
// reach the upper half, which is what the index compares.
uint64_t hash_of(uint64_t connection) noexcept {
  return (connection ^ connection >> 32) * base::splitmix64_step;
}

}  // namespace

ConnectionBindings::ConnectionBindings(uint32_t reservations_max)
    : pool_(reservations_max, "connection-bound reservations (--max-reservations)"),
      index_(reservations_max, "connection-bound reservations (--max-reservations)") {}

uint32_t ConnectionBindings::find(uint64_t connection) const noexcept {
  return index_.find(hash_of(connection),
                     [&](uint32_t at) { return pool_[at].connection == connection; });
}

void ConnectionBindings::bind(Reservation& reservation, uint64_t connection) noexcept {
  uint32_t at = find(connection);
  if (at == HashIndex::none) {
    at = pool_.take(connection);
    ASSERT(at != pool_.none);
    index_.insert(hash_of(connection), at);
  }
  reservation.binding = at;
  pool_[at].open.push_back(reservation);
}

void ConnectionBindings::unbind(Reservation& reservation) noexcept {
  reservation.unlink();
  const Binding& binding = pool_[reservation.binding];
  if (!binding.open.empty()) return;
  index_.erase(hash_of(binding.connection), reservation.binding);
  pool_.free(reservation.binding);
}

bool ConnectionBindings::end(uint64_t connection) noexcept {
  const uint32_t at = find(connection);
  if (at == HashIndex::none) return false;
  if (!pool_[at].is_linked()) ended_.push_back(pool_[at]);
  return true;
}

void ConnectionBindings::check_invariants() const noexcept {
  for (uint32_t at = 0; at < pool_.index_end(); ++at) {
    if (!pool_.holds(at)) continue;
    ASSERT(find(pool_[at].connection) == at && !pool_[at].open.empty());
    for (const Reservation& reservation : pool_[at].open) {
      ASSERT(reservation.binding == at);
      ASSERT(reservation.state == api::ReservationState::open);
    }
  }
}

}  // namespace sluice::quota
