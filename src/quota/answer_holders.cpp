#include "quota/answer_holders.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "quota/answer_paging.hpp"
#include "quota/answer_subjects.hpp"

namespace sluice::quota {

using api::QuotaBatch;
using api::ReservationState;

namespace {

api::TextSpan add_text(std::string_view added, std::string& text) {
  const api::TextSpan span{.begin = static_cast<uint32_t>(text.size()),
                           .bytes = static_cast<uint32_t>(added.size())};
  text.append(added);
  return span;
}

// Writes the names at their places. One name of a shard always has room, and all of them have
// unless they are longer than names are by default, or many names of other shards stand there
// already.
void add_names(const Reservation& reservation, const SubjectTable& subjects, api::HolderRow& row,
               std::string& text) {
  size_t left = limits::holders_text_bytes_max;
  for (const api::TextSpan name : row.subjects) left -= std::min<size_t>(left, name.bytes);
  const bool is_full = text.size() >= 4 * limits::holders_text_bytes_max;
  if (is_full) left = 0;
  for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
    const SubjectIndex subject = reservation.subjects[place];
    const bool is_of_other_node =
        is_remote(subject) && api::is_node_stop(shard_of_subject(subject));
    if (is_of_other_node) row.left_out_bits |= static_cast<uint8_t>(1U << place);
    if (!is_here(subject) || row.subjects[place].bytes > 0) continue;
    const std::string_view name = subjects.name_of(subject);
    if (name.size() > left) {
      row.left_out_bits |= static_cast<uint8_t>(1U << place);
      continue;
    }
    left -= name.size();
    row.subjects[place] = add_text(name, text);
  }
}

// Whether nobody on this node knows more of it.
bool is_holder(const Reservation& reservation) noexcept {
  return !reservation.is_part || reservation.has_home_at_other_node;
}

// What only its home knows, or, if that is another node, what each part does.
void add_holder(const Reservation& reservation, api::HolderRow& row, std::string& text,
                const AnswerSources& from) {
  row.has_home = true;
  row.owner = add_text(from.reservations.owner_of(reservation), text);
  if (row.state != ReservationState::open) return;
  row.connection_bound = reservation.is_connection_bound();
  row.lifetime_ms = from.reservations.lifetime_left_ms(reservation);
  row.held_ms = base::floor_ms(from.clock.ns() - reservation.charged_ns);
}

// Null: the reservation has ended, and only its record is left.
void add_holder_row(const IdRecord& record, const Reservation* reservation, QuotaBatch& batch,
                    const AnswerSources& from) {
  api::HolderRow& row = batch.holders.emplace_back();
  row.reservation = record.id;
  row.amounts = record.amounts;
  row.admission = record.admission;
  row.state = record.state;
  row.late = record.late;
  if (reservation == nullptr) return;
  if (is_holder(*reservation)) add_holder(*reservation, row, batch.answer_text, from);
  add_names(*reservation, from.subjects, row, batch.answer_text);
  row.is_spread = reservation->is_part || reservation->has_parts;
  if (!row.is_spread) row.pack_subjects();
}

// Whether the reservation is open and names the subject; no_subject stands for any, and lists each
// at its home.
bool is_held(const Reservation& reservation, SubjectIndex of) noexcept {
  if (reservation.state != ReservationState::open) return false;
  const std::span<const SubjectIndex> named = reservation.named();
  if (of == no_subject) return !reservation.is_part;
  return std::find(named.begin(), named.end(), of) != named.end();
}

// There may be millions of reservations: a call checks some of them, and its page may be empty
// although it is not the last.
void add_page(QuotaBatch& batch, size_t index, SubjectIndex of, const AnswerSources& from) {
  api::QuotaAnswer& answer = batch.answers[index];
  const ReservationBook::Pool& pool = from.reservations.pool();
  const uint64_t first = first_place(batch.calls[index]);
  const uint64_t scan_end = first + limits::holders_scan_max;
  for (uint64_t at = first; at < pool.index_end(); ++at) {
    if (at == scan_end) {
      answer.next_cursor = cursor_at(at);
      return;
    }
    const auto place = static_cast<ReservationBook::Pool::Index>(at);
    if (!pool.holds(place) || !is_held(pool[place], of)) continue;
    const bool full = answer.rows_count == rows_max(batch.calls[index]) ||
                      batch.answer_text.size() >= limits::holders_text_bytes_max;
    if (full) {
      answer.next_cursor = cursor_at(at);
      return;
    }
    add_holder_row(ReservationBook::record_of(pool[place]), &pool[place], batch, from);
    ++answer.rows_count;
  }
}

}  // namespace

