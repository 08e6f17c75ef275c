// GET /debug from its request to its answer: asks the shards for pages of keys and writes them as
// long as the peer reads.
// Flow:   begin() -> on_counted() -> proceed() once a loop iteration, on_page() for each page ->
//         complete -> finish().
// Shape:  a body of up to DebugWalk::small_body_bytes is one answer, as Go's server does; a larger
//         one is streamed.
// Lives:  on the heap, at most DebugWalk::walks_max of a worker.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "session/context.hpp"
#include "session/debug_walk.hpp"
#include "session/rest_transport.hpp"

namespace sluice::session {

class DebugExchange {
 public:
  enum class Progress : uint8_t {
    waits,     // for a shard, or for the peer to read
    goes_on,   // has more to do in the next loop iteration
    complete,  // finish() is next
  };

  DebugExchange(Context& context, RestTransport& transport, const wire::RestDebug& request);
  ~DebugExchange();
  DebugExchange(const DebugExchange&) = delete;
  DebugExchange& operator=(const DebugExchange&) = delete;

  // Whether one more may begin.
  static bool has_place(const Context& context) noexcept;

  void begin() noexcept;
  void on_counted(uint64_t keys_count) noexcept;
  void on_page(std::span<const api::KeyState> keys, uint64_t next_cursor);
  Progress proceed();
  void finish() noexcept;

  bool awaits_reply() const noexcept { return awaits_reply_; }

 private:
  bool write_answer();
  bool write_rows();
  uint32_t slice_keys() const noexcept;

  Context& context_;
  RestTransport& transport_;
  DebugWalk walk_;
  bool awaits_reply_ = false;  // of a shard
  bool is_stream_ = false;     // begin_keys() was called
  std::array<std::byte, DebugWalk::small_body_bytes> small_body_;
  size_t small_body_bytes_ = 0;
};

}  // namespace sluice::session
