#include "quota/record_writer.hpp"

#include <algorithm>
#include <string>

#include "quota/quota_class.hpp"

namespace sluice::quota {
namespace {

state::Hash stored_form(const NameHash& hash) noexcept {
  return {.low = hash.low, .high = hash.high};
}

state::EndedReservation stored_form(const IdRecord& end) noexcept {
  return {.id = end.id,
          .state = end.state,
          .admission = end.admission,
          .late = end.late,
          .forgotten_ms = end.forgotten_ms,
          .amounts = end.amounts};
}

}  // namespace

template <typename Record>
inline void RecordWriter::append(const Record& record) noexcept {
  sink_->append(record);
  ++records_count_;
}

void RecordWriter::write_subject(SubjectIndex index) noexcept {
  Subject& subject = subjects_[index];
  state::SubjectRecord record{.name = subjects_.name_of(index)};
  if (subject.quota != nullptr) {
    record.quota_class = class_of(*subject.quota);
    record.shapes = subject.quota->shapes;
    record.words = subject.words;
  }
  // One that was made after a reset of all has seen it, too.
  const bool has_seen_all = subject.resets == resets_.count;
  record.reset_order =
      has_seen_all ? std::max(subject.reset_order, resets_.order) : subject.reset_order;
  append(record);
  log_.set_written(subject, index);
}

void RecordWriter::write_reservation(uint32_t index) noexcept {
  Reservation& reservation = reservations_[index];
  state::ReservationRecord record{.id = reservation.id,
                                  .state = reservation.state,
                                  .admission = reservation.admission(),
                                  .is_part = reservation.is_part,
                                  .has_home_at_other_node = reservation.has_home_at_other_node,
                                  .is_connection_bound = reservation.is_connection_bound(),
                                  .is_repeated = reservation.repeated,
                                  .refunded_bits = reservation.refunded,
                                  .lifetime_ms = reservation.lifetime_ms,
                                  .due_ms = reservation.timer.due_ms(),
                                  .amounts = reservation.amounts,
                                  .expired_order = reservation.expired_order,
                                  .client_id = quota::stored_form(reservation.client_id),
                                  .request_hash = reservation.request_hash,
                                  .owner = reservations_.owner_of(reservation),
                                  .subjects_count = reservation.subjects_count};
  if (!reservation.has_ended()) {
    record.charged_ns = reservation.charged_ns;
    record.order = reservation.order;
  }
  for (uint8_t place = 0; place < reservation.subjects_count; ++place) {
    record.subjects[place] = stored_form(reservation.subjects[place]);
  }
  append(record);
  log_.set_written(reservation, index);
}

void RecordWriter::write(const IdRecord& end) noexcept {
  append(quota::stored_form(end));
}

void RecordWriter::write(const ForgottenSubject& forgotten) noexcept {
  append(state::GoneSubject{
      .key = {.name = quota::stored_form(forgotten.name), .route = forgotten.route}});
}

void RecordWriter::write(const DepartedReservation& departed) noexcept {
  if (departed.is_remembered) return append(departed.end);
  append(state::GoneReservation{.id = departed.end.id, .is_part = departed.is_part});
}

uint64_t RecordWriter::class_of(const CompiledQuota& quota) noexcept {
  if (quota.written_in_lap == lap_) return quota.class_id;
  const std::string text = quota_text(quota.quota);
  quota.class_id = class_id(text);
  quota.written_in_lap = lap_;
  sink_->add_class(quota.class_id, text);
  return quota.class_id;
}

state::ReservedSubject RecordWriter::stored_form(SubjectIndex index) const noexcept {
  using Where = state::ReservedSubject::Where;
  if (index == no_subject) return {};
  if (is_remote(index)) {
    const api::ShardId stop = shard_of_subject(index);
    if (!api::is_node_stop(stop)) return {.where = Where::other_shard, .shard = stop};
    return {.where = Where::other_node, .node = static_cast<uint16_t>(api::node_of_stop(stop))};
  }
  const Subject& subject = subjects_[index];
  return {.where = Where::here,
          .key = {.name = quota::stored_form(subject.hash), .route = subject.route}};
}

}  // namespace sluice::quota
