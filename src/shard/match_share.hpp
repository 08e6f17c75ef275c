// How many keys requests may have matched against new rules until the next turn. A match takes as
// long as twenty decisions: after a change of the rules, load on many keys would otherwise be
// answered late until each of them was matched.
// Flow:   renew() at a turn's end -> has_left() before a match that may wait -> spend() at each.
// Shape:  a share of the time since the last turn, but some in every turn: a shard that has time
//         matches all keys that are named.
// Units:  keys; a match is taken for 1 us.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::shard {

class MatchShare {
 public:
  static constexpr uint32_t keys_max = 256;

  // With more than keys_max in any turn, always so many.
  explicit MatchShare(uint32_t keys_min) noexcept
      : keys_min_(keys_min), keys_max_(std::max(keys_min, keys_max)), left_(keys_max_) {}

  bool has_left() const noexcept { return left_ > 0; }
  uint32_t left() const noexcept { return left_; }
  void spend() noexcept { left_ -= left_ > 0; }

  void renew(int64_t now_ns) noexcept {
    const int64_t keys = (now_ns - renewed_ns_) / ns_per_key;
    left_ = static_cast<uint32_t>(std::clamp<int64_t>(keys, keys_min_, keys_max_));
    renewed_ns_ = now_ns;
  }

 private:
  static constexpr int64_t ns_per_key = 4'000;

  uint32_t keys_min_;
  uint32_t keys_max_;
  uint32_t left_;
  int64_t renewed_ns_ = 0;
};

}  // namespace sluice::shard
