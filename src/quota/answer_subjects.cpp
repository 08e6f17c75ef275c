#include "quota/answer_subjects.hpp"

#include "limiter/meter.hpp"
#include "quota/answer_limits.hpp"
#include "quota/answer_paging.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using limiter::MeterShape;

namespace {

api::SubjectRow& add_row(QuotaBatch& batch, api::QuotaAnswer& answer, std::string_view name) {
  if (answer.rows_count == 0) answer.first_row = static_cast<uint32_t>(batch.rows.size());
  ++answer.rows_count;
  api::SubjectRow& row = batch.rows.emplace_back();
  row.name_begin = static_cast<uint32_t>(batch.answer_text.size());
  row.name_bytes = static_cast<uint32_t>(name.size());
  row.first_limit = static_cast<uint32_t>(batch.limits.size());
  batch.answer_text.append(name);
  return row;
}

// The limited subject of a subject, and its state for the row; without state, with the quota that
// it would have.
LimitedSubject fill_row(uint8_t place, SubjectIndex index, std::string_view name,
                        api::SubjectRow& row, const AnswerSources& from) {
  LimitedSubject each{.place = place, .index = index};
  if (index != no_subject) {
    from.subjects.read_limited_subject(index, each);
    const Subject& subject = from.subjects[index];
    row.source = subject.source;
    row.open_reservations = subject.open;
    row.waiting = subject.waiting;
  } else {
    const CurrentBook::OwnQuota own = from.book.quota_of(name);
    row.source = own.source;
    if (own.quota != nullptr) from.subjects.add_absent(*own.quota, each);
  }
  return each;
}

}  // namespace

void add_subject_row(QuotaBatch& batch, size_t index, uint8_t place, SubjectIndex subject,
                     std::string_view name, const AnswerSources& from) noexcept {
  api::QuotaAnswer& answer = batch.answers[index];
  api::SubjectRow& row = add_row(batch, answer, name);
  const LimitedSubject each = fill_row(place, subject, name, row, from);
  if (each.quota == nullptr) {
    row.source = api::QuotaSource::none;
    return;
  }
  row.quota = static_cast<uint32_t>(batch.quotas.size());
  batch.quotas.push_back(each.quota->quota);
  if (batch.limits.size() + each.quota->shapes.size() > limits::quota_reports_max) {
    answer.limits_left_out = true;
    return;
  }
  const limiter::Moment& now = from.clock.moment();
  for (size_t at = 0; at < each.quota->shapes.size(); ++at) {
    const MeterShape& shape = each.quota->shapes[at];
    limiter::Meter(shape, each.words).roll(now);
    batch.limits.push_back(report_of(shape, each.quota->quota.limits[at], each, now));
    ++row.limits_count;
  }
}

void answer_usage(QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                  const AnswerSources& from) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  batch.answers[index].code = api::QuotaCode::ok;
  for (uint8_t place = 0; place < call.subjects_count; ++place) {
    const std::string_view name = batch.subjects[call.first_subject + place];
    add_subject_row(batch, index, place, from.subjects.find(hashes[place]), name, from);
  }
}

void answer_page(QuotaBatch& batch, size_t index, const AnswerSources& from) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  answer.code = api::QuotaCode::ok;
  const SubjectTable::Pool& pool = from.subjects.pool();
  for (uint64_t at = first_place(call); at < pool.index_end(); ++at) {
    const auto subject = static_cast<SubjectIndex>(at);
    if (!pool.holds(subject)) continue;
    // One more subject needs room for all its limits.
    const bool full = answer.rows_count == rows_max(call) ||
                      batch.limits.size() + limits::quota_limits_max > limits::quota_reports_max;
    if (full) {
      answer.next_cursor = cursor_at(at);
      return;
    }
    if (from.subjects.current(subject).quota == nullptr) continue;
    add_subject_row(batch, index, 0, subject, from.subjects.name_of(subject), from);
  }
}

}  // namespace sluice::quota
