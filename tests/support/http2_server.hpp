// The server's side of an HTTP/2 connection without a socket, by libnghttp2: it answers what the
// test says, when the test says so.
// Flow:   a client's bytes -> receive() -> requests(); answer() and others -> output() -> the
//         client.
// Lives:  one connection.
#pragma once

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::support {

class Http2Server {
 public:
  struct Request {
    int32_t stream = 0;
    std::map<std::string, std::string> fields;
    std::optional<uint32_t> reset;  // the client's error

    const std::string& path() const { return fields.at(":path"); }
  };

  explicit Http2Server(uint32_t streams_max = 250) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session* session = nullptr;
    nghttp2_session_server_new(&session, callbacks, this);
    session_.reset(session);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry setting{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max};
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &setting, 1);
  }
  Http2Server(const Http2Server&) = delete;
  Http2Server& operator=(const Http2Server&) = delete;

  void receive(std::string_view bytes) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    const ssize_t read = nghttp2_session_mem_recv(session_.get(), data, bytes.size());
    EXPECT_EQ(read, static_cast<ssize_t>(bytes.size()));
  }
  std::string output() {
    std::string bytes;
    const uint8_t* data = nullptr;
    for (ssize_t size = 0; (size = nghttp2_session_mem_send(session_.get(), &data)) > 0;) {
      bytes.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
    }
    return bytes;
  }

  const std::vector<Request>& requests() const { return requests_; }
  const Request& request(size_t n) const { return requests_.at(n); }
  uint32_t pings_count() const { return pings_count_; }

  void answer(int32_t stream, std::string_view status, std::string_view body = {}) {
    bodies_[stream] = body;
    nghttp2_data_provider provider{};
    provider.source.ptr = &bodies_[stream];
    provider.read_callback = read_body;
    const std::string_view name = ":status";
    nghttp2_nv field{bytes(name), bytes(status), name.size(), status.size(), NGHTTP2_NV_FLAG_NONE};
    nghttp2_submit_response(session_.get(), stream, &field, 1, &provider);
  }
  void reset(int32_t stream, uint32_t error) {
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream, error);
  }
  // Nothing was done for streams above `last`.
  void go_away(int32_t last) {
    nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0);
  }

 private:
  static uint8_t* bytes(std::string_view text) {
    return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  }
  static Http2Server& of(void* user) { return *static_cast<Http2Server*>(user); }
  Request* find(int32_t stream) {
    const auto at = std::ranges::find(requests_, stream, &Request::stream);
    return at == requests_.end() ? nullptr : &*at;
  }

  static int on_begin(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    of(user).requests_.push_back({.stream = frame->hd.stream_id, .fields = {}, .reset = {}});
    return 0;
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                       size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                       void* user) {
    const std::string key(reinterpret_cast<const char*>(name), name_size);
    of(user).find(frame->hd.stream_id)->fields[key] =
        std::string(reinterpret_cast<const char*>(value), value_size);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    const bool is_ping =
        frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0;
    if (is_ping) ++of(user).pings_count_;
    if (frame->hd.type != NGHTTP2_RST_STREAM) return 0;
    if (Request* const request = of(user).find(frame->hd.stream_id)) {
      request->reset = frame->rst_stream.error_code;
    }
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, int32_t, uint8_t* to, size_t size, uint32_t* flags,
                           nghttp2_data_source* source, void*) {
    auto& text = *static_cast<std::string*>(source->ptr);
    const size_t taken = std::min(size, text.size());
    std::memcpy(to, text.data(), taken);
    text.erase(0, taken);
    if (text.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(taken);
  }

  struct Delete {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };
  std::unique_ptr<nghttp2_session, Delete> session_;
  std::vector<Request> requests_;
  std::map<int32_t, std::string> bodies_;
  uint32_t pings_count_ = 0;
};

}  // namespace sluice::support
