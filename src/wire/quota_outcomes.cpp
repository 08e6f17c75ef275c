#include "wire/quota_outcomes.hpp"

#include <sluicegate.capnp.h>

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>

#include "base/limits.hpp"
#include "policy/quota_text.hpp"
#include "wire/frame_message.hpp"
#include "wire/quota_visit.hpp"

namespace sluice::wire {
namespace {

using api::QuotaAnswer;

constexpr size_t word = sizeof(uint64_t);

template <typename Struct>
constexpr size_t struct_bytes =
    (capnp::_::structSize<Struct>().data + capnp::_::structSize<Struct>().pointers) * word;

constexpr size_t list_bytes(size_t bytes) noexcept {
  return (bytes + word - 1) / word * word;
}

// Frame, root and tags of lists.
constexpr size_t head_bytes = 256;
constexpr size_t limit_bytes =
    struct_bytes<schema::ReportedLimit> + list_bytes(limits::limit_name_bytes_max);
// The JSON of a quota: at most as much for each limit, with the name of a zone.
constexpr size_t quota_limit_bytes_max = 512;
constexpr size_t quota_bytes_max =
    struct_bytes<schema::ReportedQuota> + limits::quota_limits_max * quota_limit_bytes_max;
constexpr size_t holder_bytes = struct_bytes<schema::ReportedHolder> +
                                list_bytes(2 * sizeof(uint32_t) * limits::call_subjects_max);

constexpr size_t row_bytes_max = struct_bytes<schema::ReportedSubject> + quota_bytes_max;
// The text of a reservation's row: its owner, and its names as far as they have room
// (quota/answer_holders.cpp).
constexpr size_t holder_text_bytes_max =
    limits::client_id_bytes_max + limits::holders_text_bytes_max;
// Of a page: the owners of all rows, and names. Those that other shards of the reservations add are
// left out from four times the text of a page on; the last one before may begin there.
constexpr size_t page_text_bytes_max = limits::subjects_page_max * limits::client_id_bytes_max +
                                       5 * size_t{limits::holders_text_bytes_max};

kj::ArrayPtr<const kj::byte> bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const kj::byte*>(text.data()), text.size()};
}

// ------------------------------------------------------------------------------------ writing

void fill(schema::QuotaOutcome::Builder to, const QuotaAnswer& from) {
  to.setCode(static_cast<uint8_t>(from.code));
  to.setState(static_cast<uint8_t>(from.state));
  to.setLate(from.late);
  to.setLimitsLeftOut(from.limits_left_out);
  to.setFirstLimit(from.first_limit);
  to.setLimitsCount(from.limits_count);
  to.setFirstRow(from.first_row);
  to.setRowsCount(from.rows_count);
  to.setFirstHolder(from.first_holder);
  to.setPosition(from.position);
  to.setLifetimeMs(from.lifetime_ms);
  to.setReservation(from.reservation);
  to.setRetryAfterMs(from.retry_after_ms);
  to.setNextCursor(from.next_cursor);
  to.setRequests(from.amounts.requests);
  to.setInputTokens(from.amounts.input_tokens);
  to.setOutputTokens(from.amounts.output_tokens);
  to.setCost(from.amounts.cost);
}

void fill(schema::ReportedLimit::Builder to, const api::LimitReport& from) {
  to.setSubject(from.subject);
  to.setViolated(from.violated);
  to.setMetric(static_cast<uint8_t>(from.metric));
  to.setKind(static_cast<uint8_t>(from.kind));
  to.setCeiling(static_cast<uint8_t>(from.ceiling));
  to.setAmount(from.amount);
  to.setUsed(from.used);
  to.setReserved(from.reserved);
  to.setRemaining(from.remaining);
  to.setPeriodMs(static_cast<uint64_t>(from.period_ms));
  to.setResetMs(static_cast<uint64_t>(from.reset_ms));
  to.setName(bytes_of(from.name_text()));
}

