#include "state/record.hpp"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.hpp"
#include "base/time.hpp"

namespace sluice::state {

using api::Amounts;
using api::QuotaCode;
using api::ReservationState;
using limiter::Moment;
using Where = ReservedSubject::Where;

namespace {

// As stored; numbers are never reused.
enum class Kind : uint8_t {
  subject = 1,
  gone_subject = 2,
  reservation = 3,
  ended_reservation = 4,
  gone_reservation = 5,
  window = 6
};

constexpr uint32_t kind_bits = 8;
static_assert(subject_bytes_max(limits::key_bytes_max, limits::quota_limits_max) < 1 << 24);

// Of a reservation; its state is in the lowest bits.
namespace flag {
constexpr uint16_t state_mask = 7;
constexpr uint16_t part = 1 << 3;
constexpr uint16_t connection_bound = 1 << 4;
constexpr uint16_t repeated = 1 << 5;
constexpr uint16_t has_client_id = 1 << 6;
constexpr uint16_t has_request_hash = 1 << 7;
constexpr uint16_t has_owner = 1 << 8;
constexpr uint16_t has_expired = 1 << 9;
constexpr uint16_t home_at_other_node = 1 << 10;
constexpr uint16_t all = (1 << 11) - 1;
}  // namespace flag

// Of the end of one, with its state.
constexpr uint8_t late_bit = 0x80;

// Writes the head when the record's length is known.
class RecordFrame {
 public:
  RecordFrame(ByteWriter& writer, Kind kind) noexcept
      : writer_(writer), begin_(writer.size()), kind_(kind) {
    writer.word(uint32_t{0});
  }
  ~RecordFrame() {
    const size_t length = writer_.size() - begin_ - record_head_bytes;
    const auto head = static_cast<uint32_t>(length << kind_bits) | static_cast<uint32_t>(kind_);
    writer_.overwrite(begin_, head);
  }
  RecordFrame(const RecordFrame&) = delete;
  RecordFrame& operator=(const RecordFrame&) = delete;

