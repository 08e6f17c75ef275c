// Events of a connection of HTTP/2 on which nothing happens: its streams are under test alone.
#pragma once

#include "wire/http2_framing.hpp"

namespace sluice::session {

class QuietHttp2Events final : public wire::Http2Events {
 public:
  void on_head_begin(wire::Http2StreamId) noexcept override {}
  void on_field(std::string_view, std::string_view) noexcept override {}
  void on_head_end(wire::Http2StreamId, bool) noexcept override {}
  void on_body(wire::Http2StreamId, std::span<const std::byte>) noexcept override {}
  void on_body_end(wire::Http2StreamId) noexcept override {}
  BodyPart read_body(wire::Http2StreamId, std::span<std::byte>) noexcept override { return {}; }
  void on_answer_sent(wire::Http2StreamId, size_t) noexcept override {}
  void on_closed(wire::Http2StreamId) noexcept override {}
  void on_error_reset() noexcept override {}
};

}  // namespace sluice::session
