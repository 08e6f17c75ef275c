// One simulated connection between two SimIos: what the network does between their kernels. To each
// of the two it is the peer, as a SimClient is.
// Flow:   near SimIo <-> SimLink <-> SimWire <-> SimLink <-> far SimIo; near is the end that
//         connects.
// Shape:  what leaves an end is torn at any byte into packets, each of which takes its time; they
//         arrive in order, once. While a direction is cut its packets wait, as TCP would send them
//         again.
// Errors: a reset overtakes nothing, but loses what its receiver had not delivered yet.
// Lives:  both links longer than the wire.
// Source: tcp(7); RFC 9293, sections 3.5 and 3.6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.hpp"
#include "io/peer_address.hpp"
#include "io/sim/random.hpp"
#include "io/sim/sim_link.hpp"

namespace sluice::io {

// One direction between two nodes.
struct SimRoute {
  uint32_t from = 0;
  uint32_t to = 0;
  auto operator<=>(const SimRoute&) const = default;
};

// What a route does at the moment.
struct SimPath {
  int64_t delay_ns_min = 0;
  int64_t delay_ns_max = 0;
  bool cut = false;
};

// The network around a wire.
class SimSurroundings {
 public:
  virtual SimPath path(SimRoute route) const = 0;
  // Offers the connection of this far end to whoever listens at `address`; false: it is refused.
  virtual bool offer(const PeerAddress& address, uint32_t far) = 0;

 protected:
  ~SimSurroundings() = default;
};

class SimWire {
 public:
  // As the kernel's time-out of connections that get no answer (socket_options.hpp).
  static constexpr int64_t connect_limit_ns = 25 * base::ns_per_s;
  static constexpr size_t window_bytes = 64 * 1024;  // under way in one direction, or not received

  struct Ends {
    SimLink& near;
    SimLink& far;
    SimRoute there;  // from near to far
    uint32_t far_link;
    PeerAddress address;  // where near connects to
  };

  SimWire(Ends ends, Random& random, SimSurroundings& around, int64_t now_ns);
  SimWire(const SimWire&) = delete;
  SimWire& operator=(const SimWire&) = delete;

  // Takes what the ends have sent, and delivers what is due.
  void move(int64_t now_ns);
  // When move() would do something; base::never_ns: not before an end or a path changes.
  int64_t due_ns(int64_t now_ns) const;
  // Nothing can happen any more.
  bool is_over() const;

  // The route is there again: what has waited needs its time once more.
  void resume(SimRoute route, int64_t now_ns);
  // The network ends the connection.
  void reset() noexcept;
  bool has(const SimLink& link) const noexcept { return &link == &near_ || &link == &far_; }
  bool is_open() const noexcept { return state_ == State::open; }

 private:
  enum class State : uint8_t {
    connecting,  // the far end does not know of it
    half_open,   // the near end does not know whether it was accepted
    open,
    failed,  // there is no far end
  };

  enum class Kind : uint8_t { begin, acceptance, refusal, bytes, end, reset };

  struct Packet {
    Kind kind;
    int64_t due_ns;
    std::vector<std::byte> bytes;
  };

  struct Direction {
    SimRoute route;
    SimLink& from;
    SimLink& to;
    std::deque<Packet> packets;
    size_t bytes = 0;  // in packets
    int64_t last_due_ns = 0;
    bool ended = false;        // `end` was taken
    bool reset_taken = false;  // `reset` was taken, or need not be
  };

  static bool is_gone(const SimLink& link) noexcept {
    return link.server_closed || link.reset || link.connect_failure != 0;
  }
  static bool is_closed(const SimLink& link) noexcept {
    return link.server_closed || link.connect_failure != 0;
  }
  Direction& opposite(const Direction& direction) noexcept {
    return &direction == &there_ ? back_ : there_;
  }
  static size_t room_bytes(const Direction& direction) noexcept;

  bool may_send(const Direction& direction) const noexcept;
  bool is_given_up() const noexcept { return state_ == State::connecting && is_gone(near_); }
  bool has_untaken(const Direction& direction) const noexcept;
  void check_limit(int64_t now_ns) noexcept;
  void take(Direction& direction, int64_t now_ns);
  void push(Direction& direction, Kind kind, int64_t now_ns, std::vector<std::byte> bytes = {});
  void deliver(Direction& direction, int64_t now_ns);
  void arrive(Direction& direction, const Packet& packet, int64_t now_ns);
  void begin_at_far(int64_t now_ns);

  Random& random_;
  SimSurroundings& around_;
  const Ends ends_;
  const int64_t begun_ns_;
  SimLink& near_;
  SimLink& far_;
  Direction there_;
  Direction back_;
  State state_ = State::connecting;
};

}  // namespace sluice::io