void fill(schema::ReportedSubject::Builder to, const api::SubjectRow& from) {
  to.setNameBegin(from.name_begin);
  to.setNameBytes(from.name_bytes);
  to.setSource(static_cast<uint8_t>(from.source));
  to.setQuota(from.quota);
  to.setFirstLimit(from.first_limit);
  to.setLimitsCount(from.limits_count);
  to.setOpenReservations(from.open_reservations);
  to.setWaiting(from.waiting);
}

void fill(schema::ReportedHolder::Builder to, const api::HolderRow& from) {
  to.setReservation(from.reservation);
  to.setRequests(from.amounts.requests);
  to.setInputTokens(from.amounts.input_tokens);
  to.setOutputTokens(from.amounts.output_tokens);
  to.setCost(from.amounts.cost);
  to.setAdmission(static_cast<uint8_t>(from.admission));
  to.setState(static_cast<uint8_t>(from.state));
  to.setLate(from.late);
  to.setConnectionBound(from.connection_bound);
  to.setLifetimeMs(from.lifetime_ms);
  to.setHeldMs(static_cast<uint64_t>(std::max<int64_t>(from.held_ms, 0)));
  to.setOwnerBegin(from.owner.begin);
  to.setOwnerBytes(from.owner.bytes);
  to.setSubjectsLeftOut(from.subjects_left_out);
  auto names = to.initSubjects(2 * uint32_t{from.subjects_count});
  for (uint32_t i = 0; i < from.subjects_count; ++i) {
    names.set(2 * i, from.subjects[i].begin);
    names.set(2 * i + 1, from.subjects[i].bytes);
  }
}

void fill(schema::ReportedQuota::Builder to, const api::Quota& from) {
  to.setJson(policy::quota_json(from).dump());
  if (!from.profile.empty()) to.setProfile(from.profile);
}

template <typename List, typename Item>
void fill_all(List list, std::span<const Item> items) {
  for (size_t i = 0; i < items.size(); ++i) fill(list[static_cast<kj::uint>(i)], items[i]);
}

size_t visit_answer_bytes(const api::QuotaBatch* visit) noexcept {
  if (visit == nullptr) return 0;
  return visit_bytes(visit->calls.size()) +
         visit->part_reports.size() * (struct_bytes<schema::PartReport> + limit_bytes);
}

size_t bytes_of(const QuotaOutcomesView& outcomes) noexcept {
  return head_bytes + list_bytes(outcomes.entries.size_bytes()) +
         outcomes.answers.size() * struct_bytes<schema::QuotaOutcome> +
         outcomes.limits.size() * limit_bytes +
         outcomes.rows.size() * struct_bytes<schema::ReportedSubject> +
         outcomes.holders.size() * holder_bytes + outcomes.quotas.size() * quota_bytes_max +
         list_bytes(outcomes.text.size()) + visit_answer_bytes(outcomes.visit);
}

template <typename T>
kj::uint count_of(std::span<const T> items) noexcept {
  return static_cast<kj::uint>(items.size());
}

void fill_visit_answer(schema::QuotaOutcomes::Builder body, const api::QuotaBatch& batch) {
  auto parts = body.initParts(static_cast<kj::uint>(batch.spread.size()));
  for (size_t i = 0; i < batch.spread.size(); ++i) {
    fill_part(parts[static_cast<kj::uint>(i)], batch, i);
  }
  auto reports = body.initReports(static_cast<kj::uint>(batch.part_reports.size()));
  for (size_t i = 0; i < batch.part_reports.size(); ++i) {
    auto report = reports[static_cast<kj::uint>(i)];
    report.setPlace(batch.part_reports[i].call);
    report.setNumber(batch.part_reports[i].number);
    fill(report.initLimit(), batch.part_reports[i].limit);
  }
  body.setKnowsRound(batch.visit.is_known);
  body.setClockNs(static_cast<uint64_t>(batch.visit.clock_ns));
}

