// A native connection of one worker to a shard of another node, over which entries of their keys
// leave in Forward frames.
// Flow:   connect -> Hello -> Welcome -> PeerTarget::connect() -> send(): a message leaves in one
//         frame, or in several if it is long -> Verdicts -> PeerTarget::on_answers(); Granted ->
//         the grants of the context.
// Shape:  what is written is never written again. Late answers to messages that were given up go
//         back to the owner: approvals by Refund, waiters by Withdraw. An owner that shuts down
//         gets nothing more; when it has answered what it has, the lane is lost.
//         A parcel of quota calls leaves in a ForwardQuota frame of its own, where the owner takes
//         these over this connection; its calls that wait are waiters like entries. What the owner
//         reserved for a caller that has left is cancelled there.
// Errors: a connection that fails, ends, is silent for --peer-silence-millis while something is
//         due, or sends what is no answer is lost: `state()` is `lost`, and the Peer replaces it.
// Lives:  from its construction until its socket is closed; one thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/peer_address.hpp"
#include "net/connection.hpp"
#include "peer/context.hpp"
#include "peer/lane_parcels.hpp"
#include "peer/lane_waiters.hpp"
#include "peer/link.hpp"
#include "peer/peer_target.hpp"
#include "peer/socket_user.hpp"
#include "wire/lane_codec.hpp"
#include "wire/quota_outcomes.hpp"

namespace sluice::peer {

class Lane final : public Link, public SocketUser {
 public:
  // Messages that may be under way while entries gather.
  static constexpr uint32_t messages_max = 4;

  enum class State : uint8_t {
    connecting,
    greeting,  // Hello is sent
    open,
    lost,    // its socket is being closed
    closed,  // its socket is free
  };

  // `wanted_shard`: of the other node. `place`: of its buffers in `memory`.
  Lane(Context& context, net::ConnectionMemory& memory, uint32_t place, uint32_t wanted_shard);

  // Begins; a lane that cannot is `closed` at once.
  void connect(const io::PeerAddress& address) noexcept;
  State state() const noexcept { return state_; }
  io::SocketId socket() const noexcept { return socket_; }
  // Once it is open: what the owner has said of itself.
  struct Owner {
    uint32_t shard = 0;
    uint32_t shards = 0;
    uint64_t routing_seed = 0;
    uint64_t instance_id = 0;
  };
  const Owner& owner() const noexcept { return owner_; }
  bool was_open() const noexcept { return owner_.shards > 0; }
  // Entries leave through this lane from now on.
  bool serves() const noexcept { return target_ != nullptr; }
  void serve(PeerTarget& target) noexcept;

  void on_event(const io::Event& event) noexcept override;
  // Pings an owner that is silent, and gives the lane up.
  void on_tick() noexcept;
  void flush() noexcept override;
  const std::string& why_lost() const noexcept { return why_lost_; }
  // Why it was lost: the owner takes entries only of nodes with another secret.
  bool wants_other_secret() const noexcept { return wants_other_secret_; }
  // Ends it at once; its entries are answered by the policy.
  void lose(std::string_view why) noexcept;

  bool takes_message() const noexcept override {
    return !is_leaving_ && unsent_.empty() && outgoings_.size() < messages_max;
  }
  void send(Outgoing& outgoing) noexcept override;
  uint32_t take_back(Outgoing& outgoing) noexcept override;
  bool takes_notice() const noexcept override;
  void withdraw(api::WaiterId waiter, api::Ticket ticket) noexcept override;
  void refund(const api::RefundClaim& claim) noexcept override;

  // Whether quota calls may leave here.
  bool takes_parcels() const noexcept {
    return serves() && state_ == State::open && !is_leaving_ && takes_parcels_;
  }
  // Whether it never takes any: the two nodes have no secret in common.
  bool refuses_parcels() const noexcept { return state_ == State::open && !takes_parcels_; }
  void send(QuotaParcel& parcel) noexcept;

 private:
  // Frames under way.
  struct Sent {
    uint64_t id;
    Outgoing* outgoing;
    uint32_t first_entry;
    uint32_t entries_count;
    size_t bytes;  // its own, or those of the refunds that may follow
  };
  struct SentRefund {
    uint64_t id;
    size_t bytes;
  };
  struct Unsent {
    Outgoing* outgoing;
    uint32_t next_entry;
  };

