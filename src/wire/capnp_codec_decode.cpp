// The reading half of capnp_codec.hpp: usual frames are recognised by a few words
// (standard_frame.hpp); for all others one pass by the library finds and bounds every column. Then
// loops of ours over the raw numbers. Memory is taken only for a frame of several segments and by
// the exception of a malformed one, which ends its connection.
#include <sluicegate.capnp.h>

#include <bit>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "base/overloaded.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/column_reader.hpp"
#include "wire/frame_message.hpp"
#include "wire/frame_reader.hpp"
#include "wire/quota_decode.hpp"
#include "wire/standard_frame.hpp"

namespace sluice::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "columns are used as they lie in frames");

// The fields' places in their structs' pointer sections.
namespace pointer_of {
enum Hello { client_name };
// Release's and Intern's begin with the first two of these.
enum Acquire { keys, key_sizes, acquire_terms };
enum Release { release_costs = 2 };
// Forget's is the first of these.
enum AcquireByHandle { handles, by_handle_terms };
// In this order from one of the two on.
enum Terms { costs, max_requests, max_requests_in_queue, entry_flags };
enum Withdraw { entries };
enum Inspect { key };
}  // namespace pointer_of

// ---------------------------------------------------------------------------- checking columns
// No loop ends early, so that the compiler can do many numbers at once.

bool within(Column<uint32_t> numbers, uint32_t min, uint32_t max) noexcept {
  uint32_t outside = 0;
  for (const uint32_t number : numbers) outside |= number - min > max - min;
  return outside == 0;
}

bool within_or_keep(Column<uint32_t> numbers, uint32_t min, uint32_t max) noexcept {
  uint32_t outside = 0;
  for (const uint32_t number : numbers) {
    outside |= static_cast<uint32_t>(number - min > max - min) & (number != api::keep);
  }
  return outside == 0;
}

bool only_known(Column<uint8_t> flags, uint8_t known) noexcept {
  uint8_t seen = 0;
  for (const uint8_t flag : flags) seen |= flag;
  return (seen & ~known) == 0;
}

Checked check_count(size_t entries_count) noexcept {
  if (entries_count > limits::frame_entries_max) return refuse(ErrorCode::too_many_entries);
  return {};
}

Checked check_keys(std::string_view keys, Column<uint16_t> sizes) noexcept {
  return check_count(sizes.size()).and_then([&]() -> Checked {
    if (!sizes_add_up(sizes, keys.size())) return refuse(ErrorCode::bad_columns);
    return {};
  });
}

Checked check_costs(Column<uint32_t> costs, size_t entries_count) noexcept {
  if (!absent_or_as_long(costs, entries_count)) return refuse(ErrorCode::bad_columns);
  if (!within(costs, 1, limits::permits_max)) return refuse(ErrorCode::bad_cost);
  return {};
}

Checked check_overrides(const AcquireTerms& terms, size_t entries_count) noexcept {
  if (!absent_or_as_long(terms.max_requests, entries_count) ||
      !absent_or_as_long(terms.max_requests_in_queue, entries_count)) {
    return refuse(ErrorCode::bad_columns);
  }
  if (!within_or_keep(terms.max_requests, 1, limits::permits_max) ||
      !within_or_keep(terms.max_requests_in_queue, 0, limits::queue_max)) {
    return refuse(ErrorCode::bad_override);
  }
  return {};
}

Checked check_flags(const AcquireTerms& terms, size_t entries_count, uint8_t frame_flags) noexcept {
  constexpr uint8_t known_frame_flags = schema::FRAME_MAY_WAIT | schema::FRAME_FORWARDED;
  if (!absent_or_as_long(terms.entry_flags, entries_count)) {
    return refuse(ErrorCode::bad_columns);
  }
  if (!only_known(terms.entry_flags, schema::ENTRY_MAY_WAIT) ||
      (frame_flags & ~known_frame_flags) != 0 || (terms.details & ~detail_bit::all) != 0) {
    return refuse(ErrorCode::bad_flag);
  }
  if (terms.wait_limit_ms > limits::wait_ms_max) return refuse(ErrorCode::bad_wait_limit);
  return {};
}

