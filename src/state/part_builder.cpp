#include "state/part_builder.hpp"

#include "base/assert.hpp"

namespace sluice::state {
namespace {

// Pages that clear() keeps: what changes between two cuts of a server that is not very busy.
constexpr size_t kept_bytes = 4 * 1024 * 1024;

}  // namespace

static_assert(gone_bytes_max <= ended_bytes_max);

size_t arena_bytes(const ArenaBounds& bounds) noexcept {
  const size_t subject = subject_bytes_max(bounds.name_bytes_max, limits::quota_limits_max);
  const size_t reservation = reservation_bytes_max + 2 * ended_bytes_max;
  const size_t records =
      bounds.subjects_max * (subject + gone_bytes_max) + bounds.reservations_max * reservation;
  const size_t parts = records / full_part_bytes + 2;
  return records + parts * PartHeader::bytes;
}

PartBuilder::PartBuilder(const ArenaBounds& bounds)
    : arena_(arena_bytes(bounds), "state of a shard (--max-subjects, --max-reservations)") {
  const size_t parts_max = arena_.size() / full_part_bytes + 2;
  bodies_.reserve(parts_max);
  parts_.reserve(parts_max);
}

void PartBuilder::append(const SubjectRecord& subject) noexcept {
  add(subject);
}
void PartBuilder::append(const GoneSubject& gone) noexcept {
  add(gone);
}
void PartBuilder::append(const ReservationRecord& reservation) noexcept {
  add(reservation);
}
void PartBuilder::append(const EndedReservation& ended) noexcept {
  add(ended);
}
void PartBuilder::append(const GoneReservation& gone) noexcept {
  add(gone);
}

void PartBuilder::add_class(uint64_t id, std::string_view quota) noexcept {
  ASSERT(stage_ != Stage::finished);
  classes_.push_back({.id = id, .quota = std::string(quota)});
}

void PartBuilder::change_quota(const QuotaChange& change) noexcept {
  ASSERT(stage_ != Stage::finished);
  quota_changes_.push_back(
      {.name = std::string(change.name), .quota = std::nullopt, .wall_ms = change.wall_ms});
  if (change.quota) quota_changes_.back().quota.emplace(*change.quota);
}

template <typename Record>
inline void PartBuilder::add(const Record& record) noexcept {
  ASSERT(stage_ != Stage::finished);
  if (stage_ == Stage::between_parts) begin_part();
  const size_t bytes_max = record_bytes_max(record);
  ASSERT(bytes_max <= arena_.size() - used_bytes_);
  ByteWriter writer({arena_.data() + used_bytes_, bytes_max});
  write_record(writer, record);
  used_bytes_ += writer.size();
  body_.records_bytes += static_cast<uint32_t>(writer.size());
  ++body_.records_count;
  ++records_count_;
  if (body_.records_bytes >= full_part_bytes) end_part();
}

void PartBuilder::begin_part() noexcept {
  ASSERT(PartHeader::bytes <= arena_.size() - used_bytes_);
  body_ = {.begin = used_bytes_};
  used_bytes_ += PartHeader::bytes;
  stage_ = Stage::in_part;
}

// Hashes the records while they are in the cache.
void PartBuilder::end_part() noexcept {
  body_.hash = records_hash({arena_.data() + body_.begin + PartHeader::bytes, body_.records_bytes});
  bodies_.push_back(body_);
  stage_ = Stage::between_parts;
}

void PartBuilder::finish(const PartHeader& header) noexcept {
  ASSERT(stage_ != Stage::finished);
  if (bodies_.empty() && stage_ == Stage::between_parts) begin_part();
  if (stage_ == Stage::in_part) end_part();
  stage_ = Stage::finished;
  for (const Body& body : bodies_) {
    PartHeader own = header;
    own.records_bytes = body.records_bytes;
    own.records_count = body.records_count;
    std::byte* const begin = arena_.data() + body.begin;
    write_header(std::span<std::byte, PartHeader::bytes>(begin, PartHeader::bytes), own, body.hash);
    parts_.emplace_back(begin, PartHeader::bytes + body.records_bytes);
  }
}

void PartBuilder::clear() noexcept {
  if (used_bytes_ > kept_bytes) arena_.discard(kept_bytes, used_bytes_ - kept_bytes);
  used_bytes_ = 0;
  records_count_ = 0;
  bodies_.clear();
  parts_.clear();
  classes_.clear();
  quota_changes_.clear();
  stage_ = Stage::between_parts;
}

}  // namespace sluice::state