void answer_record(const IdRecord& record, api::QuotaAnswer& answer) noexcept {
  answer.state = record.state;
  answer.late = record.late;
  answer.amounts = record.amounts;
}

void answer_reservation(QuotaBatch& batch, size_t index, const AnswerSources& from) noexcept {
  const api::QuotaCall& call = batch.calls[index];
  api::QuotaAnswer& answer = batch.answers[index];
  answer.reservation = call.reservation;
  const std::optional<IdRecord> record = from.reservations.find_record(call.reservation);
  if (!record) {
    answer.code = api::QuotaCode::unknown_reservation;
    return;
  }
  answer.code = record->admission;
  answer_record(*record, answer);
  const Reservation* const reservation = from.reservations.find(call.reservation);
  answer.first_holder = static_cast<uint32_t>(batch.holders.size());
  add_holder_row(*record, reservation, batch, from);
  if (reservation == nullptr) return;  // its subjects are forgotten
  answer.lifetime_ms = from.reservations.lifetime_left_ms(*reservation);
  for (uint8_t place = 0; place < reservation->subjects_count; ++place) {
    const SubjectIndex subject = reservation->subjects[place];
    if (!is_here(subject)) continue;
    add_subject_row(batch, index, place, subject, from.subjects.name_of(subject), from);
  }
}

void pack_holders(QuotaBatch& batch) {
  for (api::HolderRow& row : batch.holders) {
    if (row.is_spread) row.pack_subjects();
  }
  if (batch.calls[0].op != api::QuotaOp::holders) return;
  const auto lost = std::remove_if(batch.holders.begin(), batch.holders.end(),
                                   [](const api::HolderRow& row) { return !row.has_home; });
  batch.answers[0].rows_count -= static_cast<uint32_t>(batch.holders.end() - lost);
  batch.holders.erase(lost, batch.holders.end());
}

bool are_incomplete(const QuotaBatch& batch) noexcept {
  return std::any_of(batch.holders.begin(), batch.holders.end(),
                     [](const api::HolderRow& row) { return row.is_spread; });
}

void complete_holders(QuotaBatch& batch, const AnswerSources& from) noexcept {
  for (api::HolderRow& row : batch.holders) {
    if (!row.is_spread) continue;
    const Reservation* const reservation = from.reservations.find(row.reservation);
    if (reservation == nullptr) continue;  // it has ended meanwhile
    if (is_holder(*reservation) && !row.has_home) {
      add_holder(*reservation, row, batch.answer_text, from);
    }
    add_names(*reservation, from.subjects, row, batch.answer_text);
  }
}

void answer_holders(QuotaBatch& batch, size_t index, const SubjectHashes& hashes,
                    const AnswerSources& from) noexcept {
  api::QuotaAnswer& answer = batch.answers[index];
  answer.code = api::QuotaCode::ok;
  if (answer.rows_count == 0) answer.first_holder = static_cast<uint32_t>(batch.holders.size());
  SubjectIndex of = no_subject;
  if (batch.calls[index].subjects_count > 0) {
    of = from.subjects.find(hashes[0]);
    if (of == no_subject || from.subjects[of].open == 0) return;  // it has no open reservations
  }
  add_page(batch, index, of, from);
}

}  // namespace sluice::quota
