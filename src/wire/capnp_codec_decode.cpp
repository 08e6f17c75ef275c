// The decoding half of capnp_codec.hpp. The fast path recognises most frames by a few words
// (standard_frame.hpp); of all others the library finds and bounds every column in one traversal.
// Then request_checks.hpp checks both alike, with loops over the raw numbers. Only a frame of
// several segments allocates, and the exception for a malformed frame, which ends its connection.
#include <sluicegate.capnp.h>

#include <array>
#include <bit>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/column_reader.hpp"
#include "wire/frame_message.hpp"
#include "wire/frame_reader.hpp"
#include "wire/request_checks.hpp"
#include "wire/request_layout.hpp"
#include "wire/standard_frame.hpp"

namespace sluice::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "columns are used as they lie in frames");

// ------------------------------------------------------------------------------- the requests

// Sets the parts of a request that its table cannot describe.
template <typename Request>
void complete(Request&, Frame) noexcept {}
void complete(HelloRequest& hello, Frame) noexcept {
  hello.client_name = hello.client_name.substr(0, limits::client_name_bytes_max);
}
void complete(QuotaChangeRequest& change, Frame frame) noexcept {
  change.frame = frame;
}
void complete(ForwardQuotaRequest& forward, Frame frame) noexcept {
  forward.frame = frame;
}

// Reads a request with the library.
template <typename Request>
Checked read_body(ClientReader message, Frame frame, RequestBody& body) {
  if constexpr (requires { Layout<Request>::get; }) {
    const auto body_struct = (message.*Layout<Request>::get)();
    ColumnReader reader(body_struct);
    Request request = read_request<Request>(reader);
    if (!reader.types_match()) return refuse(Layout<Request>::wrong_type);
    complete(request, frame);
    body.emplace<Request>(request);
    if constexpr (std::is_same_v<Request, QuotaChangeRequest>) {
      return check_request(request, body_struct);
    } else {
      return check_request(request);
    }
  } else {
    body.emplace<Request>();
    return {};
  }
}

using ReadBody = Checked (*)(ClientReader message, Frame frame, RequestBody& body);
template <size_t... kinds>
consteval std::array<ReadBody, sizeof...(kinds)> readers_of(std::index_sequence<kinds...>) {
  return {read_body<RequestOfKind<kinds>>...};
}
constexpr auto readers = readers_of(RequestKinds{});

// A release releases something, also where the column of costs may ask for looks.
Checked check_releases(const ForwardRequest& request) noexcept {
  if (request.operations.empty() || request.costs.empty()) return {};
  bool releases_nothing = false;
  for (size_t entry = 0; entry < request.operations.size(); ++entry) {
    releases_nothing |= static_cast<api::Op>(request.operations[entry]) == api::Op::release &&
                        request.costs[entry] == 0;
  }
  if (releases_nothing) return refuse(ErrorCode::bad_cost);
  return {};
}

}  // namespace

Checked check_request(const HelloRequest&) noexcept {
  return {};
}

Checked check_request(const AcquireRequest& request) noexcept {
  return check_keys<AcquireRequest>(request.keys, request.key_sizes)
      .and_then([&] { return check_columns(request, request.key_sizes.size()); })
      .and_then([&] { return check_fields(request); });
}

Checked check_request(const ForwardRequest& request) noexcept {
  return check_keys<ForwardRequest>(request.keys, request.key_sizes)
      .and_then([&] { return check_columns(request, request.key_sizes.size()); })
      .and_then([&] { return check_fields(request); })
      .and_then([&] { return check_releases(request); });
}

Checked check_request(const RefundRequest& request) noexcept {
  const auto check_permits = [&]() -> Checked {
    if (request.permits.size() % permit_bytes != 0) return refuse(ErrorCode::bad_columns);
    return check_count<RefundRequest>(permits_count(request.permits));
  };
  return check_permits()
      .and_then([&] { return check_keys<RefundRequest>(request.keys, request.key_sizes); })
      .and_then([&] { return check_columns(request, request.key_sizes.size()); });
}

Checked check_request(const AcquireByHandleRequest& request) noexcept {
  return check_count<AcquireByHandleRequest>(request.handles.size())
      .and_then([&] { return check_columns(request, request.handles.size()); })
      .and_then([&] { return check_fields(request); });
}

Checked check_request(const ReleaseRequest& request) noexcept {
  return check_keys<ReleaseRequest>(request.keys, request.key_sizes).and_then([&] {
    return check_columns(request, request.key_sizes.size());
  });
}

Checked check_request(const WithdrawRequest& request) noexcept {
  return check_count<WithdrawRequest>(request.entries.size());
}

Checked check_request(const InspectRequest&) noexcept {
  return {};
}

Checked check_request(const InternRequest& request) noexcept {
  return check_keys<InternRequest>(request.keys, request.key_sizes);
}

// read_calls() checks the calls.
Checked check_request(const ForwardQuotaRequest& request) noexcept {
  if (request.sender == 0) return refuse(ErrorCode::malformed);
  return {};
}

Checked check_request(const ForgetRequest& request) noexcept {
  return check_count<ForgetRequest>(request.handles.size());
}

tl::expected<ClientRequest, DecodeError> decode(Frame frame) noexcept {
  const std::optional<ClientRequest> request = read_standard_frame(frame);
  if (!request) return decode_with_library(frame);
  const Checked checked = std::visit(
      []<typename Request>(const Request& body) -> Checked {
        if constexpr (Layout<Request>::on_fast_path) return check_request(body);
        ASSERT(false);
        return {};
      },
      request->body);
  if (!checked) return tl::make_unexpected(DecodeError{checked.error(), request->id});
  return *request;
}

tl::expected<ClientRequest, DecodeError> decode_with_library(Frame frame) noexcept {
  ASSERT(frame.size() >= word_bytes);
  ASSERT(reinterpret_cast<uintptr_t>(frame.data()) % word_bytes == 0);

  tl::expected<ClientRequest, DecodeError> request(tl::in_place);  // an UnsupportedRequest
  uint64_t id = 0;
  try {
    FrameMessage message(frame);
    const ClientReader root = message.root<schema::ClientFrame>();
    id = root.getId();
    request->id = id;
    const auto kind = static_cast<size_t>(root.which());
    if (kind >= readers.size()) return request;  // a newer version's kind
    const Checked checked = readers[kind](root, frame, request->body);
    if (!checked) request = tl::make_unexpected(DecodeError{checked.error(), id});
  } catch (...) {
    request = tl::make_unexpected(DecodeError{ErrorCode::malformed, id});
  }
  return request;
}

}  // namespace sluice::wire