  bool is_owed() const noexcept {
    return !outgoings_.empty() || waiters_.has_any() || parcels_.has_any() || is_pinged_ ||
           state_ != State::open;
  }
  void owe() noexcept;
  void ping() noexcept;
  void on_connected() noexcept;
  void on_sent(int32_t result) noexcept;
  void on_received(std::span<std::byte> bytes) noexcept;
  size_t take_frames(std::span<const std::byte> bytes) noexcept;
  void on_frame(const wire::OwnerFrame& frame) noexcept;
  void on_welcome(const wire::WelcomeFrame& welcome) noexcept;
  void on_error(const wire::ErrorFrame& error) noexcept;
  void lose_for_secret() noexcept;
  void on_verdicts(uint64_t id, const wire::VerdictsFrame& verdicts) noexcept;
  void on_granted(uint64_t id, const wire::GrantedFrame& granted) noexcept;
  void clear_details_of(api::Verdict verdict, const Sent& sent) noexcept;
  void refuse_undecided(const Sent& sent) noexcept;
  void leave_when_answered() noexcept;
  static void keep_parts(QuotaParcel& parcel, wire::QuotaOutcomes& outcomes) noexcept;
  void keep_answers(const Sent& sent, const wire::VerdictsFrame& verdicts) noexcept;
  void keep_waiters(const Sent& sent) noexcept;
  void return_late(const Sent& sent, const wire::VerdictsFrame& verdicts) noexcept;
  void on_outcomes(uint64_t id, const wire::QuotaOutcomesFrame& frame) noexcept;
  void on_parcel_answered(uint64_t id, wire::QuotaOutcomes& outcomes) noexcept;
  void keep_answers(uint64_t id, QuotaParcel& parcel, wire::QuotaOutcomes& outcomes) noexcept;
  void return_late(uint64_t id, std::span<const api::QuotaOp> ops,
                   const wire::QuotaOutcomes& outcomes) noexcept;
  void on_waited(uint64_t id, const wire::QuotaOutcomes& outcomes) noexcept;
  void announce_sender() noexcept;
  void write(const wire::FrameWords& frame) noexcept;
  void send_parcels() noexcept;
  void send_frames() noexcept;
  void write_withdraw(uint64_t frame_id, std::span<const uint32_t> entries) noexcept;
  void on_done(uint64_t id) noexcept;
  bool has_frame_room(size_t bytes) const noexcept;
  bool has_room_beside_verdicts(size_t bytes) const noexcept;
  bool has_room(size_t bytes, size_t bytes_max, size_t frames_max) const noexcept;
  bool has_output_room(size_t bytes) const noexcept;
  bool write_permits() noexcept;
  template <typename Encode>
  void write_refund(size_t bytes, Encode encode) noexcept;
  template <typename Encode>
  void write(size_t bytes, Encode encode) noexcept;

  Context& context_;
  net::ConnectionMemory& memory_;
  const uint32_t place_;
  const uint32_t wanted_shard_;
  State state_ = State::connecting;
  io::SocketId socket_;
  std::optional<net::Connection> connection_;  // once the socket is connected
  Owner owner_;
  wire::FrameBounds bounds_{};
  size_t outstanding_bytes_max_ = 0;
  size_t outstanding_frames_max_ = 0;
  PeerTarget* target_ = nullptr;
  uint64_t next_id_ = 1;
  std::vector<Outgoing*> outgoings_;  // without all answers
  std::vector<Unsent> unsent_;
  std::vector<Sent> sent_;
  std::vector<SentRefund> sent_refunds_;
  size_t sent_bytes_ = 0;  // of all kinds
  LaneParcels parcels_;
  LaneWaiters waiters_;
  std::vector<wire::Permit> permits_;  // to be refunded
  int64_t received_ms_ = 0;            // when the last byte came
  int64_t owed_since_ms_ = 0;
  bool is_pinged_ = false;
  bool is_leaving_ = false;  // the owner shuts down
  bool wants_other_secret_ = false;
  bool takes_parcels_ = false;
  std::string why_lost_;
};

}  // namespace sluice::peer