// ------------------------------------------------------------------------------- the requests

DecodedBody decode_hello(schema::Hello::Reader hello) {
  ColumnReader columns(hello);
  const std::string_view name = without_nul(columns.bytes(pointer_of::client_name));
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::malformed);
  return HelloRequest{.version = hello.getVersion(),
                      .wanted_shard = hello.getWantedShard(),
                      .client_name = name.substr(0, limits::client_name_bytes_max)};
}

// Of an Acquire or an AcquireByHandle.
template <typename Reader>
AcquireTerms read_terms(Reader acquire, ColumnReader& columns, uint32_t first) {
  using namespace pointer_of;
  return {.costs = columns.column<uint32_t>(first + costs),
          .max_requests = columns.column<uint32_t>(first + max_requests),
          .max_requests_in_queue = columns.column<uint32_t>(first + max_requests_in_queue),
          .entry_flags = columns.column<uint8_t>(first + entry_flags),
          .wait_limit_ms = acquire.getWaitLimitMs(),
          .details = acquire.getDetails(),
          .may_wait = (acquire.getFlags() & schema::FRAME_MAY_WAIT) != 0};
}

Checked check_terms(const AcquireTerms& terms, size_t entries_count, uint8_t frame_flags) noexcept {
  return check_costs(terms.costs, entries_count)
      .and_then([&] { return check_overrides(terms, entries_count); })
      .and_then([&] { return check_flags(terms, entries_count, frame_flags); });
}

DecodedBody check(const AcquireRequest& request, uint8_t frame_flags) noexcept {
  const Checked checked = check_keys(request.keys, request.key_sizes).and_then([&] {
    return check_terms(request, request.key_sizes.size(), frame_flags);
  });
  if (!checked) return refuse(checked.error());
  return request;
}

DecodedBody check(const AcquireByHandleRequest& request, uint8_t frame_flags) noexcept {
  const size_t count = request.handles.size();
  const Checked checked =
      check_count(count).and_then([&] { return check_terms(request, count, frame_flags); });
  if (!checked) return refuse(checked.error());
  return request;
}

DecodedBody decode_acquire(schema::Acquire::Reader acquire) {
  ColumnReader columns(acquire);
  const AcquireRequest request{{read_terms(acquire, columns, pointer_of::acquire_terms)},
                               columns.bytes(pointer_of::keys),
                               columns.column<uint16_t>(pointer_of::key_sizes)};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  return check(request, acquire.getFlags());
}

DecodedBody decode_acquire_by_handle(schema::AcquireByHandle::Reader acquire) {
  ColumnReader columns(acquire);
  const AcquireByHandleRequest request{{read_terms(acquire, columns, pointer_of::by_handle_terms)},
                                       columns.column<uint32_t>(pointer_of::handles)};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  return check(request, acquire.getFlags());
}

DecodedBody decode_intern(schema::Intern::Reader intern) {
  ColumnReader columns(intern);
  const InternRequest request{.keys = columns.bytes(pointer_of::keys),
                              .key_sizes = columns.column<uint16_t>(pointer_of::key_sizes)};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  const Checked checked = check_keys(request.keys, request.key_sizes);
  if (!checked) return refuse(checked.error());
  return request;
}

DecodedBody decode_forget(schema::Forget::Reader forget) {
  ColumnReader columns(forget);
  const ForgetRequest request{.handles = columns.column<uint32_t>(pointer_of::handles)};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  const Checked checked = check_count(request.handles.size());
  if (!checked) return refuse(checked.error());
  return request;
}