// Lists without items stay away.
void fill(schema::QuotaOutcomes::Builder body, const QuotaOutcomesView& from) {
  if (!from.entries.empty()) {
    auto entries = body.initEntries(count_of(from.entries));
    for (size_t i = 0; i < from.entries.size(); ++i) {
      entries.set(static_cast<kj::uint>(i), from.entries[i]);
    }
  }
  fill_all(body.initAnswers(count_of(from.answers)), from.answers);
  if (!from.limits.empty()) fill_all(body.initLimits(count_of(from.limits)), from.limits);
  if (!from.rows.empty()) fill_all(body.initRows(count_of(from.rows)), from.rows);
  if (!from.holders.empty()) fill_all(body.initHolders(count_of(from.holders)), from.holders);
  if (!from.quotas.empty()) fill_all(body.initQuotas(count_of(from.quotas)), from.quotas);
  if (!from.text.empty()) body.setText(bytes_of(from.text));
  if (from.visit != nullptr) fill_visit_answer(body, *from.visit);
}

// ------------------------------------------------------------------------------------ reading

// False: the value is impossible.
bool read(schema::QuotaOutcome::Reader from, QuotaAnswer& to) {
  const uint8_t code = from.getCode();
  const bool is_known = code < api::quota_codes_count;
  if (from.getState() > static_cast<uint8_t>(api::ReservationState::expired)) {
    return false;
  }
  to = {.code = is_known ? static_cast<api::QuotaCode>(code) : api::QuotaCode::owner_unreachable,
        .state = static_cast<api::ReservationState>(from.getState()),
        .late = from.getLate(),
        .limits_left_out = from.getLimitsLeftOut(),
        .first_limit = from.getFirstLimit(),
        .limits_count = from.getLimitsCount(),
        .first_row = from.getFirstRow(),
        .rows_count = from.getRowsCount(),
        .reservation = from.getReservation(),
        .retry_after_ms = from.getRetryAfterMs(),
        .next_cursor = from.getNextCursor(),
        .lifetime_ms = from.getLifetimeMs(),
        .first_holder = from.getFirstHolder(),
        .position = from.getPosition(),
        .amounts = {.requests = from.getRequests(),
                    .input_tokens = from.getInputTokens(),
                    .output_tokens = from.getOutputTokens(),
                    .cost = from.getCost()}};
  return to.retry_after_ms >= api::retry_never;
}

bool read(schema::ReportedLimit::Reader from, api::LimitReport& to) {
  const auto name = from.getName();
  const bool is_known = from.getMetric() < api::metrics_count &&
                        from.getKind() < api::limit_kinds_count &&
                        from.getCeiling() <= static_cast<uint8_t>(api::Ceiling::block);
  if (!is_known || name.size() > limits::limit_name_bytes_max) return false;
  to = {.subject = from.getSubject(),
        .violated = from.getViolated(),
        .metric = static_cast<api::Metric>(from.getMetric()),
        .kind = static_cast<api::LimitKind>(from.getKind()),
        .ceiling = static_cast<api::Ceiling>(from.getCeiling()),
        .name_bytes = static_cast<uint8_t>(name.size()),
        .amount = from.getAmount(),
        .used = from.getUsed(),
        .reserved = from.getReserved(),
        .remaining = from.getRemaining(),
        .period_ms = static_cast<int64_t>(from.getPeriodMs()),
        .reset_ms = static_cast<int64_t>(from.getResetMs())};
  std::memcpy(to.name, name.begin(), name.size());
  return to.period_ms >= 0 && to.reset_ms >= 0;
}

