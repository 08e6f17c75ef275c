// The answer to one entry.
// Shape: one byte on the wire (proto/sluicegate.capnp, Verdict); numbers are never reused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace sluicegate {

// Zero is never sent, so that a missing column never reads as an approval.
enum class Verdict : uint8_t {
  none = 0,
  approved = 1,
  denied = 2,        // the limit is reached, or the key's queue is full
  queued = 3,        // waits in the key's queue; the outcome follows in Granted
  table_full = 4,    // no room for another key
  waiters_full = 5,  // no room for another waiter in the server
  overloaded = 6,
  not_allowed = 7,  // the operator disabled this override
  never_fits = 8,   // the cost is above the limit
  invalid_key = 9,  // empty or too long
  wait_limit = 10,  // waited as long as allowed
  withdrawn = 11,
  draining = 12,  // the server is shutting down
  handles_full = 13,
  owner_unreachable = 14,
  connection_waiters_full = 15,  // this connection has its share of the waiters
  key_waiters_full = 16,         // this key has
};

inline constexpr size_t verdicts_count = 17;

// "approved", "table_full", ...; "unknown" for a verdict of a newer server.
std::string_view name(Verdict) noexcept;

// A verdict, or another code of one byte, per entry. When all entries have the same code, the wire
// carries it once.
template <typename Code>
class CodeColumn {
 public:
  CodeColumn() = default;
  // `bytes` holds one byte, or `count` of them.
  CodeColumn(std::span<const uint8_t> bytes, size_t count) noexcept
      : bytes_{bytes}, count_{count} {}

  size_t size() const noexcept { return count_; }
  Code operator[](size_t index) const noexcept {
    return static_cast<Code>(bytes_[bytes_.size() == 1 ? 0 : index]);
  }
  // Into the caller's array of size() elements.
  void copy_to(std::span<Code> to) const noexcept {
    if (bytes_.size() == 1) {
      std::fill_n(to.begin(), count_, static_cast<Code>(bytes_[0]));
    } else if (count_ > 0) {
      std::memcpy(to.data(), bytes_.data(), count_);
    }
  }
  // As received: one byte, or size() bytes.
  std::span<const uint8_t> bytes() const noexcept { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
  size_t count_ = 0;
};

using VerdictColumn = CodeColumn<Verdict>;

}  // namespace sluicegate
