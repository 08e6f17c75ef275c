// The encoding half of capnp_codec_quota.hpp, like capnp_codec_encode.cpp. The encoder walks over
// the limits once for each column, in the order of the entries, without copying them: they lie in
// the order in which the shards reported them.
#include <sluicegate.capnp.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/answer_frame.hpp"
#include "wire/answer_layout.hpp"
#include "wire/capnp_codec_quota.hpp"
#include "wire/frame_writer.hpp"

namespace sluice::wire {
namespace {

using api::LimitReport;
using api::QuotaAnswer;
using api::QuotaBatch;
using api::SubjectRow;

// Byte offsets into a struct's data (`capnp compile -ocapnp`); pointers by answer_layout.hpp.
namespace answers_at {
constexpr size_t count = 0;
constexpr size_t codes = pointer_of(quota_answers_rows, "codes"),
                 reservations = pointer_of(quota_answers_rows, "reservations"),
                 retry_after_ms = pointer_of(quota_answers_rows, "retryAfterMs"),
                 limits = pointer_of(quota_answers_rows, "limits"),
                 detail = pointer_of(quota_answers_rows, "detail");
}  // namespace answers_at
namespace states_at {
constexpr size_t left_out = 0;
constexpr size_t names = pointer_of(limit_states_rows, "names");
}  // namespace states_at
namespace usage_at {
constexpr size_t cursor = 0;
constexpr size_t names = pointer_of(usage_rows, "names"), quotas = pointer_of(usage_rows, "quotas"),
                 limits = pointer_of(usage_rows, "limits");
}  // namespace usage_at
namespace quota_at {
constexpr size_t refund_expired = 0, overtakers_max = 4, limits = 0, profile = 1;
}
namespace limit_at {
constexpr size_t metric = 0, kind = 2, ceiling = 4, unit = 6, amount = 8, period_ms = 16,
                 count_cached = 24, name = 0, time_zone = 1;
}

constexpr size_t states_columns = shape_of<schema::LimitStates>.pointers;
// The size of one limit in all columns without its name.
constexpr size_t state_bytes = [] {
  size_t bytes = 0;
  each_column(limit_states_rows, [&]<typename Column>(size_t, const Column&) {
    bytes += sizeof(typename Column::Number);
  });
  return bytes;
}();
constexpr size_t states_head_bytes =
    shape_of<schema::LimitStates>.bytes() + states_columns * word_bytes;

// ------------------------------------------------------------------------------- limit states

// A walk calls its argument with each limit that the reply contains, and with its entry's index.
template <typename Column, typename Walk>
void add_state_column(FrameWriter& writer, FrameWriter::Struct states, size_t pointer, size_t count,
                      const Column& column, const Walk& walk) noexcept {
  using Number = typename Column::Number;
  std::byte* next = writer.add_list<Number>(states, pointer, count);
  walk([&](uint32_t entry, const LimitReport& report) {
    Number value;
    if constexpr (std::is_invocable_v<decltype(column.value), const LimitReport&>) {
      value = static_cast<Number>(std::invoke(column.value, report));
    } else {
      value = column.value(entry, report);
    }
    std::memcpy(next, &value, sizeof(value));
    next += sizeof(value);
  });
}

template <typename Walk>
void add_state_names(FrameWriter& writer, FrameWriter::Struct states, const Walk& walk) noexcept {
  size_t bytes = 0;
  walk([&](uint32_t, const LimitReport& report) { bytes += report.name_bytes; });
  std::byte* next = writer.add_list<char>(states, states_at::names, bytes);
  if (next == nullptr) return;
  walk([&](uint32_t, const LimitReport& report) {
    std::memcpy(next, report.name, report.name_bytes);
    next += report.name_bytes;
  });
}

template <typename Walk>
void add_limit_states(FrameWriter& writer, FrameWriter::Struct parent, size_t pointer,
                      uint32_t left_out, const Walk& walk) noexcept {
  size_t count = 0;
  walk([&](uint32_t, const LimitReport&) { ++count; });
  if (count == 0 && left_out == 0) return;
  const auto states = writer.add_struct(parent, pointer, shape_of<schema::LimitStates>);
  writer.set(states, states_at::left_out, left_out);
  each_row(limit_states_rows, [&]<typename Row>(size_t column, const Row& row) {
    if constexpr (NumberColumn<Row>) {
      add_state_column(writer, states, column, count, row, walk);
    } else {
      add_state_names(writer, states, walk);
    }
  });
}

// ------------------------------------------------------------------------------ quota answers

// A byte for each code, or one byte when all are equal.
void add_codes(FrameWriter& writer, FrameWriter::Struct body,
               std::span<const QuotaAnswer> answers) noexcept {
  if (answers.empty()) return;
  const auto agrees = [&](const QuotaAnswer& answer) { return answer.code == answers[0].code; };
  const bool all_agree = std::all_of(answers.begin(), answers.end(), agrees);
  writer.add_column<uint8_t>(body, answers_at::codes, all_agree ? answers.first(1) : answers,
                             &QuotaAnswer::code);
}

// A column of zeros is left out.
template <size_t pointer>
void add_unless_zero(FrameWriter& writer, FrameWriter::Struct body,
                     std::span<const QuotaAnswer> answers) noexcept {
  constexpr auto& column = std::get<pointer>(quota_answers_rows);
  typename std::decay_t<decltype(column)>::Number any = 0;
  for (const QuotaAnswer& answer : answers) any |= answer.*column.value;
  if (any != 0) add_column(writer, body, pointer, column, answers);
}

void add_answer_limits(FrameWriter& writer, FrameWriter::Struct body,
                       std::span<const QuotaAnswer> answers,
                       std::span<const LimitReport> limits) noexcept {
  uint32_t left_out = 0;
  for (const QuotaAnswer& answer : answers) left_out += answer.limits_left_out ? 1 : 0;
  const auto walk = [&](auto take) {
    for (uint32_t entry = 0; entry < answers.size(); ++entry) {
      const QuotaAnswer& answer = answers[entry];
      for (const LimitReport& limit : limits.subspan(answer.first_limit, answer.limits_count)) {
        take(entry, limit);
      }
    }
  };
  add_limit_states(writer, body, answers_at::limits, left_out, walk);
}

// -------------------------------------------------------------------------------------- usage

// Visits all rows, in the order of the answers.
template <typename Take>
void each_subject(const QuotaBatch& batch, Take take) noexcept {
  uint32_t index = 0;
  for (const QuotaAnswer& answer : batch.answers) {
    const auto rows = std::span(batch.rows).subspan(answer.first_row, answer.rows_count);
    for (const SubjectRow& row : rows) take(index++, row);
  }
}

bool has_quota(const SubjectRow& row) noexcept {
  return row.source != api::QuotaSource::none;
}

size_t text_bytes(std::string_view text) noexcept {
  return text.empty() ? 0 : list_bytes(text.size() + 1, 1);
}

// The size of the row's quota and limits.
size_t quota_bytes(const QuotaBatch& batch, const SubjectRow& row) noexcept {
  if (!has_quota(row)) return 0;
  const api::Quota& quota = batch.quotas[row.quota];
  size_t bytes = word_bytes + text_bytes(quota.profile);  // the list's tag
  for (const api::Limit& limit : quota.limits) {
    bytes += shape_of<schema::Limit>.bytes() + text_bytes(limit.name) + text_bytes(limit.time_zone);
  }
  return bytes + list_bytes(row.limits_count, state_bytes + limits::limit_name_bytes_max);
}

// The number of rows with quota and limits, which come first, and the size of the reply.
struct UsageExtent {
  uint32_t rows_count = 0;
  uint32_t whole_rows = 0;
  uint32_t left_out = 0;
  size_t names_bytes = 0;
  size_t bytes = 0;

