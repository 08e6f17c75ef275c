// What survives of one subject or one reservation: a record that needs no other one to be read.
// Flow:   quota's engine fills a record -> write_record() -> read_record() at the next start. Of
//         records about the same thing the last epoch's counts; if that has two, a subject came
//         after one that is gone.
// Shape:  a word of 32 bits, with the kind in its lowest byte and the length of the rest above,
//         then by kind
//           subject           name, class, the last reset's order; meters (meter_words.hpp)
//           gone subject      key: the hash of its name, and its route
//           reservation       id, flags, admission, which subjects were refunded; lifetime, when
//                             that ends, amounts; when it was charged; when it expired; client's id
//                             and hash of the request; owner; subjects
//           ended reservation id, state, admission; until when it is remembered, amounts
//           gone reservation  id, whether it was a part
//           window            key; end, permits, denials; the policy, and that of the rules if
//                             requests have changed it
//         Ids and hashes are words; times, orders, amounts and lengths are varints.
// Units:  state time; milliseconds where a name ends in _ms.
// Errors: read_record() finds every record that write_record() cannot have written.
// Bounds: record_bytes_max(); limits::key_bytes_max of a name, limits::client_id_bytes_max of an
//         owner.
// Lives:  values; texts, meters and shapes point to memory of the caller.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "api/quota.hpp"
#include "base/limits.hpp"
#include "limiter/meter_shape.hpp"
#include "limiter/policy.hpp"
#include "state/byte_reader.hpp"
#include "state/byte_writer.hpp"
#include "state/meter_words.hpp"

namespace sluice::state {

// 128 bits that stand for a name or a client's id. The seed of names is stored, too.
struct Hash {
  uint64_t low = 0;
  uint64_t high = 0;
  bool is_set() const noexcept { return low != 0 || high != 0; }
  bool operator==(const Hash&) const = default;
};

// Finds a subject, and its shard under any number of shards (proto/reservation_id.hpp).
struct SubjectKey {
  Hash name;
  uint16_t route = 0;
  bool operator==(const SubjectKey&) const = default;
};

// Of a subject's name, with the seed of the file. Source: XXH3 (xxhash 0.8).
Hash hash_of_name(std::string_view name, uint64_t seed) noexcept;

// What stands for a quota in records: the hash of its JSON, so it is the checksum of that; never 0.
// Source: XXH3 (xxhash 0.8).
uint64_t quota_class_of(std::string_view quota) noexcept;

struct SubjectRecord {
  std::string_view name;
  uint64_t quota_class = 0;  // identifies the quota that its meters belong to; 0: it has none
  // Of the last reset that its meters have seen. Before the part's reset_all_order: they have not
  // seen that one yet.
  uint64_t reset_order = 0;
  std::span<const limiter::MeterShape> shapes;  // of the quota's limits
  limiter::Words words;
};

// The same as it is read: unpack_meters() needs the quota's limits.
struct StoredSubject {
  std::string_view name;
  uint64_t quota_class = 0;
  uint64_t reset_order = 0;
  std::span<const std::byte> meters;
};

// A subject that had a record was forgotten.
struct GoneSubject {
  SubjectKey key;
  bool operator==(const GoneSubject&) const = default;
};

// A subject of a reservation, as its shard knows it.
struct ReservedSubject {
  enum class Where : uint8_t { without_quota = 0, here = 1, other_shard = 2, other_node = 3 };
  Where where = Where::without_quota;
  uint16_t shard = 0;  // other_shard: under the part's number of shards
  uint16_t node = 0;   // other_node: its place in the list
  SubjectKey key;      // here
  bool operator==(const ReservedSubject&) const = default;
};

// A reservation in its place: open, expired (it may be settled late), or ended and found by its
// client's id. Also the part of one that has its home on another shard or node, under the same id.
struct ReservationRecord {
  uint64_t id = 0;
  api::ReservationState state = api::ReservationState::open;
  api::QuotaCode admission = api::QuotaCode::ok;
  bool is_part = false;
  bool has_home_at_other_node =
      false;                         // a part's home is another node: it has a lifetime of its own
  bool is_connection_bound = false;  // it ends at the next start: its connection is gone
  bool is_repeated = false;          // a repeat under the client's id was answered
  uint8_t refunded_bits = 0;         // the subjects that were refunded when it expired
  uint32_t lifetime_ms = 0;
  int64_t due_ms = 0;  // when its lifetime ends, or when it is forgotten; an open part
                       // whose home is another shard: 0
  api::Amounts amounts;
  int64_t charged_ns = 0;  // with its order: not kept of a reservation that has ended
  uint64_t order = 0;
  uint64_t expired_order = 0;  // 0: it has not expired
  Hash client_id;
  uint64_t request_hash = 0;
  std::string_view owner;
  uint8_t subjects_count = 0;
  std::array<ReservedSubject, limits::call_subjects_max> subjects{};