bool read(schema::ReportedSubject::Reader from, api::SubjectRow& to) {
  if (from.getSource() > static_cast<uint8_t>(api::QuotaSource::file_default)) return false;
  to = {.name_begin = from.getNameBegin(),
        .name_bytes = from.getNameBytes(),
        .source = static_cast<api::QuotaSource>(from.getSource()),
        .quota = from.getQuota(),
        .first_limit = from.getFirstLimit(),
        .limits_count = from.getLimitsCount(),
        .open_reservations = from.getOpenReservations(),
        .waiting = from.getWaiting()};
  return true;
}

bool read(schema::ReportedHolder::Reader from, api::HolderRow& to) {
  const auto names = from.getSubjects();
  const bool is_possible =
      from.getState() <= static_cast<uint8_t>(api::ReservationState::expired) &&
      from.getAdmission() < api::quota_codes_count && names.size() % 2 == 0 &&
      names.size() / 2 <= limits::call_subjects_max && from.getHeldMs() <= INT64_MAX;
  if (!is_possible) return false;
  to = {.reservation = from.getReservation(),
        .amounts = {.requests = from.getRequests(),
                    .input_tokens = from.getInputTokens(),
                    .output_tokens = from.getOutputTokens(),
                    .cost = from.getCost()},
        .admission = static_cast<api::QuotaCode>(from.getAdmission()),
        .state = static_cast<api::ReservationState>(from.getState()),
        .late = from.getLate(),
        .connection_bound = from.getConnectionBound(),
        .has_home = true,
        .lifetime_ms = from.getLifetimeMs(),
        .held_ms = static_cast<int64_t>(from.getHeldMs()),
        .owner = {.begin = from.getOwnerBegin(), .bytes = from.getOwnerBytes()},
        .subjects_count = static_cast<uint8_t>(names.size() / 2),
        .subjects_left_out = from.getSubjectsLeftOut()};
  for (uint32_t i = 0; i < to.subjects_count; ++i) {
    to.subjects[i] = {.begin = names[2 * i], .bytes = names[2 * i + 1]};
  }
  return true;
}

// It is only shown here: the node that keeps it has its time zones.
bool read(schema::ReportedQuota::Reader from, api::Quota& to) {
  const auto json = from.getJson();
  policy::ParsedQuota parsed = policy::parse_quota({json.begin(), json.size()}, policy::Form::sent);
  if (!parsed.is_json || !parsed.complaints.empty()) return false;
  to = std::move(parsed.quota);
  const auto profile = from.getProfile();
  to.profile.assign(profile.begin(), profile.size());
  return true;
}

template <typename List, typename Item>
bool read_all(List list, std::vector<Item>& items) {
  items.resize(list.size());
  for (kj::uint i = 0; i < list.size(); ++i) {
    if (!read(list[i], items[i])) return false;
  }
  return true;
}

bool is_in(uint64_t first, uint64_t count, size_t size) noexcept {
  return count == 0 || first + count <= size;
}

// A row has a limit for each of its quota's, or none.
bool has_its_quota(const QuotaOutcomes& all, const api::SubjectRow& row) noexcept {
  if (row.source == api::QuotaSource::none) return row.limits_count == 0;
  if (row.quota >= all.quotas.size()) return false;
  return row.limits_count == 0 || row.limits_count == all.quotas[row.quota].limits.size();
}

// Whether everything lies in the lists.
bool points_inside(const QuotaOutcomes& all) noexcept {
  const auto is_in_text = [&](const api::TextSpan& span) {
    return is_in(span.begin, span.bytes, all.text.size());
  };
  return std::ranges::all_of(all.answers,
                             [&](const QuotaAnswer& answer) {
                               return is_in(answer.first_limit, answer.limits_count,
                                            all.limits.size());
                             }) &&
         std::ranges::all_of(all.rows,
                             [&](const api::SubjectRow& row) {
                               return is_in_text({row.name_begin, row.name_bytes}) &&
                                      is_in(row.first_limit, row.limits_count, all.limits.size()) &&
                                      has_its_quota(all, row);
                             }) &&
         std::ranges::all_of(all.holders, [&](const api::HolderRow& holder) {
           return is_in_text(holder.owner) && std::ranges::all_of(holder.subjects, is_in_text);
         });
}

