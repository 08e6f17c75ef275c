#include "state/part_arena.hpp"

namespace sluice::state {
namespace {

// Pages that clear() keeps: what changes between two cuts of a server that is not very busy.
constexpr size_t kept_bytes = 4 * 1024 * 1024;

}  // namespace

PartArena::PartArena(size_t bytes, const std::string& what) : arena_(bytes, what) {
  const size_t parts_max = arena_.size() / full_part_bytes + 2;
  bodies_.reserve(parts_max);
  parts_.reserve(parts_max);
}

void PartArena::count(size_t record_bytes) noexcept {
  used_bytes_ += record_bytes;
  body_.records_bytes += static_cast<uint32_t>(record_bytes);
  ++body_.records_count;
  ++records_count_;
  if (body_.records_bytes >= full_part_bytes) end_part();
}

void PartArena::begin_part() noexcept {
  ASSERT(PartHeader::bytes <= arena_.size() - used_bytes_);
  body_ = {.begin = used_bytes_};
  used_bytes_ += PartHeader::bytes;
  stage_ = Stage::in_part;
}

// Hashes the records while they are in the cache.
void PartArena::end_part() noexcept {
  body_.hash = records_hash({arena_.data() + body_.begin + PartHeader::bytes, body_.records_bytes});
  bodies_.push_back(body_);
  stage_ = Stage::between_parts;
}

void PartArena::finish(const PartHeader& header) noexcept {
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

void PartArena::clear() noexcept {
  if (used_bytes_ > kept_bytes) arena_.discard(kept_bytes, used_bytes_ - kept_bytes);
  used_bytes_ = 0;
  records_count_ = 0;
  bodies_.clear();
  parts_.clear();
  stage_ = Stage::between_parts;
}

}  // namespace sluice::state
