// What answers tell of limits, subjects and reservations.
#include <algorithm>
#include <cstring>

#include "limiter/calendar.hpp"
#include "quota/engine.hpp"

namespace sluice::quota {

using api::LimitReport;
using api::QuotaBatch;
using api::QuotaCode;
using limiter::Meter;
using limiter::MeterShape;

namespace {

// Remaining without a limit: as much as anybody may ask for.
uint64_t remaining(const MeterShape& shape, uint64_t used) noexcept {
  if (shape.ceiling == api::Ceiling::unlimited) return limits::amount_max;
  if (shape.ceiling == api::Ceiling::block) return 0;
  return shape.amount - std::min(shape.amount, used);
}

// A calendar's period has a length of its own.
int64_t period_ms(const MeterShape& shape, const limiter::Moment& now) noexcept {
  if (shape.kind != api::LimitKind::calendar) return shape.period_ns / base::ns_per_ms;
  const limiter::Period period = limiter::period_of(*shape.zone, shape.unit, now.wall_ns);
  return (period.end_ns - period.begin_ns) / base::ns_per_ms;
}

// Of a call that asks for a page.
uint32_t rows_max(const api::QuotaCall& call) noexcept {
  return call.limit == 0 ? limits::subjects_page_max
                         : std::min(call.limit, limits::subjects_page_max);
}

// A cursor is the next place and one, for zero is no cursor.
uint64_t first_place(const api::QuotaCall& call) noexcept {
  return call.cursor - (call.cursor == 0 ? 0 : 1);
}

api::TextSpan add_text(std::string_view added, std::string& text) {
  const api::TextSpan span{.begin = static_cast<uint32_t>(text.size()),
                           .bytes = static_cast<uint32_t>(added.size())};
  text.append(added);
  return span;
}

bool is_of(const Reservation& reservation, SubjectIndex subject) noexcept {
  const auto* const end = reservation.subjects.begin() + reservation.subjects_count;
  return std::find(reservation.subjects.begin(), end, subject) != end;
}

}  // namespace

// Of a meter that was rolled.
LimitReport Engine::report(const MeterShape& shape, const api::Limit& limit,
                           const Member& member) noexcept {
  const Meter meter(shape, member.words);
  const bool is_slot = shape.kind == api::LimitKind::slots;
  LimitReport report{
      .subject = member.place,
      .metric = shape.metric,
      .kind = shape.kind,
      .ceiling = shape.ceiling,
      .name_bytes = static_cast<uint8_t>(limit.name.size()),
      .amount = limit.amount,
      .used = is_slot ? member.open : meter.used(),
      .reserved = is_slot ? member.open : meter.open(),
      .period_ms = period_ms(shape, clock_.moment()),
      .reset_ms = is_slot ? 0 : base::ceil_ms(meter.empty_at_ns(clock_.moment()) - clock_.ns())};
  std::memcpy(report.name, limit.name.data(), limit.name.size());
  report.remaining = remaining(shape, report.used);
  return report;
}

void Engine::tell_limits(QuotaBatch& batch, size_t index, const Party& party,
                         const api::Amounts& amounts, bool violated_only) noexcept {
  api::QuotaAnswer& answer = batch.answers[index];
  answer.first_limit = static_cast<uint32_t>(batch.limits.size());
  const bool denied = !api::admits(answer.code);
  const limiter::Shares shares(amounts);
  for (const Member& told : party) {
    Member member = told;
    if (member.index != no_subject) member.open = subjects_[member.index].open;
    for (size_t at = 0; at < member.quota->shapes.size(); ++at) {
      const MeterShape& shape = member.quota->shapes[at];
      Meter meter(shape, member.words);
      meter.roll(clock_.moment());
      LimitReport told_limit = report(shape, member.quota->quota.limits[at], member);
      if (denied) told_limit.violated = !limit_fits(meter, shape, member, shares.of(shape));
      if (violated_only && !told_limit.violated) continue;
      if (batch.limits.size() == limits::quota_reports_max) {
        answer.limits_left_out = true;
        return;
      }
      batch.limits.push_back(told_limit);
      ++answer.limits_count;
    }
  }
}

void Engine::tell_subject(QuotaBatch& batch, size_t index, uint8_t place,
                          SubjectIndex subject_index, std::string_view name) noexcept {
  api::QuotaAnswer& answer = batch.answers[index];
  if (answer.rows_count == 0) answer.first_row = static_cast<uint32_t>(batch.rows.size());
  ++answer.rows_count;
  api::SubjectRow& row = batch.rows.emplace_back();
  row.name_begin = static_cast<uint32_t>(batch.answer_text.size());
  row.name_bytes = static_cast<uint32_t>(name.size());
  row.first_limit = static_cast<uint32_t>(batch.limits.size());
  batch.answer_text.append(name);
  Member member{.place = place, .index = subject_index};
  if (subject_index != no_subject) {
    subjects_.look_at(subject_index, member);
    const Subject& subject = subjects_[subject_index];
    row.source = subject.source;
    row.open_reservations = subject.open;
    row.waiting = subject.waiting;
  } else {
    const CurrentBook::OwnQuota own = book_.quota_of(name);
    row.source = own.source;
    if (own.quota != nullptr) subjects_.look_at_absent(*own.quota, member);
  }
  if (member.quota == nullptr) {
    row.source = api::QuotaSource::none;
    return;
  }
  row.quota = static_cast<uint32_t>(batch.quotas.size());
  batch.quotas.push_back(member.quota->quota);
  if (batch.limits.size() + member.quota->shapes.size() > limits::quota_reports_max) {
    answer.limits_left_out = true;
    return;
  }
  for (size_t at = 0; at < member.quota->shapes.size(); ++at) {
    const MeterShape& shape = member.quota->shapes[at];
    Meter(shape, member.words).roll(clock_.moment());
    batch.limits.push_back(report(shape, member.quota->quota.limits[at], member));
    ++row.limits_count;
  }
}

void Engine::tell_usage(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  batch.answers[index].code = QuotaCode::ok;
  if (!are_valid(names_of(batch, call))) {
    batch.answers[index].code = QuotaCode::invalid_subject;
    return;
  }
  for (uint8_t place = 0; place < call.subjects_count; ++place) {
    const std::string_view name = batch.subjects[call.first_subject + place];
    tell_subject(batch, index, place, subjects_.find(hashes[place]), name);
  }
}

void Engine::tell_record(const IdRecord& record, api::QuotaAnswer& answer) noexcept {
  answer.state = record.state;
  answer.late = record.late;
  answer.amounts = record.amounts;
}

void Engine::tell_reservation(QuotaBatch& batch, size_t index) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  answer.reservation = call.reservation;
  const std::optional<IdRecord> record = reservations_.find_record(call.reservation);
  if (!record) {
    answer.code = QuotaCode::unknown_reservation;
    return;
  }
  answer.code = record->admission;
  tell_record(*record, answer);
  const Reservation* const reservation = reservations_.find(call.reservation);
  answer.first_holder = static_cast<uint32_t>(batch.holders.size());
  tell_holder(*record, reservation, batch);
  if (reservation == nullptr) return;  // its subjects are forgotten
  answer.lifetime_ms = reservations_.lifetime_left_ms(*reservation);
  for (uint8_t place = 0; place < reservation->subjects_count; ++place) {
    const SubjectIndex subject = reservation->subjects[place];
    if (subject != no_subject) {
      tell_subject(batch, index, place, subject, subjects_.name_of(subject));
    }
  }
}