// Whether the rows and holders of an answer to such a call lie in the lists.
bool has_its_rows(const QuotaOutcomes& all, const QuotaAnswer& answer,
                  const api::QuotaCall& call) noexcept {
  using api::QuotaOp;
  switch (call.op) {
    case QuotaOp::holders:
      return is_in(answer.first_holder, answer.rows_count, all.holders.size());
    case QuotaOp::show:
      return is_in(answer.first_row, answer.rows_count, all.rows.size()) &&
             (!api::admits(answer.code) || is_in(answer.first_holder, 1, all.holders.size()));
    default:
      return is_in(answer.first_row, answer.rows_count, all.rows.size());
  }
}

bool read_visit_answer(schema::QuotaOutcomes::Reader from, QuotaOutcomes& to) {
  const auto parts = from.getParts();
  const auto reports = from.getReports();
  if (parts.size() != 0 && parts.size() != to.answers.size()) return false;
  to.parts.resize(parts.size());
  for (kj::uint i = 0; i < parts.size(); ++i) {
    if (!read_part(parts[i], to.parts[i], to.answers[i].code)) return false;
  }
  for (const auto report : reports) {
    api::PartReport& read_report =
        to.reports.emplace_back(api::PartReport{report.getPlace(), report.getNumber(), {}});
    const bool is_possible =
        read_report.call < parts.size() && read(report.getLimit(), read_report.limit);
    if (!is_possible || read_report.limit.subject >= limits::call_subjects_max) return false;
  }
  to.knows_round = from.getKnowsRound();
  to.clock_ns = std::min<uint64_t>(from.getClockNs(), INT64_MAX);
  return true;
}

// A call that waits already is tried without that flag: the answer with its part repeats the
// verdict that it waits on.
bool may_be_queued(const QuotaOutcomes& all, size_t index, const api::QuotaCall& call) noexcept {
  return api::may_wait(call) || (!all.parts.empty() && !all.parts[index].is_repeat);
}

bool has_verdicts(const QuotaOutcomes& all) noexcept {
  return std::ranges::none_of(
      all.answers, [](const QuotaAnswer& answer) { return answer.code == api::QuotaCode::none; });
}

bool read(schema::QuotaOutcomes::Reader from, QuotaOutcomes& to) {
  for (const uint32_t entry : from.getEntries()) to.entries.push_back(entry);
  const auto text = from.getText();
  to.text.assign(reinterpret_cast<const char*>(text.begin()), text.size());
  return read_all(from.getAnswers(), to.answers) && read_visit_answer(from, to) &&
         read_all(from.getLimits(), to.limits) && read_all(from.getRows(), to.rows) &&
         read_all(from.getHolders(), to.holders) && read_all(from.getQuotas(), to.quotas) &&
         points_inside(to) && (to.entries.empty() || to.entries.size() == to.answers.size()) &&
         (!to.parts.empty() || has_verdicts(to));
}

// What the answer to a call may have beside its outcome.
struct AnswerExtent {
  size_t bytes = 0;
  size_t limits_count = 0;  // reported
};

// One row for each subject of the call, with its name.
AnswerExtent rows_extent(const api::QuotaBatch& asked, const api::QuotaCall& call) noexcept {
  size_t bytes = call.subjects_count * row_bytes_max;
  for (const std::string_view name :
       std::span(asked.subjects).subspan(call.first_subject, call.subjects_count)) {
    bytes += name.size();
  }
  return {.bytes = bytes, .limits_count = call.subjects_count * size_t{limits::quota_limits_max}};
}

