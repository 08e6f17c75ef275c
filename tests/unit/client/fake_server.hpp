// A server that runs a script for every connection, each on its own thread.
// Flow:   a test connects to port(); the script reads frames and writes any bytes it likes.
// Errors: the destructor joins the threads; a script's failed read ends it.
#pragma once

#include <arpa/inet.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sluicegate.capnp.h"

namespace sluicegate::test {

namespace schema = sluice::schema;

// The server's end of one connection.
class Peer {
 public:
  explicit Peer(int socket) : socket_{socket} {}

  // The next client frame; the reader is valid until the next call.
  schema::ClientFrame::Reader read() {
    uint64_t table = 0;
    read_bytes(&table, sizeof table);
    if ((table & 0xFFFF'FFFF) != 0) throw std::runtime_error("the client sent several segments");
    words_.assign(1 + (table >> 32), table);
    read_bytes(words_.data() + 1, (words_.size() - 1) * 8);
    message_ = std::make_unique<capnp::FlatArrayMessageReader>(kj::ArrayPtr<const capnp::word>(
        reinterpret_cast<const capnp::word*>(words_.data()), words_.size()));
    return message_->getRoot<schema::ClientFrame>();
  }

  // The client's bytes up to `mark`, for other protocols.
  std::string read_until(const std::string& mark) {
    std::string text;
    while (!text.ends_with(mark)) {
      text.push_back('\0');
      read_bytes(&text.back(), 1);
    }
    return text;
  }

  void write(const std::string& bytes) {
    if (send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("the client is gone");
    }
  }

  // As a server that dies; any thread.
  void cut() noexcept { shutdown(socket_, SHUT_RDWR); }

  bool at_end() {
    char byte = 0;
    return recv(socket_, &byte, 1, 0) == 0;
  }

 private:
  void read_bytes(void* to, size_t count) {
    if (count == 0) return;
    if (recv(socket_, to, count, MSG_WAITALL) != static_cast<ssize_t>(count)) {
      throw std::runtime_error("the client is gone");
    }
  }

  int socket_;
  std::vector<uint64_t> words_;
  std::unique_ptr<capnp::FlatArrayMessageReader> message_;
};

// An answer that the library builds, as an independent encoder.
inline std::string answer(uint64_t id,
                          const std::function<void(schema::ServerFrame::Builder)>& fill,
                          unsigned first_segment_words = 1024) {
  capnp::MallocMessageBuilder message{first_segment_words, capnp::AllocationStrategy::FIXED_SIZE};
  auto frame = message.initRoot<schema::ServerFrame>();
  frame.setId(id);
  fill(frame);
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

inline std::string verdicts(uint64_t id, unsigned count, const std::vector<uint8_t>& column) {
  return answer(id, [&](auto frame) {
    auto to = frame.initVerdicts();
    to.setCount(count);
    to.setVerdicts(kj::arrayPtr(column.data(), column.size()));
  });
}

inline std::string granted(uint64_t id, const std::vector<uint32_t>& entries,
                           const std::vector<uint8_t>& column) {
  return answer(id, [&](auto frame) {
    auto to = frame.initGranted();
    to.setEntries(kj::arrayPtr(entries.data(), entries.size()));
    to.setVerdicts(kj::arrayPtr(column.data(), column.size()));
  });
}

inline std::string interned(uint64_t id, const std::vector<uint32_t>& handles,
                            const std::vector<uint8_t>& column) {
  return answer(id, [&](auto frame) {
    auto to = frame.initInterned();
    to.setHandles(kj::arrayPtr(handles.data(), handles.size()));
    to.setVerdicts(kj::arrayPtr(column.data(), column.size()));
  });
}

inline std::string error(uint64_t id, schema::ErrorCode code, const char* text) {
  return answer(id, [&](auto frame) {
    auto to = frame.initError();
    to.setCode(code);
    to.setText(text);
  });
}

inline constexpr uint32_t handles_max = 1'000;

struct Shards {
  uint32_t own = 0;
  uint32_t count = 1;
  uint64_t routing_seed = 0;
};

// `change` sets what differs from an ordinary server's.
inline std::string welcome_with(const std::function<void(schema::Welcome::Builder)>& change) {
  return answer(0, [&](auto frame) {
    auto to = frame.initWelcome();
    to.setVersion(1);
    to.setShards(1);
    to.setRoutingHash(schema::RoutingHash::XXH3);
    to.setFrameBytesMax(128 * 1024);
    to.setFrameEntriesMax(4096);
    to.setOutstandingFramesMax(4);
    to.setOutstandingBytesMax(256 * 1024);
    to.setHandlesMax(handles_max);
    to.setKeyBytesMax(1024);
    to.setServerVersion("fake");
    change(to);
  });
}

inline std::string welcome(uint32_t outstanding_frames_max = 4, Shards shards = {}) {
  return welcome_with([&](schema::Welcome::Builder to) {
    to.setShard(shards.own);
    to.setShards(shards.count);
    to.setRoutingSeed(shards.routing_seed);
    to.setOutstandingFramesMax(outstanding_frames_max);
  });
}

class FakeServer {
 public:
  using Script = std::function<void(Peer&)>;

  // `port`: 0 is any.
  explicit FakeServer(Script script, int connections_count = 1, uint16_t port = 0) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, generic, size) != 0 || listen(listener_, 1) != 0 ||
        getsockname(listener_, generic, &size) != 0) {
      throw std::runtime_error("no loopback port to listen on");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread{[this, connections_count, script = std::move(script)] {
      std::vector<std::thread> connections;
      for (int i = 0; i < connections_count; ++i) {
        const int connection = accept(listener_, nullptr, nullptr);
        if (connection < 0) break;
        connections.emplace_back([connection, &script] { serve(connection, script); });
      }
      for (std::thread& each : connections) each.join();
    }};
  }

  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);  // wakes an accept() that no one answers
    thread_.join();
    close(listener_);
  }

  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  // A script that sends Welcome and then runs `script`.
  static FakeServer::Script welcoming(Script script) {
    return [script = std::move(script)](Peer& peer) {
      peer.read();
      peer.write(welcome());
      script(peer);
    };
  }

  uint16_t port() const noexcept { return port_; }

 private:
  static void serve(int connection, const Script& script) {
    Peer peer{connection};
    try {
      script(peer);
    } catch (const std::exception&) {
      // The client left early; the test's expectations of the client decide if that is correct.
    }
    close(connection);
  }

  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace sluicegate::test
