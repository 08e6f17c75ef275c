#include "session/debug_exchange.hpp"

#include "wire/content_type.hpp"

namespace sluice::session {

DebugExchange::DebugExchange(Context& context, RestTransport& transport,
                             const wire::RestDebug& request)
    : context_(context), transport_(transport), walk_(request) {
  ++context_.debug_walks_count;
}

DebugExchange::~DebugExchange() {
  --context_.debug_walks_count;
}

bool DebugExchange::has_place(const Context& context) noexcept {
  return context.debug_walks_count < DebugWalk::walks_max && context.backend.may_query();
}

void DebugExchange::begin() noexcept {
  awaits_reply_ = true;
  transport_.count_keys();
}

void DebugExchange::on_counted(uint64_t keys_count) noexcept {
  awaits_reply_ = false;
  walk_.expect(keys_count);
}

void DebugExchange::on_page(std::span<const api::KeyState> keys, uint64_t next_cursor) {
  awaits_reply_ = false;
  walk_.add(keys, next_cursor);
}

DebugExchange::Progress DebugExchange::proceed() {
  if (awaits_reply_) return Progress::waits;
  if (walk_.needs_page()) {
    walk_.forget_written();
    if (!transport_.make_query_room()) return Progress::waits;
    awaits_reply_ = true;
    transport_.page(walk_.cursor(), slice_keys());
    if (awaits_reply_) return Progress::waits;
  }
  const bool gathers = walk_.sorted() && walk_.needs_page();
  if (!gathers && write_answer()) return Progress::complete;
  return transport_.has_room() ? Progress::goes_on : Progress::waits;
}

// Returns whether the answer is complete.
bool DebugExchange::write_answer() {
  if (!is_stream_ && walk_.sorted()) {
    small_body_bytes_ = walk_.encode_whole(small_body_).value_or(0);
    if (small_body_bytes_ > 0) return true;
  }
  if (!is_stream_) transport_.begin_keys(walk_.pretty(), !walk_.sorted());
  is_stream_ = true;
  return write_rows() && !walk_.needs_page();
}

// Writes a slice of the gathered rows; returns whether all of them are written.
bool DebugExchange::write_rows() {
  for (uint32_t left = slice_keys(); walk_.has_row(); --left) {
    if (!transport_.has_room() || left == 0) return false;
    transport_.write_key(walk_.take_row());
    context_.work.spend(work::debug_key);
  }
  return true;
}

// Walks go on behind the requests of a turn. If these have taken all of it, a walk does no more
// than it needs to come to its end.
uint32_t DebugExchange::slice_keys() const noexcept {
  return context_.work.is_over() ? DebugWalk::busy_slice_keys : DebugWalk::slice_keys;
}

void DebugExchange::finish() noexcept {
  if (is_stream_) return transport_.end_keys();
  const auto* body = reinterpret_cast<const char*>(small_body_.data());
  transport_.answer(
      wire::RestContent{.content_type = wire::application_json, .body = {body, small_body_bytes_}},
      {});
}

}  // namespace sluice::session
