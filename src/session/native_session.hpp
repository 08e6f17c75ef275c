// The native protocol's side of a connection: frames in, frames out.
// Flow:   read_frame() -> wire::decode() -> entries of the turn -> Verdicts; grants -> Granted.
//         native_session_frames.cpp: which frames when; native_session_handle.cpp: keys by number;
//         native_session_forward.cpp: entries of other nodes; native_session_quota.cpp: quotas;
//         native_session_node_quota.cpp: quota calls of other nodes.
// Shape:  docs/protocol.md. Hello first; then frames in any number, answered in any order.
// Errors: a wrong frame is answered by Error with its id and changes nothing; one that breaks the
//         stream or the announced bounds ends the connection after its Error.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "session/forward_times.hpp"
#include "session/frame_rule.hpp"
#include "session/handle_set.hpp"
#include "session/pending_withdrawals.hpp"
#include "session/session.hpp"
#include "session/ticket.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/forward_quota.hpp"

namespace sluice::session {

class NativeSession final : public Session, public TopologyWatcher {
 public:
  NativeSession(Context& context, io::Io& io, io::SocketId socket,
                net::ConnectionMemory& memory) noexcept;
  ~NativeSession() override;

  void on_verdicts(const route::Request& request, const Verdicts& verdicts) noexcept override;
  void on_granted(WaitingEntry& entry, const api::Grant& grant) noexcept override;
  void on_inspected(uint64_t id, const api::KeyState* state) noexcept override;
  void on_page(uint64_t id, std::span<const api::KeyState> keys,
               uint64_t next_cursor) noexcept override;
  void on_counted(uint64_t id, uint64_t keys_count) noexcept override;
  void on_text(uint64_t id, std::string_view content_type, std::string_view text) noexcept override;
  void on_quota(uint64_t id, const api::QuotaBatch& batch) noexcept override;
  void begin_drain() noexcept override;
  void on_topology_changed() noexcept override;

  // Its peer has shown the secret of the nodes.
  bool is_node() const noexcept { return is_node_; }
  // Without a secret anybody may send what only nodes do.
  bool may_forward() const noexcept { return is_node_ || context_.options.peer_secret.empty(); }

 private:
  struct Frames;  // the table of frames

  // Of route::Request.
  enum Kind : uint8_t { decides, releases, decides_or_waits, forwards };
  static constexpr bool kind_may_wait(uint8_t kind) noexcept { return kind >= decides_or_waits; }

  size_t take(std::span<const std::byte> bytes) noexcept override;
  size_t take_frames(std::span<const std::byte> bytes) noexcept;
  void write_refusal() noexcept override;
  void write_outcomes() noexcept override;
  void drop_waiting() noexcept override;
  bool has_waiting() const noexcept override { return !frames_.empty(); }
  bool has_undecided() const noexcept override { return outstanding_frames_ > 0; }
  int64_t deadline_ms() const noexcept override;
  int64_t rest_deadline_ms() const noexcept;
  int64_t grace_deadline_ms() const noexcept;
  void on_deadline() noexcept override;

  // False: not now; the frame is handled again when the session is resumed.
  bool on_frame(std::span<const std::byte> bytes) noexcept;
  bool may_handle(const FrameRule& rule, const DecodedFrame& frame, bool refuses) noexcept;
  bool make_room(const FrameRule& rule, const DecodedFrame& frame, bool refuses) noexcept;
  bool all_decided() noexcept;
  bool admit(uint64_t id, size_t frame_bytes) noexcept;
  bool id_in_use(uint64_t id) const noexcept;

