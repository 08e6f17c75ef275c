// Checks whether a client's request is valid: by the table of its kind, and by code for rules that
// no table has.
// Flow:   decode() reads a request, by the fast path or the library -> check_request().
// Errors: the code of the first fault, in the order of the checks.
#pragma once

#include <utility>

#include "base/error_code.hpp"
#include "base/limits.hpp"
#include "base/result.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/request_layout.hpp"

namespace sluice::wire {

using Checked = tl::expected<void, ErrorCode>;

inline tl::unexpected<ErrorCode> refuse(ErrorCode code) noexcept {
  return tl::make_unexpected(code);
}

// No loop ends early, so that the compiler can vectorize it. The caller has bounded the number of
// sizes, so the sum does not overflow.
inline bool sizes_add_up(Column<uint16_t> sizes, size_t bytes) noexcept {
  static_assert(uint64_t{limits::frame_entries_max} * UINT16_MAX <= UINT32_MAX);
  static_assert(uint64_t{limits::quota_calls_max} * limits::call_subjects_max * UINT16_MAX <=
                UINT32_MAX);
  uint32_t sum = 0;
  for (const uint16_t size : sizes) sum += size;
  return sum == bytes;
}

template <typename Request>
Checked check_count(size_t entries_count) noexcept {
  if (entries_count > Layout<Request>::entries_max) return refuse(ErrorCode::too_many_entries);
  return {};
}

template <typename Request>
Checked check_keys(std::string_view keys, Column<uint16_t> sizes) noexcept {
  if (const Checked checked = check_count<Request>(sizes.size()); !checked) return checked;
  if (!sizes_add_up(sizes, keys.size())) return refuse(ErrorCode::bad_columns);
  return {};
}

template <typename T>
bool absent_or_as_long(Column<T> column, size_t entries_count) noexcept {
  return column.empty() || column.size() == entries_count;
}

// ------------------------------------------------------------------------------- by the table

template <typename Row>
concept EntryColumn = requires(const Row& row) {
  row.are_valid;
};

template <typename Request, size_t index>
consteval ErrorCode fault_of_row() {
  using Row = std::tuple_element_t<index, std::decay_t<decltype(Layout<Request>::columns)>>;
  if constexpr (EntryColumn<Row>) return std::get<index>(Layout<Request>::columns).fault;
  return ErrorCode::none;
}

// Whether no earlier row has the row's error code.
template <typename Request, size_t index>
consteval bool is_first_with_fault() {
  return [&]<size_t... earlier>(std::index_sequence<earlier...>) {
    return ((fault_of_row<Request, earlier>() != fault_of_row<Request, index>()) && ...);
  }
  (std::make_index_sequence<index>{});
}

// Whether all columns with this error code have the right length.
template <typename Request>
bool right_lengths(const Request& request, ErrorCode fault, size_t entries_count) noexcept {
  bool right = true;
  each_row(Layout<Request>::columns, [&]<typename Row>(auto, const Row& row) {
    if constexpr (EntryColumn<Row>) {
      if (row.fault == fault) right &= absent_or_as_long(request.*row.member, entries_count);
    }
  });
  return right;
}

// Where several columns share an error code, the lengths of all are checked before their values.
template <typename Request>
Checked check_columns(const Request& request, size_t entries_count) noexcept {
  ErrorCode found = ErrorCode::none;
  each_row(Layout<Request>::columns,
           [&]<size_t index, typename Row>(std::integral_constant<size_t, index>, const Row& row) {
             if constexpr (EntryColumn<Row>) {
               constexpr bool is_first = is_first_with_fault<Request, index>();
               if (found != ErrorCode::none) return;
               if (is_first && !right_lengths(request, row.fault, entries_count)) {
                 found = ErrorCode::bad_columns;
               } else if (!row.are_valid(request.*row.member)) {
                 found = row.fault;
               }
             }
           });
  if (found != ErrorCode::none) return refuse(found);
  return {};
}

template <typename Request>
Checked check_fields(const Request& request) noexcept {
  ErrorCode found = ErrorCode::none;
  each_row(Layout<Request>::fields, [&](auto, const auto& field) {
    if (found == ErrorCode::none && !field.is_valid(request.*field.member)) found = field.fault;
  });
  if (found != ErrorCode::none) return refuse(found);
  return {};
}

// --------------------------------------------------------------------------------- whole frames

// In capnp_codec_decode.cpp.
Checked check_request(const HelloRequest& request) noexcept;
Checked check_request(const AcquireRequest& request) noexcept;
Checked check_request(const AcquireByHandleRequest& request) noexcept;
Checked check_request(const ReleaseRequest& request) noexcept;
Checked check_request(const WithdrawRequest& request) noexcept;
Checked check_request(const InspectRequest& request) noexcept;
Checked check_request(const InternRequest& request) noexcept;
Checked check_request(const ForgetRequest& request) noexcept;
Checked check_request(const ForwardRequest& request) noexcept;
Checked check_request(const RefundRequest& request) noexcept;
Checked check_request(const ForwardQuotaRequest& request) noexcept;

// In capnp_codec_quota_decode.cpp.
Checked check_request(const ReserveRequest& request) noexcept;  // also for CheckRequest
Checked check_request(const SettleRequest& request) noexcept;
Checked check_request(const CancelRequest& request) noexcept;
Checked check_request(const ExtendRequest& request) noexcept;
Checked check_request(const RecordRequest& request) noexcept;
Checked check_request(const ConsumeRequest& request) noexcept;
Checked check_request(const UsageRequest& request) noexcept;
Checked check_request(const ResetRequest& request) noexcept;
// Reads the quota with the library, so it may throw.
Checked check_request(const QuotaChangeRequest& request, schema::QuotaChange::Reader change);

}  // namespace sluice::wire