// Subjects in the order of their places: one that lives throughout is told once.
void Engine::tell_page(QuotaBatch& batch, size_t index) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  answer.code = QuotaCode::ok;
  uint64_t at = first_place(call);
  for (; at < subjects_.pool().index_end(); ++at) {
    const auto subject = static_cast<SubjectIndex>(at);
    if (!subjects_.pool().holds(subject)) continue;
    // All limits of one more subject have to have room.
    const bool full = answer.rows_count == rows_max(call) ||
                      batch.limits.size() + limits::quota_limits_max > limits::quota_reports_max;
    if (full) {
      answer.next_cursor = at + 1;
      return;
    }
    if (subjects_.current(subject).quota == nullptr) continue;
    tell_subject(batch, index, 0, subject, subjects_.name_of(subject));
  }
}

// Who holds what: of the subject that is named, or of all.
void Engine::tell_holders(QuotaBatch& batch, size_t index, const SubjectHashes& hashes) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  answer.code = QuotaCode::ok;
  if (answer.rows_count == 0) answer.first_holder = static_cast<uint32_t>(batch.holders.size());
  SubjectIndex of = no_subject;
  if (call.subjects_count > 0) {
    if (!are_valid(names_of(batch, call))) {
      answer.code = QuotaCode::invalid_subject;
      return;
    }
    of = subjects_.find(hashes[0]);
    if (of == no_subject || subjects_[of].open == 0) return;  // nobody holds anything of it
  }
  tell_holders_from(first_place(call), of, batch, index);
}

