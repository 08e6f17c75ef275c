// Decodes answers about quotas. Enumerators that only a newer server has stay numbers.
#include "decode_columns.hpp"

namespace sluicegate {
namespace {

// A column that every row of a list has.
template <typename T>
std::span<const T> full_column(typename capnp::List<T>::Reader list, size_t count) {
  const std::span<const T> elements = column<T>(list);
  if (elements.size() != count) {
    throw ProtocolError("the server sent columns of different lengths");
  }
  return elements;
}

// Reads names that lie end to end.
class Names {
 public:
  explicit Names(capnp::Data::Reader all) : rest_{all.asChars().begin(), all.size()} {}

  std::string_view next(size_t bytes) {
    if (bytes > rest_.size()) throw ProtocolError("the server sent names that do not add up");
    const std::string_view name = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return name;
  }

 private:
  std::string_view rest_;
};

std::vector<LimitState> limit_states(schema::LimitStates::Reader from) {
  const auto entries = column<uint32_t>(from.getEntries());
  const size_t count = entries.size();
  const auto subjects = full_column<uint8_t>(from.getSubjects(), count);
  const auto name_sizes = full_column<uint8_t>(from.getNameSizes(), count);
  const auto metrics = full_column<uint8_t>(from.getMetrics(), count);
  const auto kinds = full_column<uint8_t>(from.getKinds(), count);
  const auto ceilings = full_column<uint8_t>(from.getCeilings(), count);
  const auto violated = full_column<uint8_t>(from.getViolated(), count);
  const auto amounts = full_column<uint64_t>(from.getAmounts(), count);
  const auto used = full_column<uint64_t>(from.getUsed(), count);
  const auto reserved = full_column<uint64_t>(from.getReserved(), count);
  const auto remaining = full_column<uint64_t>(from.getRemaining(), count);
  const auto period_ms = full_column<uint64_t>(from.getPeriodMs(), count);
  const auto reset_ms = full_column<uint64_t>(from.getResetMs(), count);
  Names names{from.getNames()};
  std::vector<LimitState> states;
  states.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    states.push_back({.entry = entries[i],
                      .subject = subjects[i],
                      .name = std::string{names.next(name_sizes[i])},
                      .metric = static_cast<Metric>(metrics[i]),
                      .kind = static_cast<LimitKind>(kinds[i]),
                      .ceiling = static_cast<Ceiling>(ceilings[i]),
                      .violated = violated[i] != 0,
                      .amount = amounts[i],
                      .used = used[i],
                      .reserved = reserved[i],
                      .remaining = remaining[i],
                      .period_ms = period_ms[i],
                      .reset_ms = reset_ms[i]});
  }
  return states;
}

Quota quota(schema::Quota::Reader from) {
  Quota to{.limits = {},
           .refund_expired = from.getRefundExpired(),
           .overtakers_max = from.getOvertakersMax(),
           .profile = std::string{text(from.getProfile())}};
  for (const auto limit : from.getLimits()) {
    to.limits.push_back({.name = std::string{text(limit.getName())},
                         .metric = static_cast<Metric>(limit.getMetric()),
                         .kind = static_cast<LimitKind>(limit.getKind()),
                         .ceiling = static_cast<Ceiling>(limit.getCeiling()),
                         .amount = limit.getAmount(),
                         .period_ms = limit.getPeriodMs(),
                         .unit = static_cast<CalendarUnit>(limit.getUnit()),
                         .time_zone = std::string{text(limit.getTimeZone())},
                         .count_cached = limit.getCountCached()});
  }
  return to;
}

}  // namespace

QuotaAnswers quota_answers(uint64_t id, schema::QuotaAnswers::Reader from) {
  const size_t count = from.getCount();
  return {.id = id,
          .codes = code_column<QuotaCode>(from.getCodes(), count),
          .reservations = detail_column<uint64_t>(from.getReservations(), count),
          .retry_after_ms = detail_column<int64_t>(from.getRetryAfterMs(), count),
          .limits = limit_states(from.getLimits()),
          .limits_left_out = from.getLimits().getLeftOut(),
          .detail = text(from.getDetail())};
}

UsageReply usage_reply(uint64_t id, schema::UsageReply::Reader from) {
  const auto name_sizes = column<uint16_t>(from.getNameSizes());
  const size_t count = name_sizes.size();
  const auto sources = full_column<uint8_t>(from.getSources(), count);
  const auto open_reservations = full_column<uint32_t>(from.getOpenReservations(), count);
  const auto waiting = full_column<uint32_t>(from.getWaiting(), count);
  const auto quotas = from.getQuotas();
  if (quotas.size() != count) throw ProtocolError("the server sent columns of different lengths");
  Names names{from.getNames()};
  SubjectPage page;
  for (uint32_t i = 0; i < count; ++i) {
    page.subjects.push_back({.name = std::string{names.next(name_sizes[i])},
                             .source = static_cast<QuotaSource>(sources[i]),
                             .open_reservations = open_reservations[i],
                             .waiting = waiting[i],
                             .quota = quota(quotas[i]),
                             .limits = {}});
  }
  for (LimitState& limit : limit_states(from.getLimits())) {
    if (limit.entry >= count) throw ProtocolError("the server sent a limit without a subject");
    page.subjects[limit.entry].limits.push_back(std::move(limit));
  }
  page.cursor = from.getCursor();
  page.left_out = from.getLimits().getLeftOut();
  return {.id = id, .page = std::move(page)};
}

}  // namespace sluicegate
