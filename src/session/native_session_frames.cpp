// The frames of the native protocol: when each is handled, and by which function.
#include <array>
#include <concepts>
#include <functional>
#include <utility>
#include <variant>

#include "base/assert.hpp"
#include "session/frame_rule.hpp"
#include "session/native_session.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::session {
namespace {

using Body = decltype(wire::ClientRequest::body);

template <typename Request, size_t kind = 0>
consteval size_t kind_of() {
  if constexpr (std::same_as<Request, std::variant_alternative_t<kind, Body>>)
    return kind;
  else
    return kind_of<Request, kind + 1>();
}

template <typename Request>
const Request& request_of(const DecodedFrame& frame) noexcept {
  const Request* request = std::get_if<Request>(&frame.body);
  ASSERT(request != nullptr);
  return *request;
}

template <typename Request>
FrameExtent extent_of(const DecodedFrame& frame) noexcept {
  const Request& request = request_of<Request>(frame);
  if constexpr (requires { request.key_sizes; }) {
    const auto count = static_cast<uint32_t>(request.key_sizes.size());
    FrameExtent extent{.entries_count = count,
                       .work = count * work::entry,
                       .keys = {.text = request.keys, .sizes = request.key_sizes}};
    constexpr bool is_of_node =
        std::same_as<Request, wire::ForwardRequest> || std::same_as<Request, wire::RefundRequest>;
    if (is_of_node) extent.reach = route::Reach::node;
    if constexpr (requires { request.has_defaults_only(); }) {
      if (request.has_defaults_only()) extent.form = route::Form::plain;
    }
    return extent;
  } else if constexpr (requires { request.handles; }) {
    const auto count = static_cast<uint32_t>(request.handles.size());
    return {.entries_count = count, .work = count * work::handle};
  } else {
    return {};
  }
}

template <typename Request, auto handler>
decltype(auto) call(NativeSession& session, const DecodedFrame& frame) noexcept {
  const Request& request = request_of<Request>(frame);
  if constexpr (std::invocable<decltype(handler), NativeSession&, uint64_t, const Request&>) {
    return std::invoke(handler, session, frame.id, request);
  } else {
    return std::invoke(handler, session, frame.id, frame.frame_bytes, request);
  }
}

template <typename Request, auto handler>
bool handle(NativeSession& session, const DecodedFrame& frame) noexcept {
  if constexpr (std::same_as<decltype(call<Request, handler>(session, frame)), bool>) {
    return call<Request, handler>(session, frame);
  } else {
    call<Request, handler>(session, frame);
    return true;
  }
}

// A handler takes the session, the frame's id, if it wants its size in bytes, and the request.
template <typename Request, auto handler>
consteval FrameRule rule(Admission admission) noexcept {
  return {kind_of<Request>(), admission, extent_of<Request>, handle<Request, handler>, nullptr};
}
template <typename Request, auto handler, auto refusal>
consteval FrameRule rule(Admission admission) noexcept {
  return {kind_of<Request>(), admission, extent_of<Request>, handle<Request, handler>,
          call<Request, refusal>};
}

template <size_t count>
consteval bool has_every_kind(const std::array<FrameRule, count>& rules) noexcept {
  for (size_t kind = 0; kind < count; ++kind) {
    if (rules[kind].kind != kind) return false;
  }
  return count == std::variant_size_v<Body>;
}

}  // namespace

struct NativeSession::Frames {
  using Self = NativeSession;

  static void on_unsupported(Self& self, uint64_t id, const wire::UnsupportedRequest&) noexcept {
    self.write_error(id, ErrorCode::unsupported);
  }
  static void on_ping(Self& self, uint64_t id, const wire::PingRequest&) noexcept {
    self.write(wire::small_answer_bytes_max, [&](auto out) { return wire::encode_pong(id, out); });
  }
  static void on_reserve(Self& self, uint64_t id, size_t frame_bytes,
                         const wire::ReserveRequest& reserve) noexcept {
    self.on_reserve(id, frame_bytes, api::QuotaOp::reserve, reserve);
  }
  static void on_check(Self& self, uint64_t id, size_t frame_bytes,
                       const wire::CheckRequest& check) noexcept {
    self.on_reserve(id, frame_bytes, api::QuotaOp::check, check);
  }
  static void refuse_acquire(Self& self, uint64_t id,
                             const wire::AcquireRequest& acquire) noexcept {
    self.answer_draining(id, static_cast<uint32_t>(acquire.key_sizes.size()), acquire.detail_bits);
  }
  static void refuse_forward(Self& self, uint64_t id,
                             const wire::ForwardRequest& forward) noexcept {
    refuse_acquire(self, id, forward);
  }
  static void refuse_by_handle(Self& self, uint64_t id,
                               const wire::AcquireByHandleRequest& acquire) noexcept {
    self.answer_draining(id, static_cast<uint32_t>(acquire.handles.size()), acquire.detail_bits);
  }
  static void refuse_reserve(Self& self, uint64_t id,
                             const wire::ReserveRequest& reserve) noexcept {
    self.answer_with(id, reserve.entries_count(), api::QuotaCode::draining);
  }
  static void refuse_consume(Self& self, uint64_t id,
                             const wire::ConsumeRequest& consume) noexcept {
    self.answer_with(id, consume.entries_count(), api::QuotaCode::draining);
  }