  bool on_hello(uint64_t id, const wire::HelloRequest& hello) noexcept;
  void write_welcome(uint64_t id) noexcept;
  void on_acquire(uint64_t id, size_t frame_bytes, const wire::AcquireRequest& acquire) noexcept;
  bool on_acquire_by_handle(uint64_t id, size_t frame_bytes,
                            const wire::AcquireByHandleRequest& acquire) noexcept;
  void on_release(uint64_t id, size_t frame_bytes, const wire::ReleaseRequest& release) noexcept;
  static size_t release_answer_bytes_max(uint32_t entries_count) noexcept;
  void write_released(const route::Request& request,
                      std::span<const api::Verdict> verdicts) noexcept;
  void on_forward(uint64_t id, size_t frame_bytes, const wire::ForwardRequest& forward) noexcept;
  void on_refund(uint64_t id, size_t frame_bytes, const wire::RefundRequest& refund) noexcept;
  bool on_withdraw(uint64_t id, const wire::WithdrawRequest& request) noexcept;
  bool is_undecided(uint64_t id) const noexcept;
  bool keep_withdrawal(uint64_t id, const wire::WithdrawRequest& request) noexcept;
  void withdraw(uint64_t id, uint64_t target, std::span<const uint32_t> entries) noexcept;
  void withdraw_pending(uint64_t target) noexcept;
  void on_inspect(uint64_t id, const wire::InspectRequest& request) noexcept;
  void on_topology(uint64_t id, const wire::TopologyRequest& request) noexcept;
  void write_topology(uint64_t id) noexcept;

  void on_intern(uint64_t id, const wire::InternRequest& request) noexcept;
  void on_forget(uint64_t id, const wire::ForgetRequest& request) noexcept;

  void on_reserve(uint64_t id, size_t frame_bytes, api::QuotaOp op,
                  const wire::ReserveRequest& request) noexcept;
  void on_settle(uint64_t id, size_t frame_bytes, const wire::SettleRequest& request) noexcept;
  void on_cancel(uint64_t id, size_t frame_bytes, const wire::CancelRequest& request) noexcept;
  void on_extend(uint64_t id, size_t frame_bytes, const wire::ExtendRequest& request) noexcept;
  void on_record(uint64_t id, size_t frame_bytes, const wire::RecordRequest& request) noexcept;
  void on_consume(uint64_t id, size_t frame_bytes, const wire::ConsumeRequest& request) noexcept;
  void on_usage(uint64_t id, const wire::UsageRequest& request) noexcept;
  void on_quota_change(uint64_t id, const wire::QuotaChangeRequest& request) noexcept;
  void on_reset(uint64_t id, const wire::ResetRequest& request) noexcept;

  void on_forward_quota(uint64_t id, size_t frame_bytes,
                        const wire::ForwardQuotaRequest& request) noexcept;
  void join_sender(uint64_t sender) noexcept;
  void leave_sender() noexcept;
  void count_misrouted(const api::QuotaBatch& batch) noexcept;
  void note_bindings(const api::QuotaBatch& batch) noexcept;
  void take_forwarded_tickets(api::QuotaBatch& batch,
                              const std::vector<bool>& wants_outcome) noexcept;
  void on_forwarded(uint64_t id, const api::QuotaBatch& batch) noexcept;
  void write_forwarded_outcomes(WaitingFrame& frame) noexcept;
  void write_words(const wire::FrameWords& frame) noexcept;

  bool admit_batch(uint64_t id, size_t frame_bytes, size_t entries_count) noexcept;
  void take_tickets(api::QuotaBatch& batch) noexcept;
  void ask(uint64_t id, size_t frame_bytes, api::QuotaBatch& batch, uint8_t kind) noexcept;
  void query(uint64_t id, api::QuotaBatch& batch, uint8_t kind) noexcept;
  void on_query_done(uint64_t id, const api::QuotaBatch& batch) noexcept;
  void write_quota_answers(uint64_t id, std::span<const api::QuotaAnswer> answers,
                           std::span<const api::LimitReport> limits, uint8_t kind,
                           size_t bytes_max) noexcept;
  void answer_with(uint64_t id, size_t count, api::QuotaCode code) noexcept;
  void keep_waiting(uint64_t id, const api::QuotaBatch& batch) noexcept;
  void abandon_waiting(const api::QuotaBatch& batch) noexcept;

