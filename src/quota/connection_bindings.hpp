// Open reservations that end with their connections, found by the connection when it has ended.
// Flow:   bind() -> unbind() when the reservation ends; or end(connection), and then every
//         next_to_expire() is expired, a slice at a time: a connection may have bound every
//         reservation.
// Shape:  a binding for each connection that has open reservations bound to it.
// Errors: none: there are no more bindings than open reservations.
// Lives:  one thread only. A reservation that is bound while its connection's end is under way ends
//         too.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "base/object_pool.hpp"
#include "quota/hash_index.hpp"
#include "quota/reservation.hpp"

namespace sluice::quota {

class ConnectionBindings {
 public:
  explicit ConnectionBindings(uint32_t reservations_max);

  void bind(Reservation& reservation, uint64_t connection) noexcept;
  // With the last reservation of a connection its binding goes too.
  void unbind(Reservation& reservation) noexcept;

  // False: the connection has no open reservations.
  bool end(uint64_t connection) noexcept;
  // A reservation of the connection that ended first. Null: no connection's end is under way.
  Reservation* next_to_expire() noexcept {
    return ended_.empty() ? nullptr : &ended_.front().open.front();
  }
  bool has_any_to_expire() const noexcept { return !ended_.empty(); }

  uint64_t reserved_bytes() const noexcept {
    return pool_.reserved_bytes() + index_.reserved_bytes();
  }
  void check_invariants() const noexcept;

 private:
  struct Binding : boost::intrusive::list_base_hook<
                       boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    explicit Binding(uint64_t of_connection) noexcept : connection(of_connection) {}

    uint64_t connection;
    Reservations open;
  };
  using Bindings = boost::intrusive::list<Binding, boost::intrusive::constant_time_size<false>>;

  uint32_t find(uint64_t connection) const noexcept;

  base::ObjectPool<Binding> pool_;
  HashIndex index_;
  Bindings ended_;  // of ended connections, in the order of their ends
};

}  // namespace sluice::quota