  bool has_ended() const noexcept {
    return state == api::ReservationState::settled || state == api::ReservationState::cancelled;
  }
  std::span<const ReservedSubject> named() const noexcept {
    return {subjects.data(), subjects_count};
  }
  bool operator==(const ReservationRecord&) const = default;
};

// How a reservation ended that has no place any more: a repeat gets the same answer.
struct EndedReservation {
  uint64_t id = 0;
  api::ReservationState state = api::ReservationState::settled;
  api::QuotaCode admission = api::QuotaCode::ok;
  bool late = false;
  int64_t forgotten_ms = 0;
  api::Amounts amounts;
  bool operator==(const EndedReservation&) const = default;
};

// A reservation that had a record is forgotten, and its end, too.
struct GoneReservation {
  uint64_t id = 0;
  bool is_part = false;
  bool operator==(const GoneReservation&) const = default;
};

// The present window of a plain key, in parts of their own (PartKind::windows).
struct WindowRecord {
  std::string_view key;
  int64_t end_ms = 0;
  uint32_t approved = 0;
  uint32_t denied = 0;
  limiter::Policy policy;        // in force
  limiter::Policy rules_policy;  // the same, unless requests have changed it
  bool operator==(const WindowRecord&) const = default;
};

using StoredRecord = std::variant<StoredSubject, GoneSubject, ReservationRecord, EndedReservation,
                                  GoneReservation, WindowRecord>;

// The most that each takes.
inline constexpr size_t record_head_bytes = sizeof(uint32_t);
inline constexpr size_t subject_key_bytes = 2 * sizeof(uint64_t) + sizeof(uint16_t);
inline constexpr size_t reservation_bytes_max =
    record_head_bytes + 4 * sizeof(uint64_t) + 16 + 10 * varint_bytes_max +
    limits::client_id_bytes_max + limits::call_subjects_max * (1 + subject_key_bytes);
inline constexpr size_t ended_bytes_max =
    record_head_bytes + sizeof(uint64_t) + 2 + 5 * varint_bytes_max;
inline constexpr size_t gone_bytes_max = record_head_bytes + subject_key_bytes;
inline constexpr size_t window_numbers_bytes_max = 11 * varint_bytes_max;  // of a window

constexpr size_t subject_bytes_max(size_t name_bytes, size_t limits_count) noexcept {
  return record_head_bytes + sizeof(uint64_t) + 2 * varint_bytes_max + name_bytes +
         limits_count * meter_bytes_max;
}

inline size_t record_bytes_max(const SubjectRecord& subject) noexcept {
  return subject_bytes_max(subject.name.size(), subject.shapes.size());
}
constexpr size_t record_bytes_max(const GoneSubject& /*gone*/) noexcept {
  return gone_bytes_max;
}
constexpr size_t record_bytes_max(const ReservationRecord& /*reservation*/) noexcept {
  return reservation_bytes_max;
}
constexpr size_t record_bytes_max(const EndedReservation& /*ended*/) noexcept {
  return ended_bytes_max;
}
constexpr size_t record_bytes_max(const GoneReservation& /*gone*/) noexcept {
  return gone_bytes_max;
}
constexpr size_t record_bytes_max(const WindowRecord& window) noexcept {
  return record_head_bytes + window.key.size() + window_numbers_bytes_max;
}

void write_record(ByteWriter& writer, const SubjectRecord& subject) noexcept;
void write_record(ByteWriter& writer, const GoneSubject& gone) noexcept;
void write_record(ByteWriter& writer, const ReservationRecord& reservation) noexcept;
void write_record(ByteWriter& writer, const EndedReservation& ended) noexcept;
void write_record(ByteWriter& writer, const GoneReservation& gone) noexcept;
void write_record(ByteWriter& writer, const WindowRecord& window) noexcept;

// The length of the first record of some, as its head has it.
size_t first_record_bytes(std::span<const std::byte> records) noexcept;

// The next record. No time or order in it may be later than `latest`, and no lifetime may end
// later than one that begins then. None: it is damaged. The meters of a subject are checked when
// they are unpacked.
std::optional<StoredRecord> read_record(ByteReader& reader, const limiter::Moment& latest) noexcept;

}  // namespace sluice::state
