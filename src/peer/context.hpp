// What the classes by which one worker deals with other nodes share: its Io, its mailboxes, and
// what they have for the worker at the end of a turn.
// Lives:  one per worker, one thread only.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/entry.hpp"
#include "base/assert.hpp"
#include "base/object_pool.hpp"
#include "io/io.hpp"
#include "peer/failure_policy.hpp"
#include "peer/fleet_options.hpp"
#include "peer/quota_parcel.hpp"
#include "peer/remote_waiter.hpp"
#include "peer/socket_user.hpp"
#include "route/mailboxes.hpp"
#include "wire/lane_codec.hpp"

namespace sluice::peer {

class PeerTarget;
struct Outgoing;

// Of one worker.
struct Bounds {
  uint32_t waiters_max = 0;  // of its connections
  uint32_t sockets_max = 0;  // of its Io
};

struct Context {
  Context(io::Io& with_io, route::Mailboxes& with_mailboxes, const FleetOptions& with,
          const Bounds& bounds)
      : io(with_io),
        mailboxes(with_mailboxes),
        options(with),
        policy(with.on_failure),
        waiters(bounds.waiters_max, "waiters of other nodes"),
        users_(bounds.sockets_max) {
    grants.reserve(bounds.waiters_max);
    notices_done.reserve(bounds.waiters_max);
    dirty_.reserve(bounds.sockets_max);
  }

  // The socket's events are the user's, until `closed`.
  void use(io::SocketId socket, SocketUser& user) noexcept { users_[socket.index] = &user; }
  SocketUser* user_of(uint32_t index) const noexcept { return users_[index]; }
  // The socket is closed: its user may be destroyed, so flush() forgets it.
  void free(uint32_t index) noexcept {
    SocketUser* const user = std::exchange(users_[index], nullptr);
    if (std::exchange(user->is_dirty_, false)) std::erase(dirty_, user);
  }

  // Something is to be sent, or a state has changed.
  void mark_dirty(SocketUser& user) noexcept {
    if (std::exchange(user.is_dirty_, true)) return;
    dirty_.push_back(&user);
  }
  // By index: what a user writes here marks it once more.
  void flush() noexcept {
    for (size_t i = 0; i < dirty_.size(); ++i) {
      SocketUser& user = *dirty_[i];
      user.is_dirty_ = false;
      user.flush();
    }
    dirty_.clear();
  }

  io::Io& io;
  route::Mailboxes& mailboxes;
  const FleetOptions options;
  const FailurePolicy policy;
  uint64_t sender = 1;         // of quota calls: this worker, in this start
  int64_t now_ms = 0;          // of the turn; stands still while this node does
  bool has_new_state = false;  // a node is another than Peer::state() was before
  bool has_changed = true;     // a connection has come or gone: peers have something to do
  base::ObjectPool<RemoteWaiter> waiters;
  std::vector<PeerTarget*> returned;  // targets with messages to be delivered
  // Messages with entries that shards of this node are to decide.
  struct Stranded {
    PeerTarget* target;
    Outgoing* outgoing;
  };
  std::vector<Stranded> stranded;
  // To be delivered in this turn, behind the messages that have returned.
  std::vector<api::Grant> grants;
  std::vector<route::Notice> notices_done;
  std::vector<QuotaParcel*> parcels_done;
  std::vector<uint64_t> unclaimed;  // reservations that other nodes made for clients that have left
  std::vector<wire::ForwardRun> runs;  // of a message that is being written

 private:
  std::vector<SocketUser*> users_;  // by socket index
  std::vector<SocketUser*> dirty_;
};

}  // namespace sluice::peer
