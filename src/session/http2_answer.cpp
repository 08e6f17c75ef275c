#include "session/http2_answer.hpp"

#include <optional>
#include <string_view>

#include "base/assert.hpp"

namespace sluice::session {

void Http2Answer::write(const wire::ReplyValue& value, const wire::ReplyContext& context,
                        uint64_t reservation) noexcept {
  if (is_dropped()) return;
  const std::string_view body = context.head_only ? std::string_view{} : value.body;
  std::optional<size_t> body_bytes;
  if (wire::has_length(value.head, context)) body_bytes = value.body.size();
  reservation_ = reservation;
  body_.set(body);
  connection_.unread_bytes += body.size();
  send_head(value.head, body_bytes, !body.empty());
}

void Http2Answer::begin(const wire::ReplyHead& head) noexcept {
  if (!is_dropped()) send_head(head, std::nullopt, true);
}

void Http2Answer::send_head(const wire::ReplyHead& head, std::optional<size_t> body_bytes,
                            bool has_body) noexcept {
  ASSERT(stage_ == Stage::none);
  stage_ = Stage::begun;
  note_progress();
  connection_.framing.answer(stream_, {.head = head,
                                       .wall_ns = connection_.context.now.wall_ns,
                                       .body_bytes = body_bytes,
                                       .has_body = has_body});
}

wire::Http2Events::BodyPart Http2Answer::read(std::span<std::byte> out,
                                              const Pace& least) noexcept {
  const size_t bytes = body_.read(out);
  connection_.unread_bytes -= bytes;
  read_bytes_ += bytes;
  if (read_bytes_ >= least.bytes) note_progress();
  return {.bytes = bytes, .is_last = body_.is_read()};
}

void Http2Answer::note_progress() noexcept {
  unread_since_ms_ = connection_.context.now_ms();
  read_bytes_ = 0;
}

int64_t Http2Answer::deadline_ms(const Pace& least) const noexcept {
  return body_.unread_bytes() > 0 ? unread_since_ms_ + least.ms : base::never_ms;
}

void Http2Answer::drop() noexcept {
  stage_ = Stage::dropped;
  connection_.unread_bytes -= body_.unread_bytes();
  body_ = {};
}

}  // namespace sluice::session