  api::Verdict intern(std::string_view key, api::Handle& handle) noexcept;
  bool make_handle_set() noexcept;
  bool on_plain_handles(uint64_t id, size_t frame_bytes,
                        const wire::AcquireByHandleRequest& acquire) noexcept;
  bool accept_key_text(uint64_t id, size_t text_bytes) noexcept;
  bool on_detailed_handles(uint64_t id, size_t frame_bytes,
                           const wire::AcquireByHandleRequest& acquire) noexcept;
  std::string_view key_of(api::Handle handle) const noexcept;
  void look_up(wire::Column<api::Handle> handles, bool is_routed) noexcept;

  route::Request request_of(uint64_t id, size_t frame_bytes, Kind kind) const noexcept;
  route::Request request_of(uint64_t id, size_t frame_bytes,
                            const wire::AcquireCommon& terms) const noexcept;
  void add_plain(const route::Request& request, const wire::AcquireRequest& acquire) noexcept;
  void fill_common(std::span<api::Entry> entries, const wire::AcquireCommon& terms) noexcept;
  void fill_terms(std::span<api::Entry> entries, const wire::AcquireCommon& terms) noexcept;
  void take_tickets(std::span<api::Entry> entries, const wire::AcquireCommon& terms) noexcept;
  void fill_forward(std::span<api::Entry> entries, const wire::ForwardRequest& forward) noexcept;
  void take_tickets(std::span<api::Entry> entries, const wire::ForwardRequest& forward) noexcept;
  void note_forward(uint64_t id) noexcept;
  std::optional<int64_t> not_after_ms(uint64_t forward_id) const noexcept;
  WaiterPlace place_of(uint32_t entry_index) const noexcept {
    return {connection_.socket().index, entry_index};
  }
  void keep_waiting(const route::Request& request, const Verdicts& verdicts) noexcept;
  void abandon_waiting(const Verdicts& verdicts) noexcept;
  void answer_draining(uint64_t id, uint32_t count, uint8_t detail_bits) noexcept;
  void write_outcomes(WaitingFrame& frame) noexcept;
  void write_granted(WaitingFrame& frame) noexcept;
  void close_frame(WaitingFrame& frame) noexcept;
  void drop_entries(WaitingEntries& entries) noexcept;
  void write_error(uint64_t id, ErrorCode code) noexcept;
  void answer_http(std::span<const std::byte> request) noexcept;

  std::unique_ptr<HandleSet> handles_;               // from the first Intern on
  std::unique_ptr<ForwardTimes> forward_times_;      // from the first Forward on
  std::unique_ptr<PendingWithdrawals> withdrawals_;  // from the first one on
  uint32_t other_shard_handles_ = 0;                 // how many of them are of other shards' keys
  WaitingFrames frames_;                             // by id
  GrantedFrames granted_frames_;                     // with outcomes that are not written yet
  TicketShare tickets_;
  uint32_t outstanding_frames_ = 0;
  size_t outstanding_bytes_ = 0;
  uint64_t highest_id_ = 0;                 // of the outstanding frames
  std::optional<wire::DecodeError> fatal_;  // reported when all earlier frames are decided
  uint64_t binding_ = 0;                    // of its connection-bound reservations; 0: none yet
  uint64_t sender_ = 0;                     // the worker of another node; 0: it forwards no quotas
  int64_t started_ms_;
  int64_t partial_since_ms_ = base::never_ms;  // since when it waits for the rest of a frame
  int64_t drain_started_ms_ = 0;
  bool welcomed_ = false;
  bool is_node_ = false;
  bool is_topology_due_ = false;  // it has changed, and the client has not been sent it
  bool sent_go_away_ = false;
  bool binding_ended_ = false;
};

}  // namespace sluice::session
