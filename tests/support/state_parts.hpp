// Any bytes as a part of a state: they are refused, or what is read of them is sound.
// Flow:   random or fuzzed bytes -> sealed(), which makes checksum and length right -> PartCheck.
// Errors: aborts when a record is not the same when it is written again, or when words that were
//         read break a meter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/assert.hpp"
#include "state/part_reader.hpp"
#include "support/metered_subject.hpp"

namespace sluice::test {

inline constexpr uint64_t quota_classes_count = 6;

// What a subject's class stands for here; 0: it has no quota.
inline std::vector<api::Limit> limits_of_class(uint64_t quota_class) {
  using api::LimitKind;
  switch (quota_class % quota_classes_count) {
    case 0:
      return {};
    case 1:
      return {limit_of(LimitKind::sliding, 500), limit_of(LimitKind::sliding, 30'000),
              limit_of(LimitKind::sliding, 1'000'000, 86'400'000)};
    case 2:
      return {limit_of(LimitKind::concurrency), limit_of(LimitKind::fixed),
              limit_of(LimitKind::anchored_day), limit_of(LimitKind::calendar)};
    case 3:
      return {limit_of(LimitKind::gcra, 50), limit_of(LimitKind::gcra, limits::amount_max)};
    case 4:
      return {limit_of(LimitKind::rolling_day, limits::amount_max)};
    default:
      return {limit_of(LimitKind::sliding, 10, limits::window_ms_max),
              limit_of(LimitKind::gcra, 10, limits::window_ms_max),
              limit_of(LimitKind::fixed, 10, limits::window_ms_min)};
  }
}

// The bytes as a part whose mark, format, length and checksum are right.
inline std::vector<std::byte> sealed(std::span<const std::byte> bytes) {
  using state::PartHeader;
  std::vector<std::byte> part(bytes.begin(), bytes.end());
  part.resize(std::max(part.size(), size_t{PartHeader::bytes}));
  const std::span<const std::byte> records = std::span(part).subspan(PartHeader::bytes);
  const auto length = static_cast<uint32_t>(records.size());
  std::memcpy(part.data(), "SLGP\1\0\0\0", 8);
  std::memcpy(part.data() + PartHeader::records_bytes_at, &length, sizeof length);
  const uint64_t checksum = state::header_hash(
      std::span<const std::byte>(part).first<PartHeader::bytes>(), state::records_hash(records));
  std::memcpy(part.data() + PartHeader::checksum_at, &checksum, sizeof checksum);
  return part;
}

class PartCheck {
 public:
  // Returns how many records are sound.
  size_t run(std::span<const std::byte> part) {
    auto reader = state::PartReader::open(part);
    if (!reader) return 0;
    latest_ = reader->header().latest();
    size_t at = state::PartHeader::bytes;
    size_t sound = 0;
    while (const auto record = reader->next()) {
      uint32_t head = 0;
      std::memcpy(&head, part.data() + at, sizeof head);
      const auto bytes = part.subspan(at, state::record_head_bytes + (head >> 8));
      at += bytes.size();
      sound += std::visit([&](const auto& found) { return check(found, bytes) ? 1 : 0; }, *record);
    }
    ASSERT(reader->damage() || at == part.size());
    return sound;
  }

 private:
  template <typename Record>
  bool check(const Record& record, std::span<const std::byte> bytes) {
    require_same(record, bytes);
    return true;
  }

  bool check(const state::StoredSubject& stored, std::span<const std::byte> bytes) {
    MeteredSubject subject = MeteredSubject(limits_of_class(stored.quota_class), latest_).blank();
    if (!state::unpack_meters(stored.meters, subject.shapes(), latest_, subject.words())) {
      return false;
    }
    require_same(state::SubjectRecord{.name = stored.name,
                                      .quota_class = stored.quota_class,
                                      .reset_order = stored.reset_order,
                                      .shapes = subject.shapes(),
                                      .words = subject.words()},
                 bytes);
    use(subject);
    return true;
  }

  template <typename Record>
  void require_same(const Record& record, std::span<const std::byte> bytes) {
    room_.resize(state::record_bytes_max(record));
    state::ByteWriter writer(room_);
    state::write_record(writer, record);
    ASSERT(std::ranges::equal(std::span(room_).first(writer.size()), bytes));
  }

  // Whatever a shard does with the meters of a subject next.
  static void use(MeteredSubject& subject) {
    subject.check();
    for (const int64_t elapsed_ns : {int64_t{0}, base::ns_per_s, 400 * base::ns_per_day}) {
      subject.next(elapsed_ns);
      for (size_t at = 0; at < subject.shapes().size(); ++at) use_meter(subject, at);
      subject.check();
    }
  }

  static void use_meter(MeteredSubject& subject, size_t at) {
    const limiter::Charge charge = subject.charge(at, 3, true);
    limiter::Meter meter = subject.meter(at);
    const int64_t now_ns = subject.now().ns;
    for (const bool all_refunded : {false, true}) {
      if (!meter.fits(5)) ASSERT(meter.fits_at_ns(5, all_refunded, subject.now()) >= now_ns);
    }
    ASSERT(meter.empty_at_ns(subject.now()) >= now_ns && meter.open() <= meter.used());
    meter.close(3, 2, charge, subject.now());
    if (at % 2 == 0) meter.reset(subject.now());
  }

  limiter::Moment latest_;
  std::vector<std::byte> room_;
};

}  // namespace sluice::test
