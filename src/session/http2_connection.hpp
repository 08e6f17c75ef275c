// What the streams of a connection of HTTP/2 share, and what they hold together.
// Lives:  as long as their session, and longer than they: then they hold nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "session/context.hpp"
#include "session/ticket_share.hpp"
#include "wire/http2_framing.hpp"

namespace sluice::session {

class Session;

struct Http2Connection {
  Http2Connection(Context& of_context, Session& of_session, wire::Http2Events& events) noexcept
      : context(of_context), session(of_session), framing(events, of_context.blocks) {}
  ~Http2Connection() {
    ASSERT(unread_bytes == 0 && asked_bytes == 0 && head_bytes == 0 && body_bytes == 0);
    ASSERT(outstanding_count == 0 && walks_count == 0);
  }
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  Context& context;
  Session& session;
  wire::Http2Framing framing;
  TicketShare tickets;
  size_t unread_bytes = 0;         // of answers, which the peer's windows hold back
  size_t asked_bytes = 0;          // of answers that shards gather, at most
  size_t head_bytes = 0;           // of the requests' heads
  size_t body_bytes = 0;           // allocated for bodies that are not whole yet
  uint32_t outstanding_count = 0;  // streams that shards owe a reply
  uint32_t walks_count = 0;        // of GET /debug, under way
};

}  // namespace sluice::session