 private:
  ByteWriter& writer_;
  const size_t begin_;
  const Kind kind_;
};

// ---- parts of records --------------------------------------------------------------------------

void write(ByteWriter& writer, const Hash& hash) noexcept {
  writer.word(hash.low);
  writer.word(hash.high);
}

Hash read_hash(ByteReader& reader) noexcept {
  const auto low = reader.word<uint64_t>();
  return {.low = low, .high = reader.word<uint64_t>()};
}

void write(ByteWriter& writer, const SubjectKey& key) noexcept {
  write(writer, key.name);
  writer.word(key.route);
}

SubjectKey read_key(ByteReader& reader) noexcept {
  const Hash name = read_hash(reader);
  return {.name = name, .route = reader.word<uint16_t>()};
}

void write(ByteWriter& writer, const Amounts& amounts) noexcept {
  writer.varint(amounts.requests);
  writer.varint(amounts.input_tokens);
  writer.varint(amounts.output_tokens);
  writer.varint(amounts.cost);
}

Amounts read_amounts(ByteReader& reader) noexcept {
  Amounts amounts;
  for (uint64_t* const amount :
       {&amounts.requests, &amounts.input_tokens, &amounts.output_tokens, &amounts.cost}) {
    *amount = reader.varint();
    if (*amount > limits::amount_max) reader.fail();
  }
  return amounts;
}

uint64_t read_at_most(ByteReader& reader, uint64_t max) noexcept {
  const uint64_t number = reader.varint();
  if (number > max) reader.fail();
  return number;
}

QuotaCode read_admission(ByteReader& reader) noexcept {
  const auto code = static_cast<QuotaCode>(reader.word<uint8_t>());
  if (!api::admits(code)) reader.fail();
  return code;
}

// The end of a lifetime that had begun by then.
int64_t read_due_ms(ByteReader& reader, const Moment& latest) noexcept {
  const int64_t due_ms_max =
      base::ceil_ms(latest.ns) + int64_t{limits::lifetime_ms_max} + limits::part_slack_ms_max;
  return static_cast<int64_t>(read_at_most(reader, static_cast<uint64_t>(due_ms_max)));
}

void write(ByteWriter& writer, const ReservedSubject& subject) noexcept {
  writer.word(static_cast<uint8_t>(subject.where));
  if (subject.where == Where::here) write(writer, subject.key);
  if (subject.where == Where::other_shard) writer.word(subject.shard);
  if (subject.where == Where::other_node) writer.word(subject.node);
}

ReservedSubject read_reserved_subject(ByteReader& reader) noexcept {
  ReservedSubject subject;
  subject.where = static_cast<Where>(reader.word<uint8_t>());
  if (subject.where > Where::other_node) reader.fail();
  if (subject.where == Where::here) subject.key = read_key(reader);
  if (subject.where == Where::other_shard) subject.shard = reader.word<uint16_t>();
  if (subject.where == Where::other_node) subject.node = reader.word<uint16_t>();
  if (subject.shard >= limits::shards_max || subject.node >= limits::instances_max) reader.fail();
  return subject;
}

// ---- reservations ------------------------------------------------------------------------------

constexpr uint16_t flag_if(bool condition, uint16_t flag) noexcept {
  return condition ? flag : uint16_t{0};
}

uint16_t flags_of(const ReservationRecord& reservation) noexcept {
  return static_cast<uint16_t>(
      static_cast<uint16_t>(reservation.state) | flag_if(reservation.is_part, flag::part) |
      flag_if(reservation.has_home_at_other_node, flag::home_at_other_node) |
      flag_if(reservation.is_connection_bound, flag::connection_bound) |
      flag_if(reservation.is_repeated, flag::repeated) |
      flag_if(reservation.client_id.is_set(), flag::has_client_id) |
      flag_if(reservation.request_hash != 0, flag::has_request_hash) |
      flag_if(!reservation.owner.empty(), flag::has_owner) |
      flag_if(reservation.expired_order != 0, flag::has_expired));
}

// Whether the flags are possible; sets what they say.
bool read_flags(uint16_t flags, ReservationRecord& reservation) noexcept {
  reservation.state = static_cast<ReservationState>(flags & flag::state_mask);
  reservation.is_part = (flags & flag::part) != 0;
  reservation.has_home_at_other_node = (flags & flag::home_at_other_node) != 0;
  if (reservation.has_home_at_other_node && !reservation.is_part) return false;
  reservation.is_connection_bound = (flags & flag::connection_bound) != 0;
  reservation.is_repeated = (flags & flag::repeated) != 0;
  const bool has_expired = (flags & flag::has_expired) != 0;
  switch (reservation.state) {
    case ReservationState::open:
      return flags <= flag::all && !has_expired;
    case ReservationState::expired:
      return flags <= flag::all && has_expired;
    case ReservationState::settled:
    case ReservationState::cancelled:
      return flags <= flag::all;
    case ReservationState::none:
      break;
  }
  return false;
}

// What only some reservations have: a flag stands for a value that is not zero.
void read_optional_fields(ByteReader& reader, uint16_t flags, const Moment& latest,
                          ReservationRecord& reservation) noexcept {
  if ((flags & flag::has_expired) != 0) {
    reservation.expired_order = read_at_most(reader, latest.order);
    if (reservation.expired_order == 0) reader.fail();
  }
  if ((flags & flag::has_client_id) != 0) {
    reservation.client_id = read_hash(reader);
    if (!reservation.client_id.is_set()) reader.fail();
  }
  if ((flags & flag::has_request_hash) != 0) {
    reservation.request_hash = reader.word<uint64_t>();
    if (reservation.request_hash == 0) reader.fail();
  }
  if ((flags & flag::has_owner) != 0) {
    reservation.owner = reader.text(limits::client_id_bytes_max);
    if (reservation.owner.empty()) reader.fail();
  }
}

void read_subjects(ByteReader& reader, ReservationRecord& reservation) noexcept {
  const auto count = reader.word<uint8_t>();
  if (count == 0 || count > limits::call_subjects_max) return reader.fail();
  reservation.subjects_count = count;
  for (uint8_t at = 0; at < count; ++at) reservation.subjects[at] = read_reserved_subject(reader);
  if (reservation.refunded_bits >> count != 0) reader.fail();
}

ReservationRecord read_reservation(ByteReader& reader, const Moment& latest) noexcept {
  ReservationRecord reservation;
  reservation.id = reader.word<uint64_t>();
  const auto flags = reader.word<uint16_t>();
  if (reservation.id == 0 || !read_flags(flags, reservation)) reader.fail();
  reservation.admission = read_admission(reader);
  reservation.refunded_bits = reader.word<uint8_t>();
  reservation.lifetime_ms = static_cast<uint32_t>(
      read_at_most(reader, limits::lifetime_ms_max + limits::part_slack_ms_max));
  reservation.due_ms = read_due_ms(reader, latest);
  reservation.amounts = read_amounts(reader);
  if (!reservation.has_ended()) {
    const auto now_ns = static_cast<uint64_t>(latest.ns);
    reservation.charged_ns = static_cast<int64_t>(read_at_most(reader, now_ns));
    reservation.order = read_at_most(reader, latest.order);
  }
  read_optional_fields(reader, flags, latest, reservation);
  read_subjects(reader, reservation);
  return reservation;
}

EndedReservation read_ended(ByteReader& reader, const Moment& latest) noexcept {
  EndedReservation ended;
  ended.id = reader.word<uint64_t>();
  const auto state = reader.word<uint8_t>();
  ended.state = static_cast<ReservationState>(state & ~late_bit);
  ended.late = (state & late_bit) != 0;
  const bool is_end =
      ended.state == ReservationState::settled || ended.state == ReservationState::cancelled;
  if (ended.id == 0 || !is_end) reader.fail();
  ended.admission = read_admission(reader);
  ended.forgotten_ms = read_due_ms(reader, latest);
  ended.amounts = read_amounts(reader);
  return ended;
}

// ---- the others --------------------------------------------------------------------------------

StoredSubject read_subject(ByteReader& reader, const Moment& latest) noexcept {
  StoredSubject subject;
  subject.name = reader.text(limits::key_bytes_max);
  if (subject.name.empty()) reader.fail();
  subject.quota_class = reader.word<uint64_t>();
  subject.reset_order = read_at_most(reader, latest.order);
  subject.meters = reader.rest();
  return subject;
}

GoneReservation read_gone_reservation(ByteReader& reader) noexcept {
  const auto id = reader.word<uint64_t>();
  const auto part = reader.word<uint8_t>();
  if (id == 0 || part > 1) reader.fail();
  return {.id = id, .is_part = part == 1};
}

void write(ByteWriter& writer, const limiter::Policy& policy) noexcept {
  writer.varint(static_cast<uint64_t>(policy.window_ms));
  writer.varint(policy.max_requests);
  writer.varint(policy.max_requests_in_queue);
}

limiter::Policy read_policy(ByteReader& reader) noexcept {
  limiter::Policy policy;
  policy.window_ms = static_cast<int64_t>(read_at_most(reader, limits::window_ms_max));
  policy.max_requests = static_cast<uint32_t>(read_at_most(reader, limits::permits_max));
  policy.max_requests_in_queue = static_cast<uint32_t>(read_at_most(reader, limits::queue_max));
  if (policy.window_ms == 0 || policy.max_requests == 0) reader.fail();
  return policy;
}

// The permits may be more than the policy has: that may have had more.
WindowRecord read_window(ByteReader& reader, const Moment& latest) noexcept {
  WindowRecord window;
  window.key = reader.text(limits::key_bytes_max);
  if (window.key.empty()) reader.fail();
  const auto end_ms_max = static_cast<uint64_t>(base::ceil_ms(latest.ns) + limits::window_ms_max);
  window.end_ms = static_cast<int64_t>(read_at_most(reader, end_ms_max));
  window.approved = static_cast<uint32_t>(read_at_most(reader, UINT32_MAX));
  window.denied = static_cast<uint32_t>(read_at_most(reader, UINT32_MAX));
  window.policy = read_policy(reader);
  window.rules_policy = window.policy;
  if (reader.left() == 0) return window;
  window.rules_policy = read_policy(reader);
  if (window.rules_policy == window.policy) reader.fail();
  return window;
}

std::optional<StoredRecord> read_body(ByteReader& reader, Kind kind,
                                      const Moment& latest) noexcept {
  switch (kind) {
    case Kind::subject:
      return read_subject(reader, latest);
    case Kind::gone_subject:
      return GoneSubject{read_key(reader)};
    case Kind::reservation:
      return read_reservation(reader, latest);
    case Kind::ended_reservation:
      return read_ended(reader, latest);
    case Kind::gone_reservation:
      return read_gone_reservation(reader);
    case Kind::window:
      return read_window(reader, latest);
  }
  return std::nullopt;
}

}  // namespace

Hash hash_of_name(std::string_view name, uint64_t seed) noexcept {
  const XXH128_hash_t hashed = XXH3_128bits_withSeed(name.data(), name.size(), seed);
  return {.low = hashed.low64, .high = hashed.high64};
}

uint64_t quota_class_of(std::string_view quota) noexcept {
  const uint64_t hash = XXH3_64bits(quota.data(), quota.size());
  return hash == 0 ? 1 : hash;
}

void write_record(ByteWriter& writer, const SubjectRecord& subject) noexcept {
  const RecordFrame frame(writer, Kind::subject);
  writer.text(subject.name);
  writer.word(subject.quota_class);
  writer.varint(subject.reset_order);
  pack_meters(writer, subject.shapes, subject.words);
}

void write_record(ByteWriter& writer, const GoneSubject& gone) noexcept {
  const RecordFrame frame(writer, Kind::gone_subject);
  write(writer, gone.key);
}

void write_record(ByteWriter& writer, const ReservationRecord& reservation) noexcept {
  ASSERT(reservation.state != ReservationState::none);  // a hold has no verdict yet
  const RecordFrame frame(writer, Kind::reservation);
  writer.word(reservation.id);
  writer.word(flags_of(reservation));
  writer.word(static_cast<uint8_t>(reservation.admission));
  writer.word(reservation.refunded_bits);
  writer.varint(reservation.lifetime_ms);
  writer.varint(static_cast<uint64_t>(reservation.due_ms));
  write(writer, reservation.amounts);
  if (!reservation.has_ended()) {
    writer.varint(static_cast<uint64_t>(reservation.charged_ns));
    writer.varint(reservation.order);
  }
  if (reservation.expired_order != 0) writer.varint(reservation.expired_order);
  if (reservation.client_id.is_set()) write(writer, reservation.client_id);
  if (reservation.request_hash != 0) writer.word(reservation.request_hash);
  if (!reservation.owner.empty()) writer.text(reservation.owner);
  writer.word(reservation.subjects_count);
  for (const ReservedSubject& subject : reservation.named()) write(writer, subject);
}

void write_record(ByteWriter& writer, const EndedReservation& ended) noexcept {
  const RecordFrame frame(writer, Kind::ended_reservation);
  const uint8_t late = ended.late ? late_bit : uint8_t{0};
  writer.word(ended.id);
  writer.word(static_cast<uint8_t>(static_cast<uint8_t>(ended.state) | late));
  writer.word(static_cast<uint8_t>(ended.admission));
  writer.varint(static_cast<uint64_t>(ended.forgotten_ms));
  write(writer, ended.amounts);
}

void write_record(ByteWriter& writer, const GoneReservation& gone) noexcept {
  const RecordFrame frame(writer, Kind::gone_reservation);
  writer.word(gone.id);
  writer.word(uint8_t{gone.is_part});
}

void write_record(ByteWriter& writer, const WindowRecord& window) noexcept {
  const RecordFrame frame(writer, Kind::window);
  writer.text(window.key);
  writer.varint(static_cast<uint64_t>(window.end_ms));
  writer.varint(window.approved);
  writer.varint(window.denied);
  write(writer, window.policy);
  if (window.rules_policy != window.policy) write(writer, window.rules_policy);
}

size_t first_record_bytes(std::span<const std::byte> records) noexcept {
  return record_head_bytes + (ByteReader(records).word<uint32_t>() >> kind_bits);
}

std::optional<StoredRecord> read_record(ByteReader& reader, const Moment& latest) noexcept {
  const auto head = reader.word<uint32_t>();
  ByteReader body(reader.bytes(head >> kind_bits));  // cut off: empty, as no record is
  std::optional<StoredRecord> record =
      read_body(body, static_cast<Kind>(head & ((1U << kind_bits) - 1)), latest);
  if (body.is_damaged() || body.left() > 0) return std::nullopt;
  return record;
}

}  // namespace sluice::state
