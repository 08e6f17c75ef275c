#include "wire/http2_framing.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/http2_fields.hpp"
#include "wire/http2_frames.hpp"
#include "wire/http_text.hpp"

namespace sluice::wire {
namespace {

// Against floods (RFC 9113, 10.5).
constexpr size_t continuations_max = 8;
constexpr size_t settings_max = 32;
constexpr size_t unsent_acks_max = 100;

constexpr int32_t connection_window_bytes = 256 * 1024;

constexpr size_t setting_bytes = 6;
constexpr uint32_t frame_bytes_min = 1 << 14;
constexpr uint32_t frame_bytes_max = (1 << 24) - 1;

using SessionPointer = std::unique_ptr<nghttp2_session, void (*)(nghttp2_session*)>;

nghttp2_option* make_option() noexcept {
  nghttp2_option* option = nullptr;
  ASSERT(nghttp2_option_new(&option) == 0);
  // Http2Frames bounds resets: nghttp2's goodbye would be INTERNAL_ERROR.
  nghttp2_option_set_stream_reset_rate_limit(option, UINT64_MAX, 1);
  nghttp2_option_set_max_continuations(option, continuations_max);
  nghttp2_option_set_max_settings(option, settings_max);
  nghttp2_option_set_max_outbound_ack(option, unsent_acks_max);
  return option;
}

std::string_view text_of(const uint8_t* bytes, size_t size) noexcept {
  return {reinterpret_cast<const char*>(bytes), size};
}

// RFC 9113, 6.5.2.
bool is_valid_setting(uint32_t id, uint32_t value) noexcept {
  switch (id) {
    case NGHTTP2_SETTINGS_ENABLE_PUSH:
    case NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL:
    case NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES:
      return value <= 1;
    case NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE:
      return value <= NGHTTP2_MAX_WINDOW_SIZE;
    case NGHTTP2_SETTINGS_MAX_FRAME_SIZE:
      return value >= frame_bytes_min && value <= frame_bytes_max;
    default:
      return true;
  }
}

bool ends_stream(const nghttp2_frame_hd& head) noexcept {
  return (head.flags & NGHTTP2_FLAG_END_STREAM) != 0;
}

bool is_request(const nghttp2_frame* frame) noexcept {
  return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

// Not those by which the server refuses a stream, or ends one that takes too long.
bool is_error_reset(const nghttp2_frame* frame) noexcept {
  if (frame->hd.type != NGHTTP2_RST_STREAM) return false;
  const uint32_t error = frame->rst_stream.error_code;
  return error != NGHTTP2_NO_ERROR && error != NGHTTP2_REFUSED_STREAM && error != NGHTTP2_CANCEL;
}

bool is_trailers(const nghttp2_frame* frame) noexcept {
  return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_HEADERS;
}

}  // namespace

std::optional<std::string> decode_http2_settings(std::string_view text) {
  std::optional<std::string> settings = decode_base64url(text);
  if (!settings || settings->size() % setting_bytes != 0 ||
      settings->size() > settings_max * setting_bytes) {
    return std::nullopt;
  }
  const auto number = [&](size_t begin, size_t bytes) {
    uint32_t value = 0;
    for (size_t at = begin; at < begin + bytes; ++at) {
      value = value << 8 | static_cast<uint8_t>((*settings)[at]);
    }
    return value;
  };
  for (size_t at = 0; at < settings->size(); at += setting_bytes) {
    const uint32_t id = number(at, 2);
    const uint32_t value = number(at + 2, 4);
    if (!is_valid_setting(id, value)) return std::nullopt;
    if (id != NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES) continue;
    // It may not change (RFC 9218, 2.1).
    for (size_t before = 0; before < at; before += setting_bytes) {
      if (number(before, 2) == id && number(before + 2, 4) != value) return std::nullopt;
    }
  }
  return settings;
}

// What nghttp2 allocates, up to the connection's bound.
struct Http2Framing::Memory {
  static void* take(size_t bytes, void* user) noexcept {
    Http2Framing& framing = *static_cast<Http2Framing*>(user);
    return framing.has_room(bytes) ? framing.counted(framing.blocks_.take(bytes)) : nullptr;
  }
  static void* take_zeroed(size_t count, size_t bytes, void* user) noexcept {
    void* const memory = take(count * bytes, user);
    return memory == nullptr ? nullptr : std::memset(memory, 0, count * bytes);
  }
  static void* resize(void* memory, size_t bytes, void* user) noexcept {
    Http2Framing& framing = *static_cast<Http2Framing*>(user);
    const size_t bytes_before = base::BlockPool::size_of(memory);
    if (!framing.has_room(bytes)) return nullptr;
    void* const resized = base::BlockPool::resize(memory, bytes);
    if (resized != nullptr) framing.memory_bytes_ -= bytes_before;
    return framing.counted(resized);
  }
  static void give(void* memory, void* user) noexcept {
    Http2Framing& framing = *static_cast<Http2Framing*>(user);
    const size_t bytes = base::BlockPool::size_of(memory);
    framing.memory_bytes_ -= bytes;
    framing.blocks_.give(memory, bytes);
  }
};

bool Http2Framing::has_room(size_t bytes) const noexcept {
  return memory_bytes_ < memory_bytes_max_ && bytes <= memory_bytes_max_ - memory_bytes_;
}

void* Http2Framing::counted(void* memory) noexcept {
  memory_bytes_ += base::BlockPool::size_of(memory);
  return memory;
}

struct Http2Framing::Callbacks {
  static Http2Framing& of(void* user) noexcept { return *static_cast<Http2Framing*>(user); }

