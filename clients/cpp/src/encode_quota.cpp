// Encodes requests about quotas. Frequent requests are laid out in place, as in encode.cpp; the
// library builds the rare ones that have structs in lists.
#include <capnp/serialize.h>

#include "encode_columns.hpp"
#include "sluicegate/frames.hpp"

namespace sluicegate {
namespace {

// Byte offsets into a struct's data, and indexes of its pointers.
constexpr size_t flags_at = 0;
constexpr size_t counts_at = 2;        // behind the subjects and their sizes
constexpr size_t reservations_at = 0;  // of every struct that has them
namespace reserve_at {
constexpr size_t wait_limit_ms = 4, lifetime_ms = 8;
constexpr size_t requests = 3, input_tokens = 4, max_output_tokens = 5, costs = 6, ids = 7,
                 id_sizes = 8, owner = 9;
}  // namespace reserve_at
namespace settle_at {
constexpr size_t requests = 1, input_tokens = 2, cached_input_tokens = 3, output_tokens = 4,
                 costs = 5;
}
namespace record_at {
constexpr size_t requests = 3, input_tokens = 4, cached_input_tokens = 5, output_tokens = 6,
                 costs = 7, ids = 8;
}
namespace consume_at {
constexpr size_t wait_limit_ms = 4;  // the rest as in a Record
}
namespace extend_at {
constexpr size_t lifetime_ms = 4;
}
namespace usage_at {
constexpr size_t cursor = 0, limit = 8;
}

template <typename T>
size_t column_words(std::span<const T> column, size_t entries_count, const char* name) {
  require_column(column.size(), entries_count, name);
  return list_words<T>(column.size());
}

template <typename Request>
size_t entries_of(const Request& request) {
  return request.subject_counts.empty() ? request.subjects.size() : request.subject_counts.size();
}

template <typename Request>
size_t subjects_words(const Request& request, size_t subject_bytes) {
  size_t sum = 0;
  for (const uint8_t count : request.subject_counts) sum += count;
  if (!request.subject_counts.empty() && sum != request.subjects.size()) {
    throw LimitExceeded("the entries have " + std::to_string(sum) + " subjects, not " +
                        std::to_string(request.subjects.size()));
  }
  return keys_words(subject_bytes, request.subjects.size()) +
         list_words<uint8_t>(request.subject_counts.size());
}

template <typename Request>
void add_subjects(FrameLayout& frame, const Request& request, size_t subject_bytes) {
  add_keys(frame, request.subjects, subject_bytes);
  add_column(frame, counts_at, request.subject_counts);
}

size_t ids_words(std::span<const std::string_view> ids, size_t bytes) {
  return list_words<char>(bytes) + list_words<uint16_t>(ids.size());
}

void encode_reserve(FrameKind kind, uint64_t id, const Reserve& request,
                    std::vector<uint64_t>& out) {
  const size_t count = entries_of(request);
  const size_t subject_bytes = key_bytes_sum(request.subjects);
  const size_t id_bytes = key_bytes_sum(request.ids);
  const size_t owner_words = request.owner.empty() ? 0 : list_words<char>(request.owner.size() + 1);
  require_column(request.ids.size(), count, "ids");
  auto frame = begin_frame<schema::Reserve>(
      out, id, kind,
      subjects_words(request, subject_bytes) + column_words(request.requests, count, "requests") +
          column_words(request.input_tokens, count, "input_tokens") +
          column_words(request.max_output_tokens, count, "max_output_tokens") +
          column_words(request.costs, count, "costs") + ids_words(request.ids, id_bytes) +
          owner_words);
  frame.set<uint8_t>(flags_at, request.flags);
  frame.set<uint32_t>(reserve_at::wait_limit_ms, request.wait_limit_ms);
  frame.set<uint32_t>(reserve_at::lifetime_ms, request.lifetime_ms);
  add_subjects(frame, request, subject_bytes);
  add_column(frame, reserve_at::requests, request.requests);
  add_column(frame, reserve_at::input_tokens, request.input_tokens);
  add_column(frame, reserve_at::max_output_tokens, request.max_output_tokens);
  add_column(frame, reserve_at::costs, request.costs);
  if (!request.ids.empty()) add_texts(frame, reserve_at::ids, request.ids, id_bytes);
  if (request.owner.empty()) return;
  char* owner = frame.add_list<char>(reserve_at::owner, request.owner.size() + 1);  // and its NUL
  std::copy(request.owner.begin(), request.owner.end(), owner);
}

// A Record or Consume.
template <typename Struct>
auto encode_used(FrameKind kind, uint64_t id, const Record& record, std::vector<uint64_t>& out) {
  const size_t count = entries_of(record);
  const size_t subject_bytes = key_bytes_sum(record.subjects);
  const size_t id_bytes = key_bytes_sum(record.ids);
  require_column(record.ids.size(), count, "ids");
  auto frame = begin_frame<Struct>(
      out, id, kind,
      subjects_words(record, subject_bytes) + column_words(record.requests, count, "requests") +
          column_words(record.input_tokens, count, "input_tokens") +
          column_words(record.cached_input_tokens, count, "cached_input_tokens") +
          column_words(record.output_tokens, count, "output_tokens") +
          column_words(record.costs, count, "costs") + ids_words(record.ids, id_bytes));
  frame.template set<uint8_t>(flags_at, record.flags);
  add_subjects(frame, record, subject_bytes);
  add_column(frame, record_at::requests, record.requests);
  add_column(frame, record_at::input_tokens, record.input_tokens);
  add_column(frame, record_at::cached_input_tokens, record.cached_input_tokens);
  add_column(frame, record_at::output_tokens, record.output_tokens);
  add_column(frame, record_at::costs, record.costs);
  if (!record.ids.empty()) add_texts(frame, record_at::ids, record.ids, id_bytes);
  return frame;
}

// Builds a frame with the library, and appends it to the output.
template <typename Fill>
void build(uint64_t id, std::vector<uint64_t>& out, Fill fill) {
  capnp::MallocMessageBuilder message;
  auto frame = message.initRoot<schema::ClientFrame>();
  frame.setId(id);
  fill(frame);
  const auto words = capnp::messageToFlatArray(message);
  const auto* begin = reinterpret_cast<const uint64_t*>(words.begin());
  out.insert(out.end(), begin, begin + words.size());
}

capnp::Data::Reader data(std::string_view text) {
  return {reinterpret_cast<const capnp::byte*>(text.data()), text.size()};
}

// A limit of concurrency whose kind was left at its default has no kind, as in REST.
LimitKind kind_of(const Limit& limit) noexcept {
  const bool has_no_kind = limit.metric == Metric::concurrency &&
                           limit.kind == LimitKind::sliding && limit.period_ms == 0;
  return has_no_kind ? LimitKind::concurrency : limit.kind;
}

void fill(schema::Limit::Builder to, const Limit& limit) {
  to.setName(limit.name);
  to.setMetric(static_cast<schema::Metric>(limit.metric));
  to.setKind(static_cast<schema::LimitKind>(kind_of(limit)));
  to.setCeiling(static_cast<schema::Ceiling>(limit.ceiling));
  to.setUnit(static_cast<schema::CalendarUnit>(limit.unit));
  to.setAmount(limit.amount);
  to.setPeriodMs(limit.period_ms);
  if (!limit.time_zone.empty()) to.setTimeZone(limit.time_zone);
  to.setCountCached(limit.count_cached);
}

}  // namespace

void encode(uint64_t id, const Reserve& reserve, std::vector<uint64_t>& out) {
  encode_reserve(FrameKind::RESERVE, id, reserve, out);
}

void encode(uint64_t id, const Check& check, std::vector<uint64_t>& out) {
  encode_reserve(FrameKind::CHECK, id, check.reserve, out);
}

void encode(uint64_t id, const Settle& settle, std::vector<uint64_t>& out) {
  const size_t count = settle.reservations.size();
  auto frame = begin_frame<schema::Settle>(
      out, id, FrameKind::SETTLE,
      list_words<uint64_t>(count) + column_words(settle.requests, count, "requests") +
          column_words(settle.input_tokens, count, "input_tokens") +
          column_words(settle.cached_input_tokens, count, "cached_input_tokens") +
          column_words(settle.output_tokens, count, "output_tokens") +
          column_words(settle.costs, count, "costs"));
  add_column(frame, reservations_at, settle.reservations);
  add_column(frame, settle_at::requests, settle.requests);
  add_column(frame, settle_at::input_tokens, settle.input_tokens);
  add_column(frame, settle_at::cached_input_tokens, settle.cached_input_tokens);
  add_column(frame, settle_at::output_tokens, settle.output_tokens);
  add_column(frame, settle_at::costs, settle.costs);
}

void encode(uint64_t id, const Cancel& cancel, std::vector<uint64_t>& out) {
  auto frame = begin_frame<schema::Cancel>(out, id, FrameKind::CANCEL,
                                           list_words<uint64_t>(cancel.reservations.size()));
  frame.set<uint8_t>(flags_at, cancel.flags);
  add_column(frame, reservations_at, cancel.reservations);
}

void encode(uint64_t id, const Extend& extend, std::vector<uint64_t>& out) {
  auto frame = begin_frame<schema::Extend>(out, id, FrameKind::EXTEND,
                                           list_words<uint64_t>(extend.reservations.size()));
  frame.set<uint32_t>(extend_at::lifetime_ms, extend.lifetime_ms);
  add_column(frame, reservations_at, extend.reservations);
}

void encode(uint64_t id, const Record& record, std::vector<uint64_t>& out) {
  encode_used<schema::Record>(FrameKind::RECORD, id, record, out);
}

void encode(uint64_t id, const Consume& consume, std::vector<uint64_t>& out) {
  auto frame = encode_used<schema::Consume>(FrameKind::CONSUME, id, consume.record, out);
  frame.set<uint32_t>(consume_at::wait_limit_ms, consume.wait_limit_ms);
}

void encode(uint64_t id, const AskUsage& usage, std::vector<uint64_t>& out) {
  const size_t subject_bytes = key_bytes_sum(usage.subjects);
  auto frame = begin_frame<schema::Usage>(out, id, FrameKind::USAGE,
                                          keys_words(subject_bytes, usage.subjects.size()));
  frame.set<uint64_t>(usage_at::cursor, usage.cursor);
  frame.set<uint32_t>(usage_at::limit, usage.limit);
  if (!usage.subjects.empty()) add_keys(frame, usage.subjects, subject_bytes);
}

void encode(uint64_t id, const PutQuota& put, std::vector<uint64_t>& out) {
  build(id, out, [&](schema::ClientFrame::Builder frame) {
    auto change = frame.initQuota();
    change.setSubject(data(put.subject));
    auto quota = change.initQuota();
    if (!put.quota.limits.empty()) {
      auto limits = quota.initLimits(static_cast<uint32_t>(put.quota.limits.size()));
      for (uint32_t i = 0; i < limits.size(); ++i) fill(limits[i], put.quota.limits[i]);
    }
    quota.setRefundExpired(put.quota.refund_expired);
    quota.setOvertakersMax(put.quota.overtakers_max);
  });
}

void encode(uint64_t id, const RemoveQuota& remove, std::vector<uint64_t>& out) {
  build(id, out, [&](schema::ClientFrame::Builder frame) {
    auto change = frame.initQuota();
    change.setSubject(data(remove.subject));
    change.setRemove(true);
  });
}

void encode(uint64_t id, const Reset& reset, std::vector<uint64_t>& out) {
  build(id, out, [&](schema::ClientFrame::Builder frame) {
    auto to = frame.initReset();
    if (!reset.subject.empty()) to.setSubject(data(reset.subject));
    to.setAll(reset.subject.empty());
  });
}

}  // namespace sluicegate
