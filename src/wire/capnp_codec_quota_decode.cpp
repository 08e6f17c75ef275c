// The reading half of capnp_codec_quota.hpp, as capnp_codec_decode.cpp: one pass of the library
// over a frame that standard_frame.hpp does not know, then loops of ours over the raw numbers.
#include <algorithm>

#include "base/limits.hpp"
#include "policy/quota_text.hpp"
#include "wire/column_reader.hpp"
#include "wire/frame_message.hpp"
#include "wire/quota_decode.hpp"

namespace sluice::wire {
namespace {

// The fields' places in their structs' pointer sections.
namespace pointer_of {
// Usage's are the first two of these.
enum Subjects { subjects, subject_sizes, subject_counts };
enum Reserve { requests = 3, input_tokens, max_output_tokens, costs, ids, id_sizes, owner };
// All that are about reservations begin with the first of these.
enum Settle {
  reservations,
  settle_requests,
  settle_input_tokens,
  settle_cached_input_tokens,
  settle_output_tokens,
  settle_costs
};
enum Record {
  record_requests = 3,
  record_input_tokens,
  record_cached_input_tokens,
  record_output_tokens,
  record_costs
};
// QuotaChange's and Reset's.
enum OneSubject { subject };
enum QuotaAnswers { answered_reservations = 1 };
enum Granted { granted_reservations = 3 };
}  // namespace pointer_of

constexpr uint8_t known_reserve_flags = quota_bit::may_wait | quota_bit::connection_bound |
                                        quota_bit::wants_limits | quota_bit::wants_violated;

// ---------------------------------------------------------------------------- checking columns
// No loop ends early, so that the compiler can do many numbers at once.

Checked check_count(size_t entries_count) noexcept {
  if (entries_count > limits::quota_calls_max) return refuse(ErrorCode::too_many_entries);
  return {};
}

Checked check_flags(uint8_t flags, uint8_t known) noexcept {
  if ((flags & ~known) != 0) return refuse(ErrorCode::bad_flag);
  return {};
}

Checked check_lifetime(uint32_t lifetime_ms) noexcept {
  const bool given = lifetime_ms != 0;
  if (given && (lifetime_ms < limits::lifetime_ms_min || lifetime_ms > limits::lifetime_ms_max)) {
    return refuse(ErrorCode::bad_lifetime);
  }
  return {};
}

Checked check_subjects(const EntrySubjects& entries) noexcept {
  if (const Checked checked = check_count(entries.entries_count()); !checked) return checked;
  uint32_t sum = 0;
  uint32_t wrong = 0;
  for (const uint8_t count : entries.subject_counts) {
    sum += count;
    wrong |= static_cast<uint32_t>(count) - 1 > limits::call_subjects_max - 1;
  }
  if (wrong != 0) return refuse(ErrorCode::bad_subject);
  if (!entries.subject_counts.empty() && sum != entries.subject_sizes.size()) {
    return refuse(ErrorCode::bad_columns);
  }
  if (!sizes_add_up(entries.subject_sizes, entries.subjects.size())) {
    return refuse(ErrorCode::bad_columns);
  }
  return {};
}

bool are_amounts(Column<uint64_t> column) noexcept {
  uint64_t outside = 0;
  for (const uint64_t amount : column) {
    outside |= static_cast<uint64_t>(amount > limits::amount_max) & (amount != unset);
  }
  return outside == 0;
}

// Cached tokens are a part of the input; `if_unset`: of one that is not told.
bool cached_within(Column<uint64_t> cached, Column<uint64_t> input, uint64_t if_unset) noexcept {
  uint64_t outside = 0;
  for (size_t index = 0; index < cached.size(); ++index) {
    const uint64_t most = input[index] == unset ? if_unset : input[index];
    outside |= static_cast<uint64_t>(cached[index] > most) & (cached[index] != unset);
  }
  return outside == 0;
}

bool none_given(Column<uint64_t> column) noexcept {
  uint64_t given = 0;
  for (const uint64_t amount : column) given |= (amount != 0) & (amount != unset);
  return given == 0;
}

Checked check_amounts(const EntryAmounts& amounts, size_t entries_count) noexcept {
  bool right_lengths = absent_or_as_long(amounts.requests, entries_count);
  bool right_values = true;
  for (const Column<uint64_t> column :
       {amounts.input_tokens, amounts.cached_input_tokens, amounts.output_tokens, amounts.costs}) {
    right_lengths &= absent_or_as_long(column, entries_count);
    right_values &= are_amounts(column);
  }
  if (!right_lengths) return refuse(ErrorCode::bad_columns);
  if (!right_values) return refuse(ErrorCode::bad_amount);
  if (!amounts.input_tokens.empty() &&
      !cached_within(amounts.cached_input_tokens, amounts.input_tokens, unset)) {
    return refuse(ErrorCode::bad_amount);
  }
  return {};
}

Checked check_ids(const ReserveRequest& request) noexcept {
  if (!absent_or_as_long(request.id_sizes, request.entries_count()) ||
      !sizes_add_up(request.id_sizes, request.ids.size())) {
    return refuse(ErrorCode::bad_columns);
  }
  uint16_t longest = 0;
  for (const uint16_t size : request.id_sizes) longest = std::max(longest, size);
  if (longest > limits::client_id_bytes_max || request.owner.size() > limits::client_id_bytes_max) {
    return refuse(ErrorCode::bad_subject);
  }
  return {};
}

Checked check_reserve(const ReserveRequest& request) noexcept {
  return check_subjects(request)
      .and_then([&] { return check_amounts(request, request.entries_count()); })
      .and_then([&] { return check_ids(request); })
      .and_then([&] { return check_flags(request.flags, known_reserve_flags); })
      .and_then([&] { return check_lifetime(request.lifetime_ms); })
      .and_then([&]() -> Checked {
        if (request.wait_limit_ms <= limits::wait_ms_max) return {};
        return refuse(ErrorCode::bad_wait_limit);
      });
}

template <typename Request>
DecodedBody as_body(const Checked& checked, const Request& request) noexcept {
  if (!checked) return refuse(checked.error());
  return request;
}

// ------------------------------------------------------------------------------- the requests

EntrySubjects read_subjects(ColumnReader& columns) {
  using namespace pointer_of;
  return {.subjects = columns.bytes(subjects),
          .subject_sizes = columns.column<uint16_t>(subject_sizes),
          .subject_counts = columns.column<uint8_t>(subject_counts)};
}

template <typename Request>
DecodedBody decode_reserve(schema::Reserve::Reader reserve) {
  using namespace pointer_of;
  ColumnReader columns(reserve);
  const ReserveRequest request{{read_subjects(columns)},
                               {.requests = columns.column<uint32_t>(requests),
                                .input_tokens = columns.column<uint64_t>(input_tokens),
                                .cached_input_tokens = {},
                                .output_tokens = columns.column<uint64_t>(max_output_tokens),
                                .costs = columns.column<uint64_t>(costs)},
                               columns.bytes(ids),
                               columns.column<uint16_t>(id_sizes),
                               without_nul(columns.bytes(owner)),
                               reserve.getWaitLimitMs(),
                               reserve.getLifetimeMs(),
                               reserve.getFlags()};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  return check_quota(Request{request});
}

DecodedBody decode_settle(schema::Settle::Reader settle) {
  using namespace pointer_of;
  ColumnReader columns(settle);
  const SettleRequest request{
      {.requests = columns.column<uint32_t>(settle_requests),
       .input_tokens = columns.column<uint64_t>(settle_input_tokens),
       .cached_input_tokens = columns.column<uint64_t>(settle_cached_input_tokens),
       .output_tokens = columns.column<uint64_t>(settle_output_tokens),
       .costs = columns.column<uint64_t>(settle_costs)},
      columns.column<uint64_t>(reservations),
      settle.getFlags()};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  return check_quota(request);
}

DecodedBody decode_cancel(schema::Cancel::Reader cancel) {
  ColumnReader columns(cancel);
  const CancelRequest request{.reservations = columns.column<uint64_t>(pointer_of::reservations),
                              .flags = cancel.getFlags()};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  return check_quota(request);
}

DecodedBody decode_extend(schema::Extend::Reader extend) {
  ColumnReader columns(extend);
  const ExtendRequest request{.reservations = columns.column<uint64_t>(pointer_of::reservations),
                              .lifetime_ms = extend.getLifetimeMs(),
                              .flags = extend.getFlags()};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  return check_quota(request);
}

DecodedBody decode_record(schema::Record::Reader record) {
  using namespace pointer_of;
  ColumnReader columns(record);
  const RecordRequest request{
      {read_subjects(columns)},
      {.requests = columns.column<uint32_t>(record_requests),
       .input_tokens = columns.column<uint64_t>(record_input_tokens),
       .cached_input_tokens = columns.column<uint64_t>(record_cached_input_tokens),
       .output_tokens = columns.column<uint64_t>(record_output_tokens),
       .costs = columns.column<uint64_t>(record_costs)},
      record.getFlags()};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  return check_quota(request);
}

DecodedBody decode_usage(schema::Usage::Reader usage) {
  ColumnReader columns(usage);
  const UsageRequest request{.subjects = columns.bytes(pointer_of::subjects),
                             .subject_sizes = columns.column<uint16_t>(pointer_of::subject_sizes),
                             .cursor = usage.getCursor(),
                             .limit = usage.getLimit()};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  if (request.subject_sizes.size() > limits::subjects_page_max) {
    return refuse(ErrorCode::too_many_entries);
  }
  if (!sizes_add_up(request.subject_sizes, request.subjects.size())) {
    return refuse(ErrorCode::bad_columns);
  }
  return request;
}

// ----------------------------------------------------------------------------------- a quota

// Numbers that a newer peer may have.
bool knows(schema::Limit::Reader limit) {
  return static_cast<uint32_t>(limit.getMetric()) < api::metrics_count &&
         static_cast<uint32_t>(limit.getKind()) < api::limit_kinds_count &&
         limit.getCeiling() <= schema::Ceiling::BLOCK &&
         limit.getUnit() <= schema::CalendarUnit::MONTH;
}

std::string_view view(capnp::Text::Reader text) noexcept {
  return {text.begin(), text.size()};
}

api::Limit limit_of(schema::Limit::Reader limit) {
  return {.name = std::string(view(limit.getName())),
          .metric = static_cast<api::Metric>(limit.getMetric()),
          .kind = static_cast<api::LimitKind>(limit.getKind()),
          .ceiling = static_cast<api::Ceiling>(limit.getCeiling()),
          .amount = limit.getAmount(),
          .period_ms = static_cast<int64_t>(std::min<uint64_t>(limit.getPeriodMs(), INT64_MAX)),
          .unit = static_cast<api::CalendarUnit>(limit.getUnit()),
          .time_zone = std::string(view(limit.getTimeZone())),
          .count_cached = limit.getCountCached()};
}

// Reads all that quota_of() will read, so that this does not throw.
Checked check_quota_text(schema::Quota::Reader quota) {
  const auto given = quota.getLimits();
  if (given.size() > limits::quota_limits_max) return refuse(ErrorCode::too_many_entries);
  for (const auto limit : given) {
    limit.getName();
    limit.getTimeZone();
    if (!knows(limit)) return refuse(ErrorCode::bad_flag);
    if (limit.getAmount() > limits::amount_max) return refuse(ErrorCode::bad_amount);
  }
  return {};
}

DecodedBody decode_quota_change(schema::QuotaChange::Reader change, Frame frame) {
  ColumnReader columns(change);
  const QuotaChangeRequest request{
      .subject = columns.bytes(pointer_of::subject), .remove = change.getRemove(), .frame = frame};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  if (request.subject.empty()) return refuse(ErrorCode::bad_subject);
  if (request.remove) return request;
  return as_body(check_quota_text(change.getQuota()), request);
}

DecodedBody decode_reset(schema::Reset::Reader reset) {
  ColumnReader columns(reset);
  const ResetRequest request{.subject = columns.bytes(pointer_of::subject)};
  if (!columns.all_of_right_kind()) return refuse(ErrorCode::bad_columns);
  if (request.subject.empty() != reset.getAll()) return refuse(ErrorCode::bad_subject);
  return request;
}

}  // namespace

DecodedBody check_quota(const ReserveRequest& request) noexcept {
  return as_body(check_reserve(request), request);
}

DecodedBody check_quota(const CheckRequest& request) noexcept {
  return as_body(check_reserve(request), request);
}

DecodedBody check_quota(const SettleRequest& request) noexcept {
  const size_t count = request.reservations.size();
  return as_body(
      check_count(count).and_then([&] { return check_amounts(request, count); }).and_then([&] {
        return check_flags(request.flags, 0);
      }),
      request);
}

DecodedBody check_quota(const CancelRequest& request) noexcept {
  return as_body(check_count(request.reservations.size()).and_then([&] {
    return check_flags(request.flags, quota_bit::keep_requests);
  }),
                 request);
}

DecodedBody check_quota(const ExtendRequest& request) noexcept {
  return as_body(check_count(request.reservations.size())
                     .and_then([&] { return check_flags(request.flags, 0); })
                     .and_then([&] { return check_lifetime(request.lifetime_ms); }),
                 request);
}

DecodedBody check_quota(const RecordRequest& request) noexcept {
  return as_body(check_subjects(request)
                     .and_then([&] { return check_amounts(request, request.entries_count()); })
                     .and_then([&]() -> Checked {
                       // Nothing told is no input: none of it is cached.
                       const Column<uint64_t> cached = request.cached_input_tokens;
                       const Column<uint64_t> input = request.input_tokens;
                       if (input.empty() ? none_given(cached) : cached_within(cached, input, 0))
                         return check_flags(request.flags, quota_bit::wants_limits);
                       return refuse(ErrorCode::bad_amount);
                     }),
                 request);
}

DecodedBody decode_quota_body(schema::ClientFrame::Reader message, Frame frame) {
  switch (message.which()) {
    case schema::ClientFrame::RESERVE:
      return decode_reserve<ReserveRequest>(message.getReserve());
    case schema::ClientFrame::CHECK:
      return decode_reserve<CheckRequest>(message.getCheck());
    case schema::ClientFrame::SETTLE:
      return decode_settle(message.getSettle());
    case schema::ClientFrame::CANCEL:
      return decode_cancel(message.getCancel());
    case schema::ClientFrame::EXTEND:
      return decode_extend(message.getExtend());
    case schema::ClientFrame::RECORD:
      return decode_record(message.getRecord());
    case schema::ClientFrame::USAGE:
      return decode_usage(message.getUsage());
    case schema::ClientFrame::QUOTA:
      return decode_quota_change(message.getQuota(), frame);
    case schema::ClientFrame::RESET:
      return decode_reset(message.getReset());
    default:
      return UnsupportedRequest{};
  }
}

std::optional<api::Quota> quota_of(const QuotaChangeRequest& request) {
  FrameMessage message(request.frame);
  const schema::Quota::Reader given = message.root().getQuota().getQuota();
  api::Quota quota{.refund_expired = given.getRefundExpired(),
                   .overtakers_max = given.getOvertakersMax()};
  for (const auto limit : given.getLimits()) quota.limits.push_back(limit_of(limit));
  if (!policy::check_quota(quota).empty()) return std::nullopt;
  return quota;
}

Column<uint64_t> granted_reservations(Frame frame) noexcept {
  FrameMessage message(frame);
  const schema::ServerFrame::Reader root = message.server_root();
  if (root.isQuotaAnswers()) {
    return ColumnReader(root.getQuotaAnswers()).column<uint64_t>(pointer_of::answered_reservations);
  }
  if (root.isGranted()) {
    return ColumnReader(root.getGranted()).column<uint64_t>(pointer_of::granted_reservations);
  }
  return {};
}

}  // namespace sluice::wire