AnswerExtent extent_of(const api::QuotaBatch& asked, const api::QuotaCall& call) noexcept {
  using api::QuotaOp;
  switch (call.op) {
    case QuotaOp::usage:
      return rows_extent(asked, call);
    case QuotaOp::put:
      if ((call.flags & api::quota_flag::handed_over) != 0) return {};
      return rows_extent(asked, call);
    case QuotaOp::show:  // its names have come in one frame
      return {.bytes = limits::call_subjects_max * row_bytes_max + limits::frame_bytes_max +
                       holder_bytes + holder_text_bytes_max,
              .limits_count = size_t{limits::call_subjects_max} * limits::quota_limits_max};
    case QuotaOp::holders:
      return {.bytes = limits::subjects_page_max * holder_bytes + page_text_bytes_max};
    default:
      if (!api::concerns_limits(call.op)) return {};
      return {.limits_count = call.subjects_count * size_t{limits::quota_limits_max}};
  }
}

}  // namespace

QuotaOutcomesView outcomes_of(const api::QuotaBatch& batch) noexcept {
  return {.entries = {},
          .answers = batch.answers,
          .limits = batch.limits,
          .rows = batch.rows,
          .holders = batch.holders,
          .quotas = batch.quotas,
          .text = batch.answer_text,
          .visit = batch.visit.is_set() ? &batch : nullptr};
}

size_t outcomes_bytes_max(const api::QuotaBatch& asked) noexcept {
  size_t bytes = head_bytes + asked.calls.size() * struct_bytes<schema::QuotaOutcome>;
  size_t limits_count = 0;
  for (const api::QuotaCall& call : asked.calls) {
    const AnswerExtent extent = extent_of(asked, call);
    bytes += extent.bytes;
    limits_count += extent.limits_count;
  }
  const size_t reports_count = std::min<size_t>(limits_count, limits::quota_reports_max);
  bytes += reports_count * limit_bytes;
  if (asked.visit.is_set()) {
    bytes += visit_bytes(asked.calls.size()) + reports_count * struct_bytes<schema::PartReport>;
  }
  return std::min<size_t>(bytes, limits::reply_bytes_max);
}

size_t waited_bytes_max(size_t calls_count, size_t limits_count) noexcept {
  return head_bytes + list_bytes(calls_count * sizeof(uint32_t)) +
         calls_count * struct_bytes<schema::QuotaOutcome> + limits_count * limit_bytes;
}

FrameWords encode_outcomes(uint64_t id, const QuotaOutcomesView& outcomes) {
  capnp::MallocMessageBuilder message(static_cast<kj::uint>(bytes_of(outcomes) / word + 1));
  auto root = message.initRoot<schema::ServerFrame>();
  root.setId(id);
  fill(root.initQuotaOutcomes(), outcomes);
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  FrameWords frame(words.size());
  std::memcpy(frame.data(), words.begin(), words.size() * word);
  return frame;
}

bool are_answers_to(const QuotaOutcomes& outcomes, std::span<const api::QuotaCall> calls) noexcept {
  if (!outcomes.entries.empty() || outcomes.answers.size() != calls.size()) return false;
  for (size_t i = 0; i < calls.size(); ++i) {
    const QuotaAnswer& answer = outcomes.answers[i];
    if (!has_its_rows(outcomes, answer, calls[i])) return false;
    if (answer.code == api::QuotaCode::queued && !may_be_queued(outcomes, i, calls[i]))
      return false;
  }
  return std::ranges::all_of(outcomes.reports, [&](const api::PartReport& report) {
    return report.limit.subject < calls[report.call].subjects_count;
  });
}

std::optional<QuotaOutcomes> read_outcomes(const QuotaOutcomesFrame& frame) noexcept {
  try {
    FrameMessage message(frame.frame);
    QuotaOutcomes outcomes;
    if (read(message.root<schema::ServerFrame>().getQuotaOutcomes(), outcomes)) return outcomes;
  } catch (...) {  // malformed
  }
  return std::nullopt;
}

}  // namespace sluice::wire
