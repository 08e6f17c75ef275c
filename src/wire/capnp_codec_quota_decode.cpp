// The decoding half of capnp_codec_quota.hpp, like capnp_codec_decode.cpp: the library traverses a
// frame that standard_frame.hpp does not recognise, then loops of ours check the raw numbers.
#include <algorithm>

#include "base/limits.hpp"
#include "policy/quota_text.hpp"
#include "wire/column_reader.hpp"
#include "wire/frame_message.hpp"
#include "wire/request_checks.hpp"

namespace sluice::wire {
namespace {

// ---------------------------------------------------------------------------- checking columns
// No loop ends early, so that the compiler can vectorize it.

Checked check_subjects(const EntrySubjects& entries) noexcept {
  static_assert(Layout<RecordRequest>::entries_max == Layout<ReserveRequest>::entries_max);
  const Checked checked = check_count<ReserveRequest>(entries.entries_count());
  if (!checked) return checked;
  constexpr auto min = static_cast<uint32_t>(subject_counts_bounds.min);
  constexpr auto max = static_cast<uint32_t>(subject_counts_bounds.max);
  uint32_t sum = 0;
  uint32_t wrong = 0;
  for (const uint8_t count : entries.subject_counts) {
    sum += count;
    wrong |= static_cast<uint32_t>(count) - min > max - min;
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

// Cached tokens are a part of the input; `if_unset`: the input of an entry that gives none.
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

// For entries that give input tokens; of the others the bound is not known here.
Checked check_cached(const EntryAmounts& amounts) noexcept {
  if (!amounts.input_tokens.empty() &&
      !cached_within(amounts.cached_input_tokens, amounts.input_tokens, unset)) {
    return refuse(ErrorCode::bad_amount);
  }
  return {};
}

// A Record or Consume that gives no input tokens has none, and so no cached ones.
Checked check_used_cached(const EntryAmounts& amounts) noexcept {
  const Column<uint64_t> cached = amounts.cached_input_tokens;
  const Column<uint64_t> input = amounts.input_tokens;
  if (input.empty() ? none_given(cached) : cached_within(cached, input, 0)) return {};
  return refuse(ErrorCode::bad_amount);
}

Checked check_label(size_t bytes) noexcept {
  if (bytes > label_bytes_bounds.max) return refuse(ErrorCode::bad_subject);
  return {};
}

Checked check_ids(const EntryIds& entries, size_t entries_count) noexcept {
  if (!absent_or_as_long(entries.id_sizes, entries_count) ||
      !sizes_add_up(entries.id_sizes, entries.ids.size())) {
    return refuse(ErrorCode::bad_columns);
  }
  uint16_t longest = 0;
  for (const uint16_t size : entries.id_sizes) longest = std::max(longest, size);
  return check_label(longest);
}

// Of a Record or Consume.
template <typename Request>
Checked check_used(const Request& request) noexcept {
  return check_subjects(request)
      .and_then([&] { return check_columns(request, request.entries_count()); })
      .and_then([&] { return check_used_cached(request); })
      .and_then([&] { return check_ids(request, request.entries_count()); })
      .and_then([&] { return check_fields(request); });
}

// ----------------------------------------------------------------------------------- a quota

// The field whose enumerator this version does not know, because the client is newer; or none.
std::string_view unknown_field(schema::Limit::Reader limit) {
  if (static_cast<uint32_t>(limit.getMetric()) >= api::metrics_count) return "metric";
  if (static_cast<uint32_t>(limit.getKind()) >= api::limit_kinds_count) return "kind";
  if (limit.getCeiling() > schema::Ceiling::BLOCK) return "ceiling";
  return limit.getUnit() > schema::CalendarUnit::MONTH ? "unit" : "";
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

// As many as fit, at least the first; one has a name of a limit and a few words.
std::string joined_complaints(const std::vector<std::string>& complaints) {
  std::string joined = complaints.front().substr(0, invalid_detail_bytes_max);
  for (size_t i = 1; i < complaints.size(); ++i) {
    const std::string rest = "; and " + std::to_string(complaints.size() - i) + " more";
    if (joined.size() + 2 + complaints[i].size() + rest.size() > invalid_detail_bytes_max) {
      return joined + rest;
    }
    joined += "; " + complaints[i];
  }
  return joined;
}

// Reads everything that quota_of() will read, so that quota_of() does not throw. What can be read
// but is outside the rules is left to quota_of(), which names the field.
void read_quota_fields(schema::Quota::Reader quota) {
  const auto given = quota.getLimits();
  if (given.size() > limits::quota_limits_max) return;
  for (const auto limit : given) {
    limit.getName();
    limit.getTimeZone();
  }
}

}  // namespace

Checked check_request(const ReserveRequest& request) noexcept {
  return check_subjects(request)
      .and_then([&] { return check_columns(request, request.entries_count()); })
      .and_then([&] { return check_ids(request, request.entries_count()); })
      .and_then([&] { return check_label(request.owner.size()); })
      .and_then([&] { return check_fields(request); });
}

Checked check_request(const SettleRequest& request) noexcept {
  const size_t count = request.reservations.size();
  return check_count<SettleRequest>(count)
      .and_then([&] { return check_columns(request, count); })
      .and_then([&] { return check_cached(request); })
      .and_then([&] { return check_fields(request); });
}

Checked check_request(const CancelRequest& request) noexcept {
  return check_count<CancelRequest>(request.reservations.size()).and_then([&] {
    return check_fields(request);
  });
}

Checked check_request(const ExtendRequest& request) noexcept {
  return check_count<ExtendRequest>(request.reservations.size()).and_then([&] {
    return check_fields(request);
  });
}

Checked check_request(const RecordRequest& request) noexcept {
  return check_used(request);
}

Checked check_request(const ConsumeRequest& request) noexcept {
  return check_used(request);
}

Checked check_request(const UsageRequest& request) noexcept {
  return check_keys<UsageRequest>(request.subjects, request.subject_sizes);
}

Checked check_request(const QuotaChangeRequest& request, schema::QuotaChange::Reader change) {
  if (request.subject.empty()) return refuse(ErrorCode::bad_subject);
  if (!request.remove) read_quota_fields(change.getQuota());
  return {};
}

Checked check_request(const ResetRequest& request) noexcept {
  if (request.subject.empty() != request.all) return refuse(ErrorCode::bad_subject);
  return {};
}

tl::expected<api::Quota, std::string> quota_of(const QuotaChangeRequest& request) {
  FrameMessage message(request.frame);
  const schema::Quota::Reader given = message.root<schema::ClientFrame>().getQuota().getQuota();
  if (const size_t count = given.getLimits().size(); count > limits::quota_limits_max) {
    return tl::unexpected(policy::limits_complaint(count));
  }
  api::Quota quota{.refund_expired = given.getRefundExpired(),
                   .overtakers_max = given.getOvertakersMax()};
  for (const auto limit : given.getLimits()) {
    if (const std::string_view field = unknown_field(limit); !field.empty()) {
      return tl::unexpected(policy::limit_place(quota.limits.size(), view(limit.getName())) + ", " +
                            std::string(field) + ": is unknown to this server");
    }
    quota.limits.push_back(limit_of(limit));
  }
  const std::vector<std::string> complaints = policy::check_quota(quota);
  if (complaints.empty()) return quota;
  return tl::unexpected(joined_complaints(complaints));
}

}  // namespace sluice::wire