DecodedBody decode_release(schema::Release::Reader release) {
  ColumnReader columns(release);
  const ReleaseRequest request{.keys = columns.bytes(pointer_of::keys),
                               .key_sizes = columns.column<uint16_t>(pointer_of::key_sizes),
                               .costs = columns.column<uint32_t>(pointer_of::release_costs)};

  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  const Checked checked = check_keys(request.keys, request.key_sizes).and_then([&] {
    return check_costs(request.costs, request.key_sizes.size());
  });
  if (!checked) return refuse(checked.error());
  return request;
}

DecodedBody decode_withdraw(schema::Withdraw::Reader withdraw) {
  ColumnReader columns(withdraw);
  const WithdrawRequest request{.target = withdraw.getTarget(),
                                .entries = columns.column<uint32_t>(pointer_of::entries)};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  const Checked checked = check_count(request.entries.size());
  if (!checked) return refuse(checked.error());
  return request;
}

DecodedBody decode_inspect(schema::Inspect::Reader inspect) {
  ColumnReader columns(inspect);
  const InspectRequest request{.key = columns.bytes(pointer_of::key),
                               .cursor = inspect.getCursor(),
                               .limit = inspect.getLimit()};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  return request;
}

DecodedBody decode_body(schema::ClientFrame::Reader message, Frame frame) {
  switch (message.which()) {
    case schema::ClientFrame::HELLO:
      return decode_hello(message.getHello());
    case schema::ClientFrame::ACQUIRE:
      return decode_acquire(message.getAcquire());
    case schema::ClientFrame::ACQUIRE_BY_HANDLE:
      return decode_acquire_by_handle(message.getAcquireByHandle());
    case schema::ClientFrame::RELEASE:
      return decode_release(message.getRelease());
    case schema::ClientFrame::WITHDRAW:
      return decode_withdraw(message.getWithdraw());
    case schema::ClientFrame::INSPECT:
      return decode_inspect(message.getInspect());
    case schema::ClientFrame::INTERN:
      return decode_intern(message.getIntern());
    case schema::ClientFrame::FORGET:
      return decode_forget(message.getForget());
    case schema::ClientFrame::PING:
      return PingRequest{};
    case schema::ClientFrame::RESERVE:
    case schema::ClientFrame::CHECK:
    case schema::ClientFrame::SETTLE:
    case schema::ClientFrame::CANCEL:
    case schema::ClientFrame::EXTEND:
    case schema::ClientFrame::RECORD:
    case schema::ClientFrame::USAGE:
    case schema::ClientFrame::QUOTA:
    case schema::ClientFrame::RESET:
      return decode_quota_body(message, frame);
    case schema::ClientFrame::UNSET:
      break;
  }
  return UnsupportedRequest{};  // which() is a newer peer's number here
}

}  // namespace

tl::expected<ClientRequest, DecodeError> decode(Frame frame) noexcept {
  if (const std::optional<StandardFrame> standard = read_standard_frame(frame)) {
    DecodedBody body = std::visit(
        base::Overloaded{
            [&](const AcquireRequest& request) { return check(request, standard->flags); },
            [&](const AcquireByHandleRequest& request) { return check(request, standard->flags); },
            [](const auto& request) { return check_quota(request); },
        },
        standard->body);
    if (!body) return tl::make_unexpected(DecodeError{body.error(), standard->id});
    return ClientRequest{standard->id, *body};
  }
  return decode_any(frame);
}

tl::expected<ClientRequest, DecodeError> decode_any(Frame frame) noexcept {
  ASSERT(frame.size() >= word_bytes);
  ASSERT(reinterpret_cast<uintptr_t>(frame.data()) % word_bytes == 0);

  uint64_t id = 0;
  try {
    FrameMessage message(frame);
    const schema::ClientFrame::Reader root = message.root();
    id = root.getId();
    DecodedBody body = decode_body(root, frame);
    if (!body) return tl::make_unexpected(DecodeError{body.error(), id});
    return ClientRequest{id, *body};
  } catch (...) {
    return tl::make_unexpected(DecodeError{ErrorCode::malformed, id});
  }
}

}  // namespace sluice::wire
