// The client's side of an HTTP/2 connection without a socket, by libnghttp2: a second reading of
// the same standard, and the attacker's hand that writes raw frames.
// Flow:   ask() -> output() -> the server; its bytes -> receive() -> answer().
// Lives:  one connection; deterministic.
#pragma once

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::support {

// A frame of any content.
inline std::string http2_frame(uint8_t type, uint8_t flags, uint32_t stream,
                               std::string_view payload = {}) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(payload.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream >> shift));
  return frame.append(payload);
}

class Http2Client {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  struct Answer {
    int status = 0;
    std::map<std::string, std::string> fields;
    std::string body;
    int interim = 0;  // the last status below 200
    int heads = 0;    // of 200 and above
    bool ended = false;
    bool closed = false;            // neither side sends any more, or the request was never sent
    std::optional<uint32_t> reset;  // the error
  };

  // `window`: of each answer, in bytes.
  explicit Http2Client(std::optional<uint32_t> window = {}) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, 1 << 20);
    nghttp2_session* session = nullptr;
    nghttp2_session_client_new2(&session, callbacks, this, option);
    session_.reset(session);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry setting{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window.value_or(0)};
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &setting, window ? 1 : 0);
  }

  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // Opens no window from now on: the first 64 KiB are all.
  void read_nothing() { reads_ = false; }
  // Opens all windows again.
  void read_on() {
    reads_ = true;
    for (const auto& [stream, bytes] : std::exchange(unread_, {})) {
      nghttp2_session_consume(session_.get(), stream, bytes);
    }
  }

  // A body leaves in parts of so many bytes from now on, the first at once, each other one by
  // send_part().
  void send_in_parts(size_t part_bytes) { part_bytes_ = part_bytes; }
  void send_part(int32_t stream) { nghttp2_session_resume_data(session_.get(), stream); }

  // The client's side of an upgrade: stream 1 is the request that asked for it.
  void upgrade(bool head_only = false) {
    nghttp2_session_upgrade2(session_.get(), nullptr, 0, head_only, nullptr);
    answers_[1];
  }

  // The stream of a new request. `body`: absent for none.
  int32_t ask(const std::string& method, const std::string& path,
              const std::optional<std::string>& body = {}, const Fields& more = {}) {
    Fields fields{{":method", method}, {":scheme", "http"}, {":authority", "x"}, {":path", path}};
    fields.insert(fields.end(), more.begin(), more.end());
    return ask_with(fields, body);
  }
  int32_t ask_with(const Fields& fields, const std::optional<std::string>& body = {}) {
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : fields) {
      list.push_back({bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    }
    nghttp2_data_provider provider{};
    if (body) {
      bodies_.push_back(std::make_unique<Body>(Body{.text = *body, .part_bytes = part_bytes_}));
      provider = {.source = {.ptr = bodies_.back().get()}, .read_callback = read};
    }
    const int32_t stream = nghttp2_submit_request(session_.get(), nullptr, list.data(), list.size(),
                                                  body ? &provider : nullptr, nullptr);
    answers_[stream];
    return stream;
  }
  void reset(int32_t stream, uint32_t error = NGHTTP2_CANCEL) {
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream, error);
  }
  void ping() { nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, nullptr); }
  void raw(std::string_view bytes) { raw_.append(bytes); }
  void open_window(int32_t stream, int32_t bytes) {
    nghttp2_submit_window_update(session_.get(), NGHTTP2_FLAG_NONE, stream, bytes);
  }

  // What is to be sent, raw bytes last.
  std::string output() {
    std::string out;
    const uint8_t* data = nullptr;
    for (ssize_t size; (size = nghttp2_session_mem_send(session_.get(), &data)) > 0;) {
      out.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
    }
    return out.append(std::exchange(raw_, {}));
  }
  // False: the server has broken the protocol.
  bool receive(std::string_view bytes) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    return nghttp2_session_mem_recv(session_.get(), data, bytes.size()) >= 0;
  }

  const Answer& answer(int32_t stream) { return answers_.at(stream); }
  std::optional<uint32_t> goodbye() const { return goodbye_; }  // GOAWAY's error
  int32_t last_stream() const { return last_stream_; }          // GOAWAY's
  int goodbyes() const { return goodbyes_; }
  // The server has sent a frame that the standard forbids.
  bool got_invalid() const { return got_invalid_; }
  uint32_t streams_max() const {
    return nghttp2_session_get_remote_settings(session_.get(),
                                               NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  }

 private:
  struct Body {
    std::string text;
    size_t part_bytes;
    size_t sent = 0;
    bool is_part_sent = false;
  };

  static uint8_t* bytes(const std::string& text) {
    return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  }
  static Http2Client& of(void* user) { return *static_cast<Http2Client*>(user); }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                       size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                       void* user) {
    Answer& answer = of(user).answers_[frame->hd.stream_id];
    const std::string key(reinterpret_cast<const char*>(name), name_size);
    const std::string text(reinterpret_cast<const char*>(value), value_size);
    if (key != ":status") {
      answer.fields[key] = text;
    } else {
      const int status = std::stoi(text);
      (status < 200 ? answer.interim : answer.status) = status;
      answer.heads += status < 200 ? 0 : 1;
    }
    return 0;
  }
  static int on_data(nghttp2_session* session, uint8_t, int32_t stream, const uint8_t* data,
                     size_t size, void* user) {
    of(user).answers_[stream].body.append(reinterpret_cast<const char*>(data), size);
    if (of(user).reads_) {
      nghttp2_session_consume(session, stream, size);
    } else {
      of(user).unread_[stream] += size;
    }
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      of(user).goodbye_ = frame->goaway.error_code;
      of(user).last_stream_ = frame->goaway.last_stream_id;
      ++of(user).goodbyes_;
    }
    const bool is_part = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (is_part && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      of(user).answers_[frame->hd.stream_id].ended = true;
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
      of(user).answers_[frame->hd.stream_id].reset = frame->rst_stream.error_code;
    }
    return 0;
  }
  static int on_close(nghttp2_session*, int32_t stream, uint32_t, void* user) {
    of(user).answers_[stream].closed = true;
    return 0;
  }
  static int on_invalid(nghttp2_session*, const nghttp2_frame*, int, void* user) {
    of(user).got_invalid_ = true;
    return 0;
  }
  static ssize_t read(nghttp2_session*, int32_t, uint8_t* out, size_t size, uint32_t* flags,
                      nghttp2_data_source* source, void*) {
    Body& body = *static_cast<Body*>(source->ptr);
    if (body.is_part_sent) {
      body.is_part_sent = false;
      return NGHTTP2_ERR_DEFERRED;
    }
    const size_t part = std::min(size, body.part_bytes);
    const size_t count = body.text.copy(reinterpret_cast<char*>(out), part, body.sent);
    body.sent += count;
    body.is_part_sent = body.part_bytes < SIZE_MAX;
    if (body.sent == body.text.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }

  struct Delete {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  std::unique_ptr<nghttp2_session, Delete> session_;
  std::map<int32_t, Answer> answers_;
  std::vector<std::unique_ptr<Body>> bodies_;
  std::string raw_;
  bool reads_ = true;
  bool got_invalid_ = false;
  size_t part_bytes_ = SIZE_MAX;
  std::map<int32_t, size_t> unread_;  // received since read_nothing()
  std::optional<uint32_t> goodbye_;
  int32_t last_stream_ = -1;
  int goodbyes_ = 0;
};

}  // namespace sluice::support
