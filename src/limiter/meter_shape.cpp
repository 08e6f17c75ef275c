#include "limiter/meter_shape.hpp"

#include "base/time.hpp"
#include "limiter/ring_meter.hpp"
#include "limiter/zone.hpp"

namespace sluice::limiter {
namespace {

using api::LimitKind;

uint32_t ring_places(LimitKind kind) noexcept {
  if (kind == LimitKind::sliding || kind == LimitKind::gcra) return sliding_places;
  return kind == LimitKind::rolling_day ? rolling_day_places : 0;
}

int64_t period_ns(const api::Limit& limit) noexcept {
  const bool is_day = limit.kind == LimitKind::anchored_day || limit.kind == LimitKind::rolling_day;
  return is_day ? base::ns_per_day : limit.period_ms * base::ns_per_ms;
}

}  // namespace

MeterShape compile(const api::Limit& limit) noexcept {
  MeterShape shape{.metric = limit.metric,
                   .kind = limit.kind,
                   .ceiling = limit.ceiling,
                   .unit = limit.unit,
                   .count_cached = limit.count_cached,
                   .amount = limit.amount,
                   .period_ns = period_ns(limit)};
  if (const uint32_t places = ring_places(limit.kind); places != 0) {
    shape.ring_mask = static_cast<uint16_t>(places - 1);
    shape.width_ns = (shape.period_ns + shape.ring_mask - 1) / shape.ring_mask;
    shape.slides = limit.kind != LimitKind::gcra && limit.ceiling == api::Ceiling::number;
  }
  // A bucket without a number leaks at the greatest rate: without a rate it would never empty
  // again.
  const bool is_word = limit.ceiling != api::Ceiling::number;
  if (limit.kind == LimitKind::gcra && is_word) shape.amount = limits::amount_max;
  if (limit.kind == LimitKind::calendar) shape.zone = find_zone(limit.time_zone);
  return shape;
}

uint32_t head_words(const MeterShape& shape) noexcept {
  if (shape.kind == LimitKind::concurrency) return 0;
  if (shape.kind == LimitKind::gcra) return head_words_max;
  return shape.ring_mask != 0 ? RingMeter::words_count : 4;
}

uint32_t ring_words(const MeterShape& shape) noexcept {
  return 2 * ring_places(shape.kind);
}

}  // namespace sluice::limiter