  static int on_begin_frame(nghttp2_session* session, const nghttp2_frame_hd* head,
                            void* user) noexcept {
    // A head for a stream below the highest one: nghttp2 would take it for trailers of a stream
    // that it has forgotten, as it may be up to the last stream that was refused or reset.
    if (head->type != NGHTTP2_HEADERS) return 0;
    const int32_t last = nghttp2_session_get_last_proc_stream_id(session);
    if (head->stream_id >= last || head->stream_id <= of(user).reset_) return 0;
    const bool is_new = nghttp2_session_find_stream(session, head->stream_id) == nullptr;
    if (is_new) of(user).terminate(Http2Error::protocol_error);
    return 0;
  }

  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame* frame, int error,
                              void* user) noexcept {
    if (error != NGHTTP2_ERR_REFUSED_STREAM) return 0;
    of(user).reset_ = std::max(of(user).reset_, frame->hd.stream_id);
    return 0;
  }

  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) noexcept {
    of(user).fields_bytes_ = 0;
    if (is_request(frame)) of(user).events_.on_head_begin(frame->hd.stream_id);
    return 0;
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                       size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                       void* user) noexcept {
    const std::string_view name_text = text_of(name, name_size);
    const std::string_view value_text = text_of(value, value_size);
    if (!of(user).count_field(name_text, value_text)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (is_request(frame)) of(user).events_.on_field(name_text, value_text);
    return 0;
  }

  static int on_frame_recv(nghttp2_session* session, const nghttp2_frame* frame,
                           void* user) noexcept {
    Http2Events& events = of(user).events_;
    const bool is_last = ends_stream(frame->hd);
    if (is_request(frame)) {
      events.on_head_end(frame->hd.stream_id, !is_last);
    } else if (is_trailers(frame) && of(user).fields_bytes_ > limits::http_header_bytes_max) {
      // An answered stream ends here anyway.
      const bool is_answered =
          nghttp2_session_get_stream_local_close(session, frame->hd.stream_id) != 0;
      if (!is_answered) of(user).reset(frame->hd.stream_id, Http2Error::enhance_your_calm);
    } else if (is_last && (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS)) {
      events.on_body_end(frame->hd.stream_id);
    }
    return 0;
  }

  static int on_data_chunk(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* data,
                           size_t size, void* user) noexcept {
    of(user).events_.on_body(stream, std::as_bytes(std::span(data, size)));
    return 0;
  }

  static int on_frame_send(nghttp2_session*, const nghttp2_frame* frame, void* user) noexcept {
    if (is_error_reset(frame)) of(user).events_.on_error_reset();
    const bool is_answer = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (is_answer && ends_stream(frame->hd)) {
      of(user).events_.on_answer_sent(frame->hd.stream_id,
                                      Http2Frames::head_bytes + frame->hd.length);
    }
    return 0;
  }

  static int on_stream_close(nghttp2_session*, int32_t stream, uint32_t, void* user) noexcept {
    of(user).events_.on_closed(stream);
    return 0;
  }

  static ssize_t read(nghttp2_session*, int32_t stream, uint8_t* out, size_t size, uint32_t* flags,
                      nghttp2_data_source*, void* user) noexcept {
    const auto part =
        of(user).events_.read_body(stream, std::as_writable_bytes(std::span(out, size)));
    if (part.is_last) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (part.bytes == 0 && !part.is_last) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(part.bytes);
  }

  static nghttp2_session_callbacks* make() noexcept {
    nghttp2_session_callbacks* callbacks = nullptr;
    ASSERT(nghttp2_session_callbacks_new(&callbacks) == 0);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    return callbacks;
  }

  static SessionPointer session(Http2Framing& user) noexcept {
    static nghttp2_session_callbacks* const callbacks = make();
    static nghttp2_option* const option = make_option();
    nghttp2_mem memory{.mem_user_data = &user,
                       .malloc = Memory::take,
                       .free = Memory::give,
                       .calloc = Memory::take_zeroed,
                       .realloc = Memory::resize};
    nghttp2_session* session = nullptr;
    nghttp2_session_server_new3(&session, callbacks, &user, option, &memory);
    return {session, nghttp2_session_del};
  }
};

Http2Framing::Http2Framing(Http2Events& events, base::BlockPool& blocks,
                           size_t memory_bytes_max) noexcept
    : events_(events),
      blocks_(blocks),
      memory_bytes_max_(memory_bytes_max),
      session_(Callbacks::session(*this)),
      fields_(std::make_unique<Http2Fields>()) {
  if (!session_) return;
  const std::array settings{
      nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max},
      nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits::http_header_bytes_max}};
  check(
      nghttp2_submit_settings(session_.get(), NGHTTP2_FLAG_NONE, settings.data(), settings.size()));
  check(nghttp2_session_set_local_window_size(session_.get(), NGHTTP2_FLAG_NONE, 0,
                                              connection_window_bytes));
}

