// A connection of HTTP/2 to an instance of gocc.
// Flow:   connect -> ask() -> its Listener. While it is idle it asks for /healthz now and then:
//         gocc ends a connection that has had no request for 30 s.
// Errors: one that fails, ends, or is silent for --peer-silence-millis while it is pinged is lost:
//         its requests have failed.
// Lives:  until its socket is closed; one thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/peer_address.hpp"
#include "net/connection.hpp"
#include "peer/context.hpp"
#include "peer/gocc_request.hpp"
#include "peer/outgoing.hpp"
#include "peer/socket_user.hpp"
#include "wire/http2_client.hpp"

namespace sluice::peer {

// An entry of a message that gocc is asked for.
struct Asked {
  Outgoing* outgoing = nullptr;  // null: the entry waits, and its message has been answered
  uint32_t place = 0;            // in the message
  api::Entry entry{};            // its key lies in the message
  api::WaiterId waiter = api::no_waiter;
  int64_t due_ms = 0;  // of a waiter: when its wait limit ends; base::never_ms: never
  bool is_withdrawn = false;
};

class GoccConnection final : public SocketUser, public wire::Http2ClientEvents {
 public:
  class Listener {
   public:
    using End = wire::Http2ClientEvents::End;
    virtual void on_answer(const Asked& asked, End end, const GoccAnswer& answer) noexcept = 0;

   protected:
    ~Listener() = default;
  };
  enum class State : uint8_t { connecting, open, lost, closed };

  GoccConnection(Context& context, net::ConnectionMemory& memory, uint32_t place,
                 std::string authority, Listener& listener);
  ~GoccConnection() override;

  void connect(const io::PeerAddress& address) noexcept;
  State state() const noexcept { return state_; }
  const std::string& why_lost() const noexcept { return why_lost_; }

  // It may take requests soon.
  bool is_beginning() const noexcept {
    return state_ == State::connecting || (state_ == State::open && !client_->knows_peer());
  }
  bool takes_requests() const noexcept {
    return state_ == State::open && client_->takes_requests() && !connection_->output_over_high();
  }
  void ask(const GoccRequest& request, const Asked& asked) noexcept;
  // The waiter's request is taken back; its end follows.
  bool cancel(api::WaiterId waiter) noexcept;

  void on_event(const io::Event& event) noexcept override;
  void flush() noexcept override;
  // Takes back the requests of waiters whose wait limit has ended, pings, and gives up.
  void on_tick() noexcept;
  void lose(std::string_view why) noexcept;

 private:
  struct Stream {
    Asked asked;
    bool is_health_check = false;
    uint16_t status = 0;
    std::string body;  // its first bytes
  };

  void on_connected() noexcept;
  void on_received(std::span<const std::byte> bytes) noexcept;
  void open_stream(const GoccRequest& request, Stream stream) noexcept;

  void on_status(int32_t stream, uint16_t status) noexcept override;
  void on_body(int32_t stream, std::span<const std::byte> bytes) noexcept override;
  void on_end(int32_t stream, End end) noexcept override;
  void on_pong() noexcept override { is_pinged_ = false; }

  Context& context_;
  net::ConnectionMemory& memory_;
  const uint32_t place_;
  const std::string authority_;
  Listener& listener_;
  State state_ = State::connecting;
  io::SocketId socket_;
  std::optional<net::Connection> connection_;
  std::optional<wire::Http2Client> client_;
  std::unordered_map<int32_t, Stream> streams_;
  int64_t received_ms_ = 0;    // when the last byte came
  int64_t owed_since_ms_ = 0;  // when there began to be requests
  int64_t asked_ms_ = 0;       // when the last request was made
  bool is_pinged_ = false;
  std::string why_lost_;
};

}  // namespace sluice::peer
