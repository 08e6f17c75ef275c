// A subject's meters without a store: the limits of a quota, and the words of their usage.
// Lives: a value; each call of next() is a call of the shard.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/limit.hpp"
#include "base/time.hpp"
#include "limiter/meter.hpp"

namespace sluice::test {

inline api::Limit limit_of(api::LimitKind kind, uint64_t amount = 1'000,
                           int64_t period_ms = 60'000) {
  const bool is_concurrency = kind == api::LimitKind::concurrency;
  api::Limit limit{.name = "l",
                   .metric = is_concurrency ? api::Metric::concurrency : api::Metric::tokens,
                   .kind = kind,
                   .amount = amount,
                   .period_ms = period_ms};
  if (kind == api::LimitKind::calendar) {
    limit.unit = api::CalendarUnit::month;
    limit.time_zone = "UTC";
  }
  return limit;
}

class MeteredSubject {
 public:
  MeteredSubject(const std::vector<api::Limit>& limits, const limiter::Moment& begun)
      : now_(begun) {
    uint32_t heads = 0;
    uint32_t rings = 0;
    for (const api::Limit& limit : limits) {
      limiter::MeterShape shape = limiter::compile(limit);
      shape.head_word = static_cast<uint16_t>(heads);
      shape.ring_word = static_cast<uint16_t>(rings);
      heads += limiter::head_words(shape);
      rings += limiter::ring_words(shape);
      shapes_.push_back(shape);
    }
    heads_.resize(heads);
    rings_.resize(rings);
    for (size_t at = 0; at < shapes_.size(); ++at) meter(at).begin(now_);
  }
  // The same limits with other words, which are arbitrary.
  MeteredSubject blank() const {
    MeteredSubject other = *this;
    other.heads_.assign(heads_.size(), arbitrary);
    other.rings_.assign(rings_.size(), arbitrary);
    return other;
  }

  std::span<const limiter::MeterShape> shapes() const { return shapes_; }
  limiter::Words words() { return {.heads = heads_.data(), .rings = rings_.data()}; }
  limiter::Meter meter(size_t at) { return {shapes_[at], words()}; }
  // The first words of one limit.
  uint64_t* heads(size_t at) { return heads_.data() + shapes_[at].head_word; }

  const limiter::Moment& now() const { return now_; }
  void next(int64_t elapsed_ns) {
    now_.ns += elapsed_ns;
    now_.wall_ns += elapsed_ns;
    ++now_.order;
  }
  limiter::Charge charge(size_t at, uint64_t amount, bool is_open) {
    meter(at).roll(now_);
    meter(at).charge(amount, is_open, now_);
    return {.ns = now_.ns, .order = now_.order};
  }
  // Aborts when a meter is not sound.
  void check() {
    for (size_t at = 0; at < shapes_.size(); ++at) meter(at).check();
  }
  bool has_same_words(const MeteredSubject& other) const {
    return heads_ == other.heads_ && rings_ == other.rings_;
  }

 private:
  static constexpr uint64_t arbitrary = 0xABAB'ABAB'ABAB'ABAB;

  limiter::Moment now_;
  std::vector<limiter::MeterShape> shapes_;
  std::vector<uint64_t> heads_;
  std::vector<uint64_t> rings_;
};

}  // namespace sluice::test
