// A caller that makes calls of every kind at random: single and in batches, blocking and with
// callbacks, by key, handle and subject, with reservations and leases; it waits, cancels, extends,
// settles, and drops what it has.
#pragma once

#include <set>
#include <stop_token>

#include "calls.hpp"
#include "clients/cpp/src/platform.hpp"
#include "tests/property/seeds.hpp"

namespace sluicegate::simulation {

class Caller {
 public:
  // How a thread asks another one to stop. A stop_callback whose function runs holds its destructor
  // up in earnest, so in the simulation no other thread may go on meanwhile.
  using RequestStop = std::function<void(std::stop_source&)>;

  Caller(
      uint32_t number, uint64_t seed, Platform& platform, Client& client,
      const ClientOptions& options, CallBook& book,
      RequestStop request_stop = [](std::stop_source& stop) { stop.request_stop(); });
  void run(uint32_t calls_count);
  void drop_reservations() { reservations_.clear(); }
  // The reservations of settles that the client has to repeat until the server took them.
  const std::set<uint64_t>& kept() const noexcept { return kept_; }

 private:
  void make_a_call();
  void acquire();
  void acquire_async();
  void cancel_one();
  void acquire_batch();
  void acquire_by_handle();
  void release();
  void reserve();
  void reserve_async();
  void consume();
  void consume_async();
  void reserve_batch();
  void check_or_record();
  void use_reservation();
  bool settle_nowait(Reservation& reservation);
  void settle_batch();

  std::string new_name(const char* what);
  template <typename Options>
  Options some_waiting();
  MadeCall call_of(const char* kind, std::vector<std::string> entries) const;
  // Of options with these times.
  Clock::duration patience(bool may_wait, uint32_t wait_limit_ms,
                           std::chrono::milliseconds timeout) const;
  template <typename Make>
  void block(MadeCall& call, Make make);
  // Of some calls another thread stops the wait, before the call or during it.
  template <typename Make>
  void block_with_stop(MadeCall& call, Make make);

  uint32_t number_;
  sluice::Dice dice_;
  Platform& platform_;
  Client& client_;
  const ClientOptions& options_;
  CallBook& book_;
  uint32_t names_count_ = 0;
  std::vector<uint32_t> handles_;
  std::vector<std::string> handle_keys_;
  std::vector<Reservation> reservations_;
  std::vector<uint64_t> reservation_ids_;
  std::set<uint64_t> kept_;
  struct OpenTicket {
    Ticket ticket;
    MadeCall* call;
  };
  std::vector<OpenTicket> tickets_;
  RequestStop request_stop_;
};

}  // namespace sluicegate::simulation