// Reservations in the order of their places: one that is open throughout is told once. There may be
// millions: a call looks at some, and what it tells may be nothing, and not the last.
void Engine::tell_holders_from(uint64_t first, SubjectIndex of, QuotaBatch& batch,
                               size_t index) noexcept {
  api::QuotaAnswer& answer = batch.answers[index];
  const uint64_t end = reservations_.pool().index_end();
  const uint64_t looks_end = first + limits::holders_looks_max;
  for (uint64_t at = first; at < end; ++at) {
    if (at == looks_end) {
      answer.next_cursor = at + 1;
      return;
    }
    const auto place = static_cast<ReservationBook::Pool::Index>(at);
    if (!reservations_.pool().holds(place)) continue;
    const Reservation& reservation = reservations_[place];
    if (reservation.state != api::ReservationState::open) continue;
    if (of != no_subject && !is_of(reservation, of)) continue;
    const bool full = answer.rows_count == rows_max(batch.calls[index]) ||
                      batch.answer_text.size() >= limits::holders_text_bytes_max;
    if (full) {
      answer.next_cursor = at + 1;
      return;
    }
    tell_holder(ReservationBook::record_of(reservation), &reservation, batch);
    ++answer.rows_count;
  }
}

// Of one that has ended the record may be all that is left.
void Engine::tell_holder(const IdRecord& record, const Reservation* reservation,
                         QuotaBatch& batch) const noexcept {
  api::HolderRow& row = batch.holders.emplace_back();
  row.reservation = record.id;
  row.amounts = record.amounts;
  row.admission = record.admission;
  row.state = record.state;
  row.late = record.late;
  if (reservation == nullptr) return;
  row.owner = add_text(reservations_.owner_of(*reservation), batch.answer_text);
  tell_names(*reservation, row, batch.answer_text);
  if (record.state != api::ReservationState::open) return;
  row.tied = reservation->is_connection_bound();
  row.lifetime_ms = reservations_.lifetime_left_ms(*reservation);
  row.held_ms = base::floor_ms(clock_.ns() - reservation->charged_ns);
}

// One name has room always, and all of them unless they are longer than names are by default.
void Engine::tell_names(const Reservation& reservation, api::HolderRow& row,
                        std::string& text) const noexcept {
  size_t left = limits::holders_text_bytes_max;
  for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
    const SubjectIndex subject = reservation.subjects[place];
    if (subject == no_subject) continue;
    const std::string_view name = subjects_.name_of(subject);
    if (name.size() > left) {
      ++row.subjects_left_out;
      continue;
    }
    left -= name.size();
    row.subjects[row.subjects_count++] = add_text(name, text);
  }
}

}  // namespace sluice::quota
