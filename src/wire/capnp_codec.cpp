// Compares at build time the numbers that the schema and our own headers both define. The codec
// itself is in capnp_codec_decode.cpp and capnp_codec_encode.cpp.
#include "wire/capnp_codec.hpp"

#include <sluicegate.capnp.h>

namespace sluice::wire {
namespace {

// The schema's numbers are those of our headers; a test compares their names.
template <typename Ours, typename Schemas>
constexpr bool same(Ours ours, Schemas schemas) noexcept {
  return static_cast<uint32_t>(ours) == static_cast<uint32_t>(schemas);
}
static_assert(same(api::Verdict::none, schema::Verdict::NONE));
static_assert(same(api::Verdict::approved, schema::Verdict::APPROVED));
static_assert(same(api::Verdict::denied, schema::Verdict::DENIED));
static_assert(same(api::Verdict::queued, schema::Verdict::QUEUED));
static_assert(same(api::Verdict::table_full, schema::Verdict::TABLE_FULL));
static_assert(same(api::Verdict::waiters_full, schema::Verdict::WAITERS_FULL));
static_assert(same(api::Verdict::overloaded, schema::Verdict::OVERLOADED));
static_assert(same(api::Verdict::not_allowed, schema::Verdict::NOT_ALLOWED));
static_assert(same(api::Verdict::never_fits, schema::Verdict::NEVER_FITS));
static_assert(same(api::Verdict::invalid_key, schema::Verdict::INVALID_KEY));
static_assert(same(api::Verdict::wait_limit, schema::Verdict::WAIT_LIMIT));
static_assert(same(api::Verdict::withdrawn, schema::Verdict::WITHDRAWN));
static_assert(same(api::Verdict::draining, schema::Verdict::DRAINING));
static_assert(same(api::Verdict::handles_full, schema::Verdict::HANDLES_FULL));
static_assert(same(api::Verdict::owner_unreachable, schema::Verdict::OWNER_UNREACHABLE));
static_assert(same(api::Verdict::connection_waiters_full,
                   schema::Verdict::CONNECTION_WAITERS_FULL));
static_assert(same(api::Verdict::key_waiters_full, schema::Verdict::KEY_WAITERS_FULL));
static_assert(same(ErrorCode::none, schema::ErrorCode::NONE));
static_assert(same(ErrorCode::malformed, schema::ErrorCode::MALFORMED));
static_assert(same(ErrorCode::frame_too_large, schema::ErrorCode::FRAME_TOO_LARGE));
static_assert(same(ErrorCode::hello_expected, schema::ErrorCode::HELLO_EXPECTED));
static_assert(same(ErrorCode::unexpected_hello, schema::ErrorCode::UNEXPECTED_HELLO));
static_assert(same(ErrorCode::unsupported_version, schema::ErrorCode::UNSUPPORTED_VERSION));
static_assert(same(ErrorCode::unsupported, schema::ErrorCode::UNSUPPORTED));
static_assert(same(ErrorCode::bad_columns, schema::ErrorCode::BAD_COLUMNS));
static_assert(same(ErrorCode::too_many_entries, schema::ErrorCode::TOO_MANY_ENTRIES));
static_assert(same(ErrorCode::bad_cost, schema::ErrorCode::BAD_COST));
static_assert(same(ErrorCode::bad_override, schema::ErrorCode::BAD_OVERRIDE));
static_assert(same(ErrorCode::bad_wait_limit, schema::ErrorCode::BAD_WAIT_LIMIT));
static_assert(same(ErrorCode::id_in_use, schema::ErrorCode::ID_IN_USE));
static_assert(same(ErrorCode::too_many_outstanding, schema::ErrorCode::TOO_MANY_OUTSTANDING));
static_assert(same(ErrorCode::too_many_connections, schema::ErrorCode::TOO_MANY_CONNECTIONS));
static_assert(same(ErrorCode::draining, schema::ErrorCode::DRAINING));
static_assert(same(ErrorCode::hello_timeout, schema::ErrorCode::HELLO_TIMEOUT));
static_assert(same(ErrorCode::bad_flag, schema::ErrorCode::BAD_FLAG));
static_assert(same(ErrorCode::bad_amount, schema::ErrorCode::BAD_AMOUNT));
static_assert(same(ErrorCode::bad_lifetime, schema::ErrorCode::BAD_LIFETIME));
static_assert(same(ErrorCode::bad_subject, schema::ErrorCode::BAD_SUBJECT));
static_assert(same(ErrorCode::frame_timeout, schema::ErrorCode::FRAME_TIMEOUT));
static_assert(same(ErrorCode::secret_expected, schema::ErrorCode::SECRET_EXPECTED));
static_assert(detail_bit::limit == schema::DETAIL_LIMIT);
static_assert(detail_bit::window == schema::DETAIL_WINDOW);
static_assert(detail_bit::remaining == schema::DETAIL_REMAINING);
static_assert(detail_bit::reset == schema::DETAIL_RESET);
static_assert(detail_bit::retry == schema::DETAIL_RETRY_AFTER);
static_assert(detail_bit::request_id == schema::DETAIL_REQUEST_ID);
static_assert(detail_bit::position == schema::DETAIL_POSITION);
static_assert(protocol_version == schema::PROTOCOL_VERSION);
static_assert(entry_bit::may_wait == schema::ENTRY_MAY_WAIT);
static_assert(entry_bit::waiters_full == schema::ENTRY_WAITERS_FULL);
static_assert(entry_bit::connection_waiters_full == schema::ENTRY_CONNECTION_WAITERS_FULL);
static_assert(entry_detail_bit::wants_details == schema::ENTRY_WANTS_DETAILS);
static_assert(entry_detail_bit::takes_id == schema::ENTRY_TAKES_ID);
static_assert(same(api::Op::acquire, schema::Operation::ACQUIRE));
static_assert(same(api::Op::release, schema::Operation::RELEASE));
static_assert(same(api::Op::look, schema::Operation::LOOK));
static_assert(feature_bit::quotas == schema::FEATURE_QUOTAS);
static_assert(feature_bit::windows == schema::FEATURE_WINDOWS);
static_assert(feature_bit::looks == schema::FEATURE_LOOKS);
static_assert(feature_bit::forward == schema::FEATURE_FORWARD);
static_assert(feature_bit::topology == schema::FEATURE_TOPOLOGY);
static_assert(feature_bit::forward_quota == schema::FEATURE_FORWARD_QUOTA);
static_assert(permit_bytes == schema::PERMIT_BYTES);
static_assert(frame_bit::may_wait == schema::FRAME_MAY_WAIT);
static_assert(frame_bit::forwarded == schema::FRAME_FORWARDED);
static_assert(api::keep == schema::KEEP);
static_assert(keep_window == schema::KEEP_WINDOW);
static_assert(unset == schema::UNSET);
static_assert(quota_bit::may_wait == schema::QUOTA_MAY_WAIT);
static_assert(quota_bit::connection_bound == schema::QUOTA_CONNECTION_BOUND);
static_assert(quota_bit::wants_limits == schema::QUOTA_WANTS_LIMITS);
static_assert(quota_bit::wants_violated == schema::QUOTA_WANTS_VIOLATED);
static_assert(quota_bit::keep_requests == schema::QUOTA_KEEP_REQUESTS);

}  // namespace
}  // namespace sluice::wire