Http2Framing::~Http2Framing() = default;

bool Http2Framing::upgrade(std::span<const std::byte> settings, bool head_only) noexcept {
  const auto* bytes = reinterpret_cast<const uint8_t*>(settings.data());
  return session_ &&
         nghttp2_session_upgrade2(session_.get(), bytes, settings.size(), head_only, nullptr) == 0;
}

bool Http2Framing::receive(std::span<const std::byte> bytes) noexcept {
  if (!session_) return false;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (nghttp2_session_mem_recv(session_.get(), data, bytes.size()) < 0) has_failed_ = true;
  return is_open();
}

// False: there are too many. Behind terminate() alone nghttp2 would decode the rest of a frame, in
// which each byte may stand for a field of kilobytes; a callback that fails stops it.
bool Http2Framing::count_field(std::string_view name, std::string_view value) noexcept {
  const size_t bytes = field_line_bytes(name, value);
  fields_bytes_ += bytes;
  decoded_bytes_ += bytes;
  if (fields_bytes_ <= fields_bytes_max) return true;
  terminate(Http2Error::enhance_your_calm);
  return false;
}

void Http2Framing::check(int outcome) noexcept {
  if (nghttp2_is_fatal(outcome) != 0) has_failed_ = true;
}

std::span<const std::byte> Http2Framing::next() noexcept {
  if (!pending_.empty() || !session_) return pending_;
  const uint8_t* data = nullptr;
  const ssize_t size = nghttp2_session_mem_send(session_.get(), &data);
  if (size < 0) has_failed_ = true;
  if (size > 0) pending_ = std::as_bytes(std::span(data, static_cast<size_t>(size)));
  return pending_;
}

void Http2Framing::answer(Http2StreamId stream, const Answer& answer) noexcept {
  fields_->encode(answer.head, answer.wall_ns, answer.body_bytes);
  const auto fields = fields_->list();
  const nghttp2_data_provider body{.source = {}, .read_callback = Callbacks::read};
  check(nghttp2_submit_response(session_.get(), stream, fields.data(), fields.size(),
                                answer.has_body ? &body : nullptr));
}

void Http2Framing::answer_continue(Http2StreamId stream) noexcept {
  fields_->encode_status(100);
  const auto fields = fields_->list();
  check(nghttp2_submit_headers(session_.get(), NGHTTP2_FLAG_NONE, stream, nullptr, fields.data(),
                               fields.size(), nullptr));
}

void Http2Framing::resume(Http2StreamId stream) noexcept {
  check(nghttp2_session_resume_data(session_.get(), stream));
}

void Http2Framing::reset(Http2StreamId stream, Http2Error error) noexcept {
  reset_ = std::max(reset_, stream);
  check(nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream,
                                  static_cast<uint32_t>(error)));
}

void Http2Framing::announce_end() noexcept {
  if (session_) check(nghttp2_submit_shutdown_notice(session_.get()));
}

Http2StreamId Http2Framing::go_away(Http2Error error) noexcept {
  if (!session_) return 0;
  const Http2StreamId last = nghttp2_session_get_last_proc_stream_id(session_.get());
  check(nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE, last, static_cast<uint32_t>(error),
                              nullptr, 0));
  return last;
}

void Http2Framing::terminate(Http2Error error) noexcept {
  if (session_) nghttp2_session_terminate_session(session_.get(), static_cast<uint32_t>(error));
}

bool Http2Framing::is_open() const noexcept {
  return session_ && !has_failed_ &&
         (nghttp2_session_want_read(session_.get()) != 0 ||
          nghttp2_session_want_write(session_.get()) != 0);
}

}  // namespace sluice::wire
