// Latencies of frames: counts in buckets that are at most 1.6 % wide.
// Shape:  64 buckets for each power of two, as HdrHistogram's with two significant digits.
// Units:  nanoseconds in, microseconds out.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace sluice::load {

class LatencyHistogram {
 public:
  void add(uint64_t ns) noexcept {
    ++buckets_[bucket_of(ns)];
    ++count_;
    max_ns_ = std::max(max_ns_, ns);
  }

  LatencyHistogram& operator+=(const LatencyHistogram& other) noexcept {
    for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    max_ns_ = std::max(max_ns_, other.max_ns_);
    return *this;
  }

  // The upper end of the bucket that contains the quantile.
  double quantile_us(double quantile) const noexcept {
    const auto rank = static_cast<uint64_t>(quantile * static_cast<double>(count_));
    uint64_t passed = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      passed += buckets_[i];
      if (passed > rank) return us(std::min(upper_ns(i), max_ns_));
    }
    return max_us();
  }

  double max_us() const noexcept { return us(max_ns_); }
  uint64_t count() const noexcept { return count_; }

 private:
  static constexpr unsigned sub_bits = 6;
  static constexpr size_t sub_buckets = size_t{1} << sub_bits;
  static constexpr size_t buckets_count = (64 - sub_bits + 1) * sub_buckets;

  // Below 64 ns a bucket per nanosecond; above, the six bits behind the leading one choose.
  static constexpr size_t bucket_of(uint64_t ns) noexcept {
    if (ns < sub_buckets) return ns;
    const auto shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - sub_bits;
    return (size_t{shift} + 1) * sub_buckets + ((ns >> shift) & (sub_buckets - 1));
  }
  static constexpr uint64_t upper_ns(size_t bucket) noexcept {
    if (bucket < sub_buckets) return bucket;
    const size_t shift = bucket / sub_buckets - 1;
    return ((sub_buckets + bucket % sub_buckets + 1) << shift) - 1;
  }

  static double us(uint64_t ns) noexcept { return static_cast<double>(ns) / 1'000; }

  std::array<uint64_t, buckets_count> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ns_ = 0;
};

}  // namespace sluice::load
