#include "wire/http2_client.hpp"

#include <nghttp2/nghttp2.h>

#include <array>
#include <charconv>

#include "base/assert.hpp"

namespace sluice::wire {
namespace {

nghttp2_nv field(std::string_view name, std::string_view value) noexcept {
  // nghttp2 copies both, and changes neither.
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

Http2ClientEvents::End end_of(uint32_t error) noexcept {
  if (error == NGHTTP2_NO_ERROR) return Http2ClientEvents::End::answered;
  if (error == NGHTTP2_REFUSED_STREAM) return Http2ClientEvents::End::not_processed;
  return Http2ClientEvents::End::failed;
}

}  // namespace

struct Http2Client::Callbacks {
  static Http2Client& of(void* user) noexcept { return *static_cast<Http2Client*>(user); }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                       size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                       void* user) noexcept {
    const std::string_view name_text(reinterpret_cast<const char*>(name), name_size);
    if (name_text != ":status") return 0;
    const auto* const text = reinterpret_cast<const char*>(value);
    uint16_t status = 0;
    std::from_chars(text, text + value_size, status);
    of(user).events_.on_status(frame->hd.stream_id, status);
    return 0;
  }

  static int on_data(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* data, size_t size,
                     void* user) noexcept {
    of(user).events_.on_body(stream, std::as_bytes(std::span(data, size)));
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) noexcept {
    const bool is_pong =
        frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
    if (is_pong) of(user).events_.on_pong();
    if (frame->hd.type == NGHTTP2_SETTINGS) of(user).knows_peer_ = true;
    if (frame->hd.type == NGHTTP2_GOAWAY) of(user).is_going_away_ = true;
    return 0;
  }

  // Streams above the last one that a GOAWAY names are closed here with REFUSED_STREAM.
  static int on_close(nghttp2_session*, int32_t stream, uint32_t error, void* user) noexcept {
    --of(user).streams_count_;
    of(user).events_.on_end(stream, end_of(error));
    return 0;
  }

  static nghttp2_session_callbacks* make() noexcept {
    nghttp2_session_callbacks* callbacks = nullptr;
    ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    return callbacks;
  }
};

Http2Client::Http2Client(Http2ClientEvents& events)
    : events_(events), session_(nullptr, nghttp2_session_del) {
  static nghttp2_session_callbacks* const callbacks = Callbacks::make();
  nghttp2_session* session = nullptr;
  ASSERT(nghttp2_session_client_new(&session, callbacks, this) == 0);
  session_.reset(session);
  const std::array settings{nghttp2_settings_entry{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
}

bool Http2Client::takes_requests() const noexcept {
  const uint32_t allowed =
      nghttp2_session_get_remote_settings(session_.get(), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  return knows_peer_ && !is_going_away_ && is_open() &&
         streams_count_ < std::min(allowed, streams_max);
}

int32_t Http2Client::request(const Request& request) noexcept {
  std::array<nghttp2_nv, 5> fields{field(":method", request.method), field(":scheme", "http"),
                                   field(":authority", request.authority),
                                   field(":path", request.path)};
  size_t count = 4;
  if (!request.correlation_id.empty()) {
    fields[count++] = field("x-correlation-id", request.correlation_id);
  }
  const int32_t stream =
      nghttp2_submit_request(session_.get(), nullptr, fields.data(), count, nullptr, nullptr);
  if (stream >= 0) {
    ++streams_count_;
  } else {
    // All numbers of streams are used up: it ends with the last answer, and another one begins.
    is_going_away_ = true;
    nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, nullptr, 0);
  }
  return stream;
}

void Http2Client::cancel(int32_t stream) noexcept {
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
}

void Http2Client::ping() noexcept {
  nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, nullptr);
}

bool Http2Client::receive(std::span<const std::byte> bytes) noexcept {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (nghttp2_session_mem_recv(session_.get(), data, bytes.size()) < 0) has_failed_ = true;
  return is_open();
}

std::span<const std::byte> Http2Client::next() noexcept {
  if (!pending_.empty()) return pending_;
  const uint8_t* data = nullptr;
  const ssize_t size = nghttp2_session_mem_send(session_.get(), &data);
  if (size < 0) has_failed_ = true;
  if (size > 0) pending_ = std::as_bytes(std::span(data, static_cast<size_t>(size)));
  return pending_;
}

bool Http2Client::is_open() const noexcept {
  return !has_failed_ && (nghttp2_session_want_read(session_.get()) != 0 ||
                          nghttp2_session_want_write(session_.get()) != 0);
}

}  // namespace sluice::wire
