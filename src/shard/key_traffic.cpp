#include "shard/key_traffic.hpp"

#include <algorithm>
#include <cstring>

namespace sluice::shard {
namespace {

using Outcome = HeavyHitters::Outcome;

// A rate over less time would be that of a moment.
constexpr int64_t spanned_ms_min = 1'000;

constexpr uint64_t entry_weight = 1'024;

// Lower rates would be shown as 0.0, so they are left out.
constexpr double per_s_min = 0.05;

// After so many halvings nothing is left.
constexpr int64_t halvings_max = 64;

uint64_t seed_of(const HashSecret& secret) noexcept {
  uint64_t seed = 0;
  std::memcpy(&seed, secret.data(), sizeof seed);
  return seed;
}

// Every refusal is a denial here.
Outcome outcome_of(api::Verdict verdict) noexcept {
  if (verdict == api::Verdict::approved) return Outcome::approved;
  return verdict == api::Verdict::queued ? Outcome::queued : Outcome::denied;
}

bool is_heavier(const HeavyKey& a, const HeavyKey& b) noexcept {
  return a.per_s() > b.per_s();
}

}  // namespace

KeyTraffic::KeyTraffic(const HashSecret& secret) : sampler_(seed_of(secret)) {
  heaviest_.reserve(HeavyHitters::counters_max);
}

void KeyTraffic::add(const KeyHash& hash, std::string_view key, api::Verdict verdict,
                     uint64_t weight, int64_t now_ms) noexcept {
  age(now_ms);
  hitters_.add(hash, key, outcome_of(verdict), weight * entry_weight);
}

void KeyTraffic::age(int64_t now_ms) noexcept {
  if (halved_ms_ == INT64_MIN) halved_ms_ = now_ms;
  const int64_t halvings = (now_ms - halved_ms_) / half_life_ms;
  for (int64_t i = 0; i < std::min(halvings, halvings_max); ++i) {
    hitters_.halve();
    spanned_ms_ = (spanned_ms_ + half_life_ms) / 2;
  }
  halved_ms_ += halvings * half_life_ms;
}

std::span<HeavyKey> KeyTraffic::heaviest(uint32_t keys_max, int64_t now_ms) noexcept {
  age(now_ms);
  const int64_t spanned_ms = std::max(spanned_ms_ + now_ms - halved_ms_, spanned_ms_min);
  const auto rate = [&](uint64_t count) {
    return 1'000 * static_cast<double>(count) / static_cast<double>(entry_weight * spanned_ms);
  };
  heaviest_.clear();
  for (const HeavyHitters::Counter& counter : hitters_.counters()) {
    if (rate(counter.seen()) < per_s_min) continue;
    heaviest_.push_back({.key = hitters_.text(counter),
                         .key_bytes = counter.key_bytes,
                         .approved_per_s = rate(counter.outcomes[0]),
                         .denied_per_s = rate(counter.outcomes[1]),
                         .queued_per_s = rate(counter.outcomes[2]),
                         .per_s_max = rate(counter.count),
                         .waiting = 0});
  }
  std::ranges::sort(heaviest_, is_heavier);
  return std::span(heaviest_).first(std::min<size_t>(heaviest_.size(), keys_max));
}

}  // namespace sluice::shard
