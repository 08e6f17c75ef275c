#include "quota_frames.hpp"

namespace sluice::simulation {
namespace {

// The subjects of all entries, one behind the other.
template <typename Columns>
void fill_subjects(Columns columns, const std::vector<ReserveEntry>& entries) {
  std::string joined;
  std::vector<uint16_t> sizes;
  auto counts = columns.initSubjectCounts(static_cast<uint32_t>(entries.size()));
  for (uint32_t i = 0; i < entries.size(); ++i) {
    counts.set(i, static_cast<uint8_t>(entries[i].subjects.size()));
    for (const std::string& subject : entries[i].subjects) {
      joined += subject;
      sizes.push_back(static_cast<uint16_t>(subject.size()));
    }
  }
  columns.setSubjects(data_of(joined));
  fill_numbers(columns.initSubjectSizes(static_cast<uint32_t>(sizes.size())), sizes);
}

template <typename List, typename Value>
void fill_column(List list, const std::vector<ReserveEntry>& entries, Value value) {
  for (uint32_t i = 0; i < entries.size(); ++i) list.set(i, value(entries[i]));
}

uint32_t requests_of(const ReserveEntry& entry) {
  return static_cast<uint32_t>(entry.amounts.requests);
}

template <typename Builder>
void fill_ids(Builder to, const std::vector<ReserveEntry>& entries) {
  std::string ids;
  for (const ReserveEntry& entry : entries) ids += entry.client_id;
  if (ids.empty()) return;
  to.setIds(data_of(ids));
  fill_column(
      to.initIdSizes(static_cast<uint32_t>(entries.size())), entries,
      [](const ReserveEntry& entry) { return static_cast<uint16_t>(entry.client_id.size()); });
}

void fill_reserve(schema::Reserve::Builder reserve, const ReserveFrame& asked) {
  const auto count = static_cast<uint32_t>(asked.entries.size());
  reserve.setFlags(asked.flags);
  reserve.setWaitLimitMs(asked.wait_limit_ms);
  reserve.setLifetimeMs(asked.lifetime_ms);
  fill_subjects(reserve, asked.entries);
  fill_column(reserve.initRequests(count), asked.entries, requests_of);
  fill_column(reserve.initInputTokens(count), asked.entries,
              [](const ReserveEntry& entry) { return entry.amounts.input_tokens; });
  fill_column(reserve.initMaxOutputTokens(count), asked.entries,
              [](const ReserveEntry& entry) { return entry.amounts.output_tokens; });
  fill_ids(reserve, asked.entries);
}

// Of a Record or Consume.
template <typename Builder>
void fill_used(Builder to, const ReserveFrame& asked) {
  const auto count = static_cast<uint32_t>(asked.entries.size());
  fill_subjects(to, asked.entries);
  fill_column(to.initRequests(count), asked.entries, requests_of);
  fill_column(to.initInputTokens(count), asked.entries,
              [](const ReserveEntry& entry) { return entry.amounts.input_tokens; });
  fill_column(to.initOutputTokens(count), asked.entries,
              [](const ReserveEntry& entry) { return entry.amounts.output_tokens; });
  fill_ids(to, asked.entries);
}

}  // namespace

kj::ArrayPtr<const kj::byte> data_of(const std::string& text) {
  return {reinterpret_cast<const kj::byte*>(text.data()), text.size()};
}

void fill_reserve(schema::ClientFrame::Builder frame, const ReserveFrame& asked) {
  frame.setId(asked.id);
  fill_reserve(asked.checks ? frame.initCheck() : frame.initReserve(), asked);
}

void fill_record(schema::ClientFrame::Builder frame, const ReserveFrame& asked) {
  frame.setId(asked.id);
  fill_used(frame.initRecord(), asked);
}

void fill_consume(schema::ClientFrame::Builder frame, const ReserveFrame& asked) {
  frame.setId(asked.id);
  auto consume = frame.initConsume();
  consume.setFlags(asked.flags);
  consume.setWaitLimitMs(asked.wait_limit_ms);
  fill_used(consume, asked);
}

void fill_settle(schema::ClientFrame::Builder frame, const SettleFrame& asked) {
  frame.setId(asked.id);
  auto settle = frame.initSettle();
  const auto count = static_cast<uint32_t>(asked.settled.size());
  auto reservations = settle.initReservations(count);
  auto requests = settle.initRequests(count);
  auto input = settle.initInputTokens(count);
  auto cached = settle.initCachedInputTokens(count);
  auto output = settle.initOutputTokens(count);
  for (uint32_t i = 0; i < count; ++i) {
    const Settled& settled = asked.settled[i];
    reservations.set(i, settled.reservation);
    requests.set(i, static_cast<uint32_t>(settled.requests));
    input.set(i, settled.input_tokens);
    cached.set(i, settled.cached);
    output.set(i, settled.output_tokens);
  }
}

void fill_quota(schema::Quota::Builder quota, const api::Quota& from) {
  quota.setRefundExpired(from.refund_expired);
  quota.setOvertakersMax(from.overtakers_max);
  auto limits = quota.initLimits(static_cast<uint32_t>(from.limits.size()));
  for (uint32_t i = 0; i < from.limits.size(); ++i) {
    const api::Limit& limit = from.limits[i];
    limits[i].setName(limit.name);
    limits[i].setMetric(static_cast<schema::Metric>(limit.metric));
    limits[i].setKind(static_cast<schema::LimitKind>(limit.kind));
    limits[i].setCeiling(static_cast<schema::Ceiling>(limit.ceiling));
    limits[i].setAmount(limit.amount);
    limits[i].setPeriodMs(static_cast<uint64_t>(limit.period_ms));
  }
}

void fill_names(schema::Usage::Builder usage, const std::vector<std::string>& subjects) {
  std::string joined;
  for (const std::string& subject : subjects) joined += subject;
  usage.setSubjects(data_of(joined));
  auto sizes = usage.initSubjectSizes(static_cast<uint32_t>(subjects.size()));
  for (uint32_t i = 0; i < subjects.size(); ++i) {
    sizes.set(i, static_cast<uint16_t>(subjects[i].size()));
  }
}

}  // namespace sluice::simulation
