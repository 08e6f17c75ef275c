// The part of decode() that is about quotas; see capnp_codec_quota.hpp.
#pragma once

#include <sluicegate.capnp.h>

#include "base/error_code.hpp"
#include "base/result.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_reader.hpp"

namespace sluice::wire {

using DecodedBody = tl::expected<decltype(ClientRequest::body), ErrorCode>;

// By the library, of a frame of one of their kinds; may throw.
DecodedBody decode_quota_body(schema::ClientFrame::Reader message, Frame frame);

// What lies in a frame of right kinds of columns.
DecodedBody check_quota(const ReserveRequest& request) noexcept;
DecodedBody check_quota(const CheckRequest& request) noexcept;
DecodedBody check_quota(const SettleRequest& request) noexcept;
DecodedBody check_quota(const CancelRequest& request) noexcept;
DecodedBody check_quota(const ExtendRequest& request) noexcept;
DecodedBody check_quota(const RecordRequest& request) noexcept;

}  // namespace sluice::wire