  // By kind. docs/protocol.md says the same in words.
  static constexpr std::array rules{
      rule<wire::UnsupportedRequest, on_unsupported>({}),
      rule<wire::HelloRequest, &Self::on_hello>({.phase = Phase::any}),
      rule<wire::AcquireRequest, &Self::on_acquire, refuse_acquire>({.room = Room::turn}),
      rule<wire::AcquireByHandleRequest, &Self::on_acquire_by_handle, refuse_by_handle>(
          {.room = Room::by_handler}),
      rule<wire::ReleaseRequest, &Self::on_release>({.room = Room::turn}),
      rule<wire::WithdrawRequest, &Self::on_withdraw>(
          {.order = Order::after_all_decided_if_alone, .id = IdRule::unused}),
      rule<wire::InspectRequest, &Self::on_inspect>(
          {.order = Order::after_all_decided, .room = Room::shard_query, .id = IdRule::unused}),
      rule<wire::InternRequest, &Self::on_intern>({.room = Room::handles, .id = IdRule::unused}),
      // Requests by the handles that it ends come first.
      rule<wire::ForgetRequest, &Self::on_forget>(
          {.order = Order::after_turn, .room = Room::handles, .id = IdRule::unused}),
      rule<wire::PingRequest, on_ping>({}),
      rule<wire::ReserveRequest, on_reserve, refuse_reserve>({.room = Room::shard_query}),
      rule<wire::CheckRequest, on_check>({.room = Room::shard_query}),
      rule<wire::SettleRequest, &Self::on_settle>({.room = Room::shard_query}),
      rule<wire::CancelRequest, &Self::on_cancel>({.room = Room::shard_query}),
      rule<wire::ExtendRequest, &Self::on_extend>({.room = Room::shard_query}),
      rule<wire::RecordRequest, &Self::on_record>({.room = Room::shard_query}),
      rule<wire::UsageRequest, &Self::on_usage>({.room = Room::shard_query, .id = IdRule::unused}),
      rule<wire::QuotaChangeRequest, &Self::on_quota_change>(
          {.room = Room::shard_query, .id = IdRule::unused}),
      rule<wire::ResetRequest, &Self::on_reset>({.room = Room::shard_query, .id = IdRule::unused}),
      rule<wire::ConsumeRequest, &Self::on_consume, refuse_consume>({.room = Room::shard_query}),
      rule<wire::ForwardRequest, &Self::on_forward, refuse_forward>(
          {.sender = Sender::node, .room = Room::turn}),
      rule<wire::RefundRequest, &Self::on_refund>({.sender = Sender::node, .room = Room::turn}),
      rule<wire::TopologyRequest, &Self::on_topology>({.id = IdRule::unused}),
      rule<wire::ForwardQuotaRequest, &Self::on_forward_quota>({.sender = Sender::node}),
  };
  static_assert(has_every_kind(rules));
};

bool NativeSession::on_frame(std::span<const std::byte> bytes) noexcept {
  const auto request = wire::decode(bytes);
  if (!request) {
    write_error(request.error().id, welcomed_ ? request.error().code : ErrorCode::hello_expected);
    return true;
  }
  const DecodedFrame frame{request->id, bytes.size(), request->body};
  const FrameRule& rule = Frames::rules[request->body.index()];
  if (!welcomed_ && rule.admission.phase == Phase::after_hello) {
    write_error(frame.id, ErrorCode::hello_expected);
    return true;
  }
  if (rule.admission.sender == Sender::node && !may_forward()) {
    write_error(frame.id, ErrorCode::secret_expected);
    return true;
  }
  const bool refuses = sent_go_away_ && rule.refuse != nullptr;
  if (!may_handle(rule, frame, refuses)) {
    spend(rule.extent(frame).work);  // its keys' owners were found, and will be again
    return false;
  }
  if (connection_.finishing() || connection_.closing()) return true;
  if (rule.admission.id == IdRule::unused && id_in_use(frame.id)) {
    write_error(frame.id, ErrorCode::id_in_use);
    return true;
  }
  if (refuses) {
    rule.refuse(*this, frame);
  } else if (!rule.handle(*this, frame)) {
    return false;
  }
  spend(rule.extent(frame).work);
  return true;
}

// By its place in the order of frames, and by room.
bool NativeSession::may_handle(const FrameRule& rule, const DecodedFrame& frame,
                               bool refuses) noexcept {
  const bool has_peers = context_.options.ownership.has_peers();
  Order order = rule.admission.order;
  if (order == Order::after_all_decided_if_alone) {
    order = has_peers ? Order::after_turn : Order::after_all_decided;
  }
  if (order == Order::after_all_decided && !all_decided()) return false;
  if (!make_room(rule, frame, refuses)) return false;
  if (order == Order::after_turn) context_.backend.execute();
  return true;
}

bool NativeSession::make_room(const FrameRule& rule, const DecodedFrame& frame,
                              bool refuses) noexcept {
  switch (rule.admission.room) {
    case Room::none:
    case Room::by_handler:
      return true;
    case Room::turn: {
      const FrameExtent extent = rule.extent(frame);
      // What is refused takes no place in the batch.
      return refuses || make_turn_room(extent.keys, extent.form, extent.reach);
    }
    case Room::handles:
      return make_handle_room(rule.extent(frame).entries_count);
    case Room::shard_query:
      return make_query_room();
  }
  return true;
}

}  // namespace sluice::session
