// The layout of each frame of a client, and the values that are valid: one table for each kind.
// Flow:   read_request() fills a request by its table, from the library (column_reader.hpp) or from
//         the words of the fast path (standard_frame.cpp); request_checks.hpp checks it by the same
//         table.
// Shape:  proto/sluicegate.capnp; docs/protocol.md. `columns` has the struct's pointers in their
//         order, `fields` its data in the order of the checks.
#pragma once

#include <sluicegate.capnp.h>

#include <optional>
#include <tuple>
#include <variant>

#include "api/entry.hpp"
#include "base/error_code.hpp"
#include "base/limits.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_layout.hpp"

namespace sluice::wire {

// ------------------------------------------------------------------------------- valid values

// The numbers that are valid: `min` to `max`, and `besides`, which has a meaning of its own. Of
// flags, `max` has the known bits.
struct NumberBounds {
  uint64_t min;
  uint64_t max;
  std::optional<uint64_t> besides{};
  bool are_bits = false;
};

// Checks of a whole column. No loop ends early, so that the compiler can vectorize it.

template <uint32_t min, uint32_t max>
struct AllWithin {
  static constexpr NumberBounds bounds{min, max};
  bool operator()(Column<uint32_t> numbers) const noexcept {
    uint32_t outside = 0;
    for (const uint32_t number : numbers) outside |= number - min > max - min;
    return outside == 0;
  }
};

template <uint32_t min, uint32_t max>
struct AllWithinOrKeep {
  static constexpr NumberBounds bounds{min, max, api::keep};
  bool operator()(Column<uint32_t> numbers) const noexcept {
    uint32_t outside = 0;
    for (const uint32_t number : numbers) {
      outside |= static_cast<uint32_t>(number - min > max - min) & (number != api::keep);
    }
    return outside == 0;
  }
};

struct AllWindowsOrKeep {
  static constexpr NumberBounds bounds{limits::window_ms_min, limits::window_ms_max, keep_window};
  bool operator()(Column<uint64_t> windows_ms) const noexcept {
    uint64_t outside = 0;
    for (const uint64_t window_ms : windows_ms) {
      outside |= static_cast<uint64_t>(window_ms - bounds.min > bounds.max - bounds.min) &
                 (window_ms != keep_window);
    }
    return outside == 0;
  }
};

template <uint8_t known>
struct AllOnly {
  static constexpr NumberBounds bounds{0, known, {}, true};
  bool operator()(Column<uint8_t> flags) const noexcept {
    uint8_t seen = 0;
    for (const uint8_t flag : flags) seen |= flag;
    return (seen & ~known) == 0;
  }
};

struct AllOperations {
  static constexpr NumberBounds bounds{0, static_cast<uint64_t>(api::Op::look)};
  bool operator()(Column<uint8_t> operations) const noexcept {
    uint8_t unknown = 0;
    for (const uint8_t operation : operations) unknown |= operation > bounds.max;
    return unknown == 0;
  }
};

struct AllAmounts {
  static constexpr NumberBounds bounds{0, limits::amount_max, unset};
  bool operator()(Column<uint64_t> column) const noexcept {
    uint64_t outside = 0;
    for (const uint64_t amount : column) {
      outside |= static_cast<uint64_t>(amount > bounds.max) & (amount != unset);
    }
    return outside == 0;
  }
};

// Checks of one number.

template <uint8_t known>
struct Only {
  static constexpr NumberBounds bounds{0, known, {}, true};
  bool operator()(uint8_t flags) const noexcept { return (flags & ~known) == 0; }
};

template <uint32_t max>
struct AtMost {
  static constexpr NumberBounds bounds{0, max};
  bool operator()(uint32_t number) const noexcept { return number <= max; }
};

struct LifetimeOrNone {
  static constexpr NumberBounds bounds{limits::lifetime_ms_min, limits::lifetime_ms_max, 0};
  bool operator()(uint32_t lifetime_ms) const noexcept {
    return lifetime_ms == 0 || (lifetime_ms >= bounds.min && lifetime_ms <= bounds.max);
  }
};

// Of numbers that are checked together with others (capnp_codec_quota_decode.cpp).
inline constexpr NumberBounds subject_counts_bounds{1, limits::call_subjects_max};
inline constexpr NumberBounds label_bytes_bounds{0, limits::client_id_bytes_max};

// ------------------------------------------------------------------- shared by several kinds

template <typename Request>
constexpr auto key_columns =
    std::tuple{bytes("keys", &Request::keys), list("keySizes", &Request::key_sizes)};

// An Acquire of cost 0 is a look.
template <typename Request, uint32_t min>
constexpr auto cost_column = column("costs", &Request::costs, AllWithin<min, limits::permits_max>{},
                                    ErrorCode::bad_cost);

template <uint8_t entry_flags>
inline constexpr auto terms_columns = std::tuple{
    cost_column<AcquireCommon, 0>,
    column("maxRequests", &AcquireCommon::max_requests, AllWithinOrKeep<1, limits::permits_max>{},
           ErrorCode::bad_override),
    column("maxRequestsInQueue", &AcquireCommon::max_requests_in_queue,
           AllWithinOrKeep<0, limits::queue_max>{}, ErrorCode::bad_override),
    column("entryFlags", &AcquireCommon::entry_flags, AllOnly<entry_flags>{}, ErrorCode::bad_flag),
    column("windowMs", &AcquireCommon::window_ms, AllWindowsOrKeep{}, ErrorCode::bad_override)};

inline constexpr auto common_columns = terms_columns<entry_bit::may_wait>;

inline constexpr auto common_fields = std::tuple{
    field("details", 0, &AcquireCommon::detail_bits, Only<detail_bit::all>{}, ErrorCode::bad_flag),
    field("flags", 1, &AcquireCommon::flags, Only<frame_bit::may_wait | frame_bit::forwarded>{},
          ErrorCode::bad_flag),
    field("waitLimitMs", 4, &AcquireCommon::wait_limit_ms, AtMost<limits::wait_ms_max>{},
          ErrorCode::bad_wait_limit)};

inline constexpr auto subjects_columns =
    std::tuple{bytes("subjects", &EntrySubjects::subjects),
               list("subjectSizes", &EntrySubjects::subject_sizes),
               list("subjectCounts", &EntrySubjects::subject_counts)};

constexpr auto requests_column =
    column("requests", &EntryAmounts::requests, any_value, ErrorCode::bad_amount);
consteval auto amount_column(const char* name, Column<uint64_t> EntryAmounts::*member) {
  return column(name, member, AllAmounts{}, ErrorCode::bad_amount);
}

inline constexpr auto amounts_columns =
    std::tuple{requests_column, amount_column("inputTokens", &EntryAmounts::input_tokens),
               amount_column("cachedInputTokens", &EntryAmounts::cached_input_tokens),
               amount_column("outputTokens", &EntryAmounts::output_tokens),
               amount_column("costs", &EntryAmounts::costs)};

inline constexpr auto ids_columns =
    std::tuple{bytes("ids", &EntryIds::ids), list("idSizes", &EntryIds::id_sizes)};

inline constexpr auto estimates_columns =
    std::tuple{requests_column, amount_column("inputTokens", &EntryAmounts::input_tokens),
               amount_column("maxOutputTokens", &EntryAmounts::output_tokens),
               amount_column("costs", &EntryAmounts::costs)};

template <typename Request, uint8_t known>
constexpr auto flags_field = field("flags", 0, &Request::flags, Only<known>{}, ErrorCode::bad_flag);

// ----------------------------------------------------------------------------- kinds of frames

// `kind` is also the index in ClientRequest::body; `get` finds the struct of a frame.
template <typename Request>
struct Layout;

// For most kinds a column of the wrong type is badColumns, and only the library reads the frame.
struct LayoutDefaults {
  static constexpr ErrorCode wrong_type = ErrorCode::bad_columns;
  static constexpr bool on_fast_path = false;
  static constexpr size_t entries_max = limits::frame_entries_max;
  static constexpr std::tuple<> columns{};
  static constexpr std::tuple<> fields{};
};
struct QuotaLayoutDefaults : LayoutDefaults {
  static constexpr size_t entries_max = limits::quota_calls_max;
};

using ClientReader = schema::ClientFrame::Reader;
using schema::ClientFrame;

template <>
struct Layout<UnsupportedRequest> : LayoutDefaults {
  static constexpr auto kind = ClientFrame::UNSET;
};

template <>
struct Layout<HelloRequest> : LayoutDefaults {
  using Struct = schema::Hello;
  static constexpr auto kind = ClientFrame::HELLO;
  static constexpr auto get = &ClientReader::getHello;
  static constexpr ErrorCode wrong_type = ErrorCode::malformed;
  static constexpr auto columns = std::tuple{text("clientName", &HelloRequest::client_name),
                                             text("token", &HelloRequest::token)};
  static constexpr auto fields =
      std::tuple{field("version", 0, &HelloRequest::version),
                 field("wantedShard", 4, &HelloRequest::wanted_shard_plus_one)};
};

template <>
struct Layout<AcquireRequest> : LayoutDefaults {
  using Struct = schema::Acquire;
  static constexpr auto kind = ClientFrame::ACQUIRE;
  static constexpr auto get = &ClientReader::getAcquire;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns = std::tuple_cat(key_columns<AcquireRequest>, common_columns);
  static constexpr auto fields = common_fields;
};

template <>
struct Layout<AcquireByHandleRequest> : LayoutDefaults {
  using Struct = schema::AcquireByHandle;
  static constexpr auto kind = ClientFrame::ACQUIRE_BY_HANDLE;
  static constexpr auto get = &ClientReader::getAcquireByHandle;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns =
      std::tuple_cat(std::tuple{list("handles", &AcquireByHandleRequest::handles)}, common_columns);
  static constexpr auto fields = common_fields;
};

template <>
struct Layout<ReleaseRequest> : LayoutDefaults {
  using Struct = schema::Release;
  static constexpr auto kind = ClientFrame::RELEASE;
  static constexpr auto get = &ClientReader::getRelease;
  static constexpr auto columns =
      std::tuple_cat(key_columns<ReleaseRequest>, std::tuple{cost_column<ReleaseRequest, 1>});
};

template <>
struct Layout<WithdrawRequest> : LayoutDefaults {
  using Struct = schema::Withdraw;
  static constexpr auto kind = ClientFrame::WITHDRAW;
  static constexpr auto get = &ClientReader::getWithdraw;
  static constexpr auto columns = std::tuple{list("entries", &WithdrawRequest::entries)};
  static constexpr auto fields = std::tuple{field("target", 0, &WithdrawRequest::target)};
};

template <>
struct Layout<InspectRequest> : LayoutDefaults {
  using Struct = schema::Inspect;
  static constexpr auto kind = ClientFrame::INSPECT;
  static constexpr auto get = &ClientReader::getInspect;
  static constexpr auto columns = std::tuple{bytes("key", &InspectRequest::key)};
  static constexpr auto fields = std::tuple{field("cursor", 0, &InspectRequest::cursor),
                                            field("limit", 8, &InspectRequest::limit)};
};

template <>
struct Layout<InternRequest> : LayoutDefaults {
  using Struct = schema::Intern;
  static constexpr auto kind = ClientFrame::INTERN;
  static constexpr auto get = &ClientReader::getIntern;
  static constexpr auto columns = key_columns<InternRequest>;
};

template <>
struct Layout<ForgetRequest> : LayoutDefaults {
  using Struct = schema::Forget;
  static constexpr auto kind = ClientFrame::FORGET;
  static constexpr auto get = &ClientReader::getForget;
  static constexpr auto columns = std::tuple{list("handles", &ForgetRequest::handles)};
};

template <>
struct Layout<PingRequest> : LayoutDefaults {
  static constexpr auto kind = ClientFrame::PING;
};

template <>
struct Layout<ReserveRequest> : QuotaLayoutDefaults {
  using Struct = schema::Reserve;
  static constexpr auto kind = ClientFrame::RESERVE;
  static constexpr auto get = &ClientReader::getReserve;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns = std::tuple_cat(subjects_columns, estimates_columns, ids_columns,
                                                 std::tuple{text("owner", &ReserveRequest::owner)});
  static constexpr auto fields = std::tuple{
      flags_field<ReserveRequest, quota_bit::may_wait | quota_bit::connection_bound |
                                      quota_bit::wants_limits | quota_bit::wants_violated>,
      field("lifetimeMs", 8, &ReserveRequest::lifetime_ms, LifetimeOrNone{},
            ErrorCode::bad_lifetime),
      field("waitLimitMs", 4, &ReserveRequest::wait_limit_ms, AtMost<limits::wait_ms_max>{},
            ErrorCode::bad_wait_limit)};
};

template <>
struct Layout<CheckRequest> : Layout<ReserveRequest> {
  static constexpr auto kind = ClientFrame::CHECK;
  static constexpr auto get = &ClientReader::getCheck;
  static constexpr bool on_fast_path = false;
};

template <>
struct Layout<SettleRequest> : QuotaLayoutDefaults {
  using Struct = schema::Settle;
  static constexpr auto kind = ClientFrame::SETTLE;
  static constexpr auto get = &ClientReader::getSettle;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns = std::tuple_cat(
      std::tuple{list("reservations", &SettleRequest::reservations)}, amounts_columns);
  static constexpr auto fields = std::tuple{flags_field<SettleRequest, 0>};
};

template <>
struct Layout<CancelRequest> : QuotaLayoutDefaults {
  using Struct = schema::Cancel;
  static constexpr auto kind = ClientFrame::CANCEL;
  static constexpr auto get = &ClientReader::getCancel;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns = std::tuple{list("reservations", &CancelRequest::reservations)};
  static constexpr auto fields = std::tuple{flags_field<CancelRequest, quota_bit::keep_requests>};
};

template <>
struct Layout<ExtendRequest> : QuotaLayoutDefaults {
  using Struct = schema::Extend;
  static constexpr auto kind = ClientFrame::EXTEND;
  static constexpr auto get = &ClientReader::getExtend;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns = std::tuple{list("reservations", &ExtendRequest::reservations)};
  static constexpr auto fields =
      std::tuple{flags_field<ExtendRequest, 0>, field("lifetimeMs", 4, &ExtendRequest::lifetime_ms,
                                                      LifetimeOrNone{}, ErrorCode::bad_lifetime)};
};

template <>
struct Layout<RecordRequest> : QuotaLayoutDefaults {
  using Struct = schema::Record;
  static constexpr auto kind = ClientFrame::RECORD;
  static constexpr auto get = &ClientReader::getRecord;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns = std::tuple_cat(subjects_columns, amounts_columns, ids_columns);
  static constexpr auto fields = std::tuple{flags_field<RecordRequest, quota_bit::wants_limits>};
};

template <>
struct Layout<UsageRequest> : LayoutDefaults {
  using Struct = schema::Usage;
  static constexpr auto kind = ClientFrame::USAGE;
  static constexpr auto get = &ClientReader::getUsage;
  static constexpr size_t entries_max = limits::subjects_page_max;
  static constexpr auto columns = std::tuple{bytes("subjects", &UsageRequest::subjects),
                                             list("subjectSizes", &UsageRequest::subject_sizes)};
  static constexpr auto fields = std::tuple{field("cursor", 0, &UsageRequest::cursor),
                                            field("limit", 8, &UsageRequest::limit)};
};

template <>
struct Layout<QuotaChangeRequest> : LayoutDefaults {
  using Struct = schema::QuotaChange;
  static constexpr auto kind = ClientFrame::QUOTA;
  static constexpr auto get = &ClientReader::getQuota;
  static constexpr auto columns =
      std::tuple{bytes("subject", &QuotaChangeRequest::subject), OtherRow{"quota"}};
  static constexpr auto fields = std::tuple{field("remove", 0, &QuotaChangeRequest::remove)};
};

template <>
struct Layout<ResetRequest> : LayoutDefaults {
  using Struct = schema::Reset;
  static constexpr auto kind = ClientFrame::RESET;
  static constexpr auto get = &ClientReader::getReset;
  static constexpr auto columns = std::tuple{bytes("subject", &ResetRequest::subject)};
  static constexpr auto fields = std::tuple{field("all", 0, &ResetRequest::all)};
};

template <>
struct Layout<ConsumeRequest> : QuotaLayoutDefaults {
  using Struct = schema::Consume;
  static constexpr auto kind = ClientFrame::CONSUME;
  static constexpr auto get = &ClientReader::getConsume;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns = std::tuple_cat(subjects_columns, amounts_columns, ids_columns);
  static constexpr auto fields =
      std::tuple{flags_field<ConsumeRequest, quota_bit::may_wait | quota_bit::wants_limits |
                                                 quota_bit::wants_violated>,
                 field("waitLimitMs", 4, &ConsumeRequest::wait_limit_ms,
                       AtMost<limits::wait_ms_max>{}, ErrorCode::bad_wait_limit)};
};

template <>
struct Layout<ForwardRequest> : LayoutDefaults {
  using Struct = schema::Forward;
  static constexpr auto kind = ClientFrame::FORWARD;
  static constexpr auto get = &ClientReader::getForward;
  static constexpr bool on_fast_path = true;
  static constexpr auto columns = std::tuple_cat(
      key_columns<ForwardRequest>, terms_columns<entry_bit::of_forward>,
      std::tuple{
          column("operations", &ForwardRequest::operations, AllOperations{}, ErrorCode::bad_flag),
          column("waitLimitsMs", &ForwardRequest::wait_limits_ms,
                 AllWithin<0, limits::wait_ms_max>{}, ErrorCode::bad_wait_limit),
          column("entryDetails", &ForwardRequest::entry_details, AllOnly<entry_detail_bit::all>{},
                 ErrorCode::bad_flag)});
  static constexpr auto fields = common_fields;
};

template <>
struct Layout<RefundRequest> : LayoutDefaults {
  using Struct = schema::Refund;
  static constexpr auto kind = ClientFrame::REFUND;
  static constexpr auto get = &ClientReader::getRefund;
  static constexpr auto columns =
      std::tuple_cat(std::tuple{bytes("permits", &RefundRequest::permits)},
                     key_columns<RefundRequest>, std::tuple{cost_column<RefundRequest, 1>});
  static constexpr auto fields = std::tuple{field("target", 0, &RefundRequest::target)};
};

template <>
struct Layout<TopologyRequest> : LayoutDefaults {
  static constexpr auto kind = ClientFrame::TOPOLOGY;
};

template <>
struct Layout<ForwardQuotaRequest> : LayoutDefaults {
  using Struct = schema::ForwardQuota;
  static constexpr auto kind = ClientFrame::FORWARD_QUOTA;
  static constexpr auto get = &ClientReader::getForwardQuota;
  static constexpr auto columns = std::tuple{OtherRow{"calls"}, OtherRow{"visit"}};
  static constexpr auto fields = std::tuple{field("sender", 0, &ForwardQuotaRequest::sender)};
};

// ------------------------------------------------------------------------ all kinds, in order

using RequestBody = decltype(ClientRequest::body);
inline constexpr size_t request_kinds_count = std::variant_size_v<RequestBody>;

template <size_t kind>
using RequestOfKind = std::variant_alternative_t<kind, RequestBody>;

using RequestKinds = std::make_index_sequence<request_kinds_count>;

template <size_t... kinds>
consteval bool kinds_are_indexes(std::index_sequence<kinds...>) {
  return ((static_cast<size_t>(Layout<RequestOfKind<kinds>>::kind) == kinds) && ...);
}
static_assert(kinds_are_indexes(RequestKinds{}));

// ------------------------------------------------------------------------------------ reading

// A source has `column<T>(pointer)`, `bytes(pointer)` and `number<T>(byte)` of one struct;
// read_request() asks for the pointers in their order.
template <typename Request, typename Source, typename Class, typename T>
void read_row(Request& request, Source& source, uint32_t pointer, const ListRow<Class, T>& row) {
  request.*row.member = source.template column<T>(pointer);
}
template <typename Request, typename Source, typename Class, typename T, typename AreValid>
void read_row(Request& request, Source& source, uint32_t pointer,
              const ColumnRow<Class, T, AreValid>& row) {
  request.*row.member = source.template column<T>(pointer);
}
template <typename Request, typename Source, typename Class>
void read_row(Request& request, Source& source, uint32_t pointer, const BytesRow<Class>& row) {
  request.*row.member = source.bytes(pointer);
}
template <typename Request, typename Source, typename Class>
void read_row(Request& request, Source& source, uint32_t pointer, const TextRow<Class>& row) {
  request.*row.member = without_nul(source.bytes(pointer));
}
template <typename Request, typename Source>
void read_row(Request&, Source&, uint32_t, const OtherRow&) {}

template <typename Request, typename Source, typename Class, typename T, typename IsValid>
void read_field(Request& request, Source& source, const Field<Class, T, IsValid>& field) {
  request.*field.member = source.template number<T>(field.byte);
}

template <typename Request, typename Source>
[[gnu::always_inline]] inline Request read_request(Source& source) {
  Request request{};
  each_row(Layout<Request>::columns,
           [&](auto pointer, const auto& row) { read_row(request, source, pointer, row); });
  each_row(Layout<Request>::fields,
           [&](auto, const auto& field) { read_field(request, source, field); });
  return request;
}

}  // namespace sluice::wire
