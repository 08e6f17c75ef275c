#include "migration/subject_meters.hpp"

#include <algorithm>

#include "limiter/ring_meter.hpp"
#include "migration/model_quota.hpp"

namespace sluice::migration {
namespace {

using limiter::MeterShape;
using limiter::Moment;

// Of calls, orders are never behind the time; here each charge is a call.
Moment moment_at(int64_t state_ns) noexcept {
  return {.ns = state_ns, .wall_ns = 0, .order = static_cast<uint64_t>(state_ns)};
}

constexpr int64_t sub_window_ns = minute_ms * base::ns_per_ms / (limiter::sliding_places - 1);
constexpr int64_t clock_tolerance_ns = base::ns_per_ms;

constexpr size_t limit_place(ModelLimit limit) noexcept {
  return static_cast<size_t>(limit);
}

}  // namespace

StateMoment new_state_moment(int64_t wall_ns) noexcept {
  return {.state_ns = 2 * base::ns_per_day + wall_ns % (minute_ms * base::ns_per_ms),
          .wall_ns = wall_ns};
}

StateMoment corrected(const StateMoment& moment) noexcept {
  const int64_t apart_ns = (moment.wall_ns - moment.state_ns) % sub_window_ns;
  const int64_t off_ns = apart_ns < sub_window_ns / 2 ? apart_ns : apart_ns - sub_window_ns;
  if (off_ns <= -clock_tolerance_ns || off_ns >= clock_tolerance_ns) return moment;
  return {.state_ns = moment.state_ns, .wall_ns = moment.wall_ns - off_ns};
}

SubjectMeters::SubjectMeters(std::span<const MeterShape> shapes)
    : shapes_(shapes.begin(), shapes.end()) {
  size_t heads = 0;
  size_t rings = 0;
  for (const MeterShape& shape : shapes_) {
    heads = std::max(heads, size_t{shape.head_word} + limiter::head_words(shape));
    rings = std::max(rings, size_t{shape.ring_word} + limiter::ring_words(shape));
  }
  heads_.resize(heads);
  rings_.resize(rings);
}

SubjectMeters::SubjectMeters(std::span<const MeterShape> shapes, const Moment& begin)
    : SubjectMeters(shapes) {
  for (size_t limit = 0; limit < shapes_.size(); ++limit) meter(limit).begin(begin);
}

SubjectMeters::SubjectMeters(std::span<const MeterShape> shapes, const limiter::Words& words,
                             const Moment& now)
    : SubjectMeters(shapes) {
  std::copy_n(words.heads, heads_.size(), heads_.data());
  std::copy_n(words.rings, rings_.size(), rings_.data());
  for (size_t limit = 0; limit < shapes_.size(); ++limit) meter(limit).roll(now);
}

limiter::Words SubjectMeters::words() const noexcept {
  return {.heads = heads_.data(), .rings = rings_.data()};
}

void SubjectMeters::charge(size_t limit, uint64_t amount, int64_t state_ns) noexcept {
  const Moment moment = moment_at(state_ns);
  limiter::Meter of = meter(limit);
  of.roll(moment);
  of.charge(amount, false, moment);
}

std::vector<SubjectMeters::Charge> SubjectMeters::charges_of_ring(size_t limit,
                                                                  int64_t now_ns) const {
  const MeterShape& shape = shapes_[limit];
  const limiter::RingMeter ring(shape, words());
  std::vector<Charge> charges;
  for (int64_t sub_window = ring.oldest(); sub_window <= ring.newest(); ++sub_window) {
    const uint64_t used = ring.place(sub_window).used;
    const int64_t last_ns = (sub_window + 1) * shape.width_ns - 1;
    if (used > 0) charges.push_back({.state_ns = std::min(last_ns, now_ns), .amount = used});
  }
  return charges;
}

std::optional<SubjectMeters::Charge> SubjectMeters::charge_of_day(size_t limit) const {
  const uint64_t* const heads = heads_.data() + shapes_[limit].head_word;
  const uint64_t used = heads[limiter::Meter::used_at];
  if (used == 0) return std::nullopt;
  const auto end_ns = static_cast<int64_t>(heads[limiter::Meter::end_at]);
  return Charge{.state_ns = end_ns - shapes_[limit].period_ns, .amount = used};
}

void charge(SubjectMeters& meters, const LiveUsage& usage, const StateMoment& now) noexcept {
  for (const int64_t wall_ns : usage.requests_wall_ns) {
    meters.charge(limit_place(ModelLimit::rpm), 1, now.state_at(wall_ns));
  }
  for (const transfer::TokenEvent& event : usage.tokens) {
    meters.charge(limit_place(ModelLimit::tpm), static_cast<uint64_t>(event.count),
                  now.state_at(event.wall_ns));
  }
  if (!usage.day) return;
  meters.charge(limit_place(ModelLimit::rpd), static_cast<uint64_t>(usage.day->count),
                now.state_at(usage.day->start_wall_ns));
}

}  // namespace sluice::migration
