#include "server/session_table.hpp"

#include <new>
#include <utility>

#include "base/assert.hpp"
#include "base/limits.hpp"

namespace sluice::server {

SessionTable::SessionTable(const Bounds& bounds)
    : buffers_(bounds.sockets_max, limits::output_bytes(bounds.shards, bounds.nodes)),
      slots_(sizeof(Slot) * bounds.sockets_max, "sessions (--max-connections)"),
      keys_(size_t{bounds.key_bytes_max} * bounds.sockets_max,
            "waiting requests' keys (--max-connections)"),
      heads_(session::RequestLog::memory_bytes * bounds.sockets_max,
             "request heads for the log (--max-connections)"),
      pipelines_(session::Pipeline::memory_bytes(bounds.key_bytes_max) * bounds.sockets_max,
                 "pipelined decisions (--max-connections)"),
      bounds_(bounds) {}

SessionTable::~SessionTable() {
  for (uint32_t index = 0; index < index_end_; ++index) {
    if (session::Session* session = at(index)) session->~Session();
  }
}

SessionTable::Slot& SessionTable::take(io::SocketId socket, io::ListenerId listener) noexcept {
  ASSERT(socket.index < bounds_.sockets_max);
  Slot& slot = slots()[socket.index];
  ASSERT(slot.session == nullptr);
  slot.listener = listener;
  ++open_count_;
  index_end_ = std::max(index_end_, socket.index + 1);
  return slot;
}

session::Session& SessionTable::open_http(session::Context& context, io::Io& io,
                                          io::SocketId socket) noexcept {
  Slot& slot = take(socket, http_listener);
  const auto part = [&](const base::MappedRegion& region, size_t bytes) {
    return std::span(reinterpret_cast<char*>(region.data()) + socket.index * bytes, bytes);
  };
  const session::HttpSession::Memory memory{
      .key = part(keys_, bounds_.key_bytes_max),
      .log = part(heads_, session::RequestLog::memory_bytes),
      .pipeline = std::as_writable_bytes(
          part(pipelines_, session::Pipeline::memory_bytes(bounds_.key_bytes_max)))};
  slot.session = new (slot.storage) session::HttpSession(context, io, socket, buffers_, memory);
  return *slot.session;
}

session::Session& SessionTable::open_native(session::Context& context, io::Io& io,
                                            io::SocketId socket) noexcept {
  Slot& slot = take(socket, native_listener);
  slot.session = new (slot.storage) session::NativeSession(context, io, socket, buffers_);
  return *slot.session;
}

session::Http2Session& SessionTable::change_to_http2(io::SocketId socket) noexcept {
  Slot& slot = slots()[socket.index];
  session::Session::Remains remains = slot.session->pass_on();
  slot.session->~Session();
  auto* const session = new (slot.storage) session::Http2Session(std::move(remains));
  slot.session = session;
  return *session;
}

void SessionTable::end(io::SocketId socket) noexcept {
  session::Session* session = find(socket);
  ASSERT(session != nullptr);
  session->~Session();
  slots()[socket.index].session = nullptr;
  --open_count_;
}

session::Session* SessionTable::find(io::SocketId socket) noexcept {
  if (socket.index >= index_end_) return nullptr;
  session::Session* session = at(socket.index);
  if (session == nullptr || !(session->connection().socket() == socket)) return nullptr;
  return session;
}

uint64_t SessionTable::reserved_bytes() const noexcept {
  return buffers_.reserved_bytes() + slots_.size() + keys_.size() + heads_.size() +
         pipelines_.size();
}

}  // namespace sluice::server