  explicit UsageExtent(const QuotaBatch& batch) noexcept {
    each_subject(batch, [&](uint32_t, const SubjectRow& row) {
      ++rows_count;
      names_bytes += row.name_bytes;
    });
    ASSERT(names_bytes <= usage_names_bytes_max);
    bytes = frame_head_bytes + shape_of<schema::UsageReply>.bytes() + states_head_bytes +
            list_bytes(names_bytes, 1) + columns_bytes(usage_rows, rows_count) + word_bytes +
            rows_count * shape_of<schema::Quota>.bytes();
    each_subject(batch, [&](uint32_t index, const SubjectRow& row) {
      const size_t more = quota_bytes(batch, row);
      const bool fits = whole_rows == index && bytes + more <= limits::reply_bytes_max;
      if (fits) {
        ++whole_rows;
        bytes += more;
      }
      const bool whole =
          !has_quota(row) || (fits && row.limits_count == batch.quotas[row.quota].limits.size());
      left_out += whole ? 0 : 1;
    });
    ASSERT(bytes <= limits::reply_bytes_max);
  }
};

void add_row_names(FrameWriter& writer, FrameWriter::Struct body, const QuotaBatch& batch,
                   size_t bytes) noexcept {
  std::byte* next = writer.add_list<char>(body, usage_at::names, bytes);
  if (next == nullptr) return;
  each_subject(batch, [&](uint32_t, const SubjectRow& row) {
    const std::string_view name = batch.name_of(row);
    std::memcpy(next, name.data(), name.size());
    next += name.size();
  });
}

template <typename Column>
void add_row_column(FrameWriter& writer, FrameWriter::Struct body, size_t pointer,
                    const QuotaBatch& batch, size_t count, const Column& column) noexcept {
  using Number = typename Column::Number;
  std::byte* next = writer.add_list<Number>(body, pointer, count);
  each_subject(batch, [&](uint32_t, const SubjectRow& row) {
    const Number value = static_cast<Number>(row.*column.value);
    std::memcpy(next, &value, sizeof(value));
    next += sizeof(value);
  });
}

void fill_limit(FrameWriter& writer, FrameWriter::Struct limit, const api::Limit& given) noexcept {
  namespace at = limit_at;
  writer.set(limit, at::metric, static_cast<uint16_t>(given.metric));
  writer.set(limit, at::kind, static_cast<uint16_t>(given.kind));
  writer.set(limit, at::ceiling, static_cast<uint16_t>(given.ceiling));
  writer.set(limit, at::unit, static_cast<uint16_t>(given.unit));
  writer.set(limit, at::amount, given.amount);
  writer.set(limit, at::period_ms, static_cast<uint64_t>(given.period_ms));
  writer.set(limit, at::count_cached, static_cast<uint8_t>(given.count_cached));
  writer.add_text(limit, at::name, given.name);
  writer.add_text(limit, at::time_zone, given.time_zone);
}

void fill_quota(FrameWriter& writer, FrameWriter::Struct quota, const api::Quota& given) noexcept {
  namespace at = quota_at;
  writer.set(quota, at::refund_expired, static_cast<uint8_t>(given.refund_expired));
  writer.set(quota, at::overtakers_max, given.overtakers_max);
  const auto limits =
      writer.add_structs(quota, at::limits, given.limits.size(), shape_of<schema::Limit>);
  for (size_t index = 0; index < given.limits.size(); ++index) {
    fill_limit(writer, limits[index], given.limits[index]);
  }
  writer.add_text(quota, at::profile, given.profile);
}

void add_quotas(FrameWriter& writer, FrameWriter::Struct body, const QuotaBatch& batch,
                const UsageExtent& extent) noexcept {
  const auto quotas =
      writer.add_structs(body, usage_at::quotas, extent.rows_count, shape_of<schema::Quota>);
  each_subject(batch, [&](uint32_t index, const SubjectRow& row) {
    if (index >= extent.whole_rows || !has_quota(row)) return;
    fill_quota(writer, quotas[index], batch.quotas[row.quota]);
  });
}

void add_row_limits(FrameWriter& writer, FrameWriter::Struct body, const QuotaBatch& batch,
                    const UsageExtent& extent) noexcept {
  const auto walk = [&](auto take) {
    each_subject(batch, [&](uint32_t index, const SubjectRow& row) {
      if (index >= extent.whole_rows) return;
      const auto limits = std::span(batch.limits).subspan(row.first_limit, row.limits_count);
      for (const LimitReport& limit : limits) take(index, limit);
    });
  };
  add_limit_states(writer, body, usage_at::limits, extent.left_out, walk);
}

}  // namespace

size_t quota_answers_bytes_max(size_t entries_count, QuotaColumns columns,
                               size_t limits_count_max) noexcept {
  const size_t numbers = (columns.reservations ? 1 : 0) + (columns.retries ? 1 : 0);
  const size_t limits_bytes =
      states_head_bytes + list_bytes(limits_count_max, state_bytes + limits::limit_name_bytes_max);
  return frame_head_bytes + shape_of<schema::QuotaAnswers>.bytes() + list_bytes(entries_count, 1) +
         numbers * list_bytes(entries_count, sizeof(uint64_t)) +
         (columns.limits ? limits_bytes : 0);
}

size_t encode_quota_answers(uint64_t id, std::span<const QuotaAnswer> answers,
                            std::span<const LimitReport> limits, QuotaColumns columns,
                            std::span<std::byte> out) noexcept {
  FrameWriter writer(out);
  const auto body = add_body<schema::QuotaAnswers>(writer, id, Kind::QUOTA_ANSWERS);
  writer.set(body, answers_at::count, static_cast<uint32_t>(answers.size()));
  add_codes(writer, body, answers);
  if (columns.reservations) {
    add_unless_zero<answers_at::reservations>(writer, body, answers);
  }
  if (columns.retries) {
    add_unless_zero<answers_at::retry_after_ms>(writer, body, answers);
  }
  if (columns.limits) add_answer_limits(writer, body, answers, limits);
  return writer.finish();
}

size_t invalid_quota_bytes_max(std::string_view detail) noexcept {
  return quota_answers_bytes_max(1, {}, 0) + text_bytes(detail);
}

size_t encode_invalid_quota(uint64_t id, std::string_view detail,
                            std::span<std::byte> out) noexcept {
  constexpr QuotaAnswer answer{.code = api::QuotaCode::invalid_quota};
  FrameWriter writer(out);
  const auto body = add_body<schema::QuotaAnswers>(writer, id, Kind::QUOTA_ANSWERS);
  writer.set(body, answers_at::count, uint32_t{1});
  add_codes(writer, body, std::span(&answer, 1));
  writer.add_text(body, answers_at::detail, detail);
  return writer.finish();
}

size_t usage_reply_bytes_max(const QuotaBatch& batch) noexcept {
  return UsageExtent(batch).bytes;
}

size_t encode_usage_reply(uint64_t id, const QuotaBatch& batch, std::span<std::byte> out) noexcept {
  const UsageExtent extent(batch);
  const size_t count = extent.rows_count;
  FrameWriter writer(out);
  const auto body = add_body<schema::UsageReply>(writer, id, Kind::USAGE_REPLY);
  // A page has one answer; a request by names has no next page.
  const uint64_t cursor = batch.answers.empty() ? 0 : batch.answers.back().next_cursor;
  writer.set(body, usage_at::cursor, cursor);
  add_row_names(writer, body, batch, extent.names_bytes);
  each_column(usage_rows, [&](size_t pointer, const auto& column) {
    add_row_column(writer, body, pointer, batch, count, column);
  });
  add_quotas(writer, body, batch, extent);
  add_row_limits(writer, body, batch, extent);
  return writer.finish();
}

}  // namespace sluice::wire
