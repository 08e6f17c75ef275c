// The reservations that a connection's replies name and that its client has not received yet: those
// of the send that is under way, and of the one that is being written behind it.
// Flow:   a reply is written -> add(); the connection ends before all is sent -> behind().
// Shape:  memory for each of the two sends: reservations from its front on; from its back on a word
//         for each reply: where it ends, and how many reservations there are up to it.
// Units:  bytes; words of memory.
// Errors: a reservation for which there is no room is not kept: it ends with its lifetime. There is
//         room for what replies name until a connection stops reading requests
//         (limits::undelivered_words).
// Lives:  as long as its session; the memory is the connection's. A send's memory is used again for
//         the next send but one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace sluice::session {

class UndeliveredList {
 public:
  using Memory = std::array<std::span<uint64_t>, 2>;

  explicit UndeliveredList(const Memory& memory) noexcept
      : sends_{Send{memory[0]}, Send{memory[1]}} {}

  // Adds a reply that ends at `end_bytes` of this send, with the reservations that it names (0:
  // none), in any range. Replies are added in their order.
  template <typename Reservations>
  void add(uint64_t send, size_t end_bytes, const Reservations& reservations) noexcept {
    Send& to = sends_[send % 2];
    if (to.number != send) to = Send{.words = to.words, .number = send};
    const uint32_t before = to.reservations_count;
    for (const uint64_t reservation : reservations) {
      if (reservation != 0 && to.has_room()) to.words[to.reservations_count++] = reservation;
    }
    if (to.reservations_count == before) return;
    ++to.replies_count;
    to.replies().front() = uint64_t{end_bytes} << 32 | to.reservations_count;
  }

  // The reservations of this send in replies that end behind its first `taken_bytes`.
  std::span<const uint64_t> behind(uint64_t send, size_t taken_bytes) const noexcept {
    const Send& of = sends_[send % 2];
    if (of.number != send) return {};
    const std::span<const uint64_t> replies = of.replies();
    const auto taken = std::ranges::partition_point(
        replies, [taken_bytes](uint64_t reply) { return reply >> 32 > taken_bytes; });
    const auto first = taken == replies.end() ? 0 : static_cast<uint32_t>(*taken);
    return of.words.first(of.reservations_count).subspan(first);
  }

 private:
  struct Send {
    std::span<uint64_t> words;
    uint64_t number = 0;  // 0 is no send's
    uint32_t reservations_count = 0;
    uint32_t replies_count = 0;

    // For one more reservation, and for the word of its reply.
    bool has_room() const noexcept {
      return reservations_count + replies_count + 2 <= words.size();
    }
    // The last reply first.
    std::span<uint64_t> replies() const noexcept { return words.last(replies_count); }
  };

  std::array<Send, 2> sends_;
};

}  // namespace sluice::session
