// Makes the connections of a client's lanes: connects, asks which nodes there are, and interns the
// keys that the client has handles for. Part of Client.
// Flow:   Connector or Fleet -> dial() -> ask_nodes() -> intern() -> Lane::install().
// Errors: Error, with the cause in one sentence; nothing is left behind.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "handle_table.hpp"
#include "platform.hpp"
#include "sluicegate/address.hpp"
#include "sluicegate/client.hpp"
#include "sluicegate/link.hpp"

namespace sluicegate {

// The nodes as a server has reported them; an Answer's Topology does not outlive its frame.
struct NodeList {
  struct Entry {
    Address address{};         // port 0: not known
    uint64_t instance_id = 0;  // likewise
    bool operator==(const Entry&) const = default;
  };

  uint64_t digest = 0;  // of the servers' list: 0 of a server that has none
  uint32_t own = 0;     // the place of the server that reports
  std::vector<Entry> nodes{};
};

NodeList list_of(const Topology& topology);

class Dialer {
 public:
  using Clock = Platform::Clock;

  // When `stop` becomes true, running attempts end, except while they resolve a name.
  Dialer(Platform& platform, const ClientOptions& options, HandleTable& handles,
         const std::atomic<bool>& stop)
      : platform_{platform}, options_{options}, handles_{handles}, stop_{stop} {}

  std::unique_ptr<Link> dial(const Address& address, uint32_t shard,
                             std::chrono::milliseconds timeout);
  // Of a server that does not know the question: itself alone.
  NodeList ask_nodes(Link& link, Clock::time_point deadline);
  // What a server has reported since on a connection that no lane had yet.
  std::optional<NodeList> take_report() noexcept { return std::exchange(report_, std::nullopt); }
  // Interns the keys that belong there on a new connection, and stores their handles. A key that
  // gets none is sent as text. `timeout` is that of each answer.
  void intern(Link& link, uint32_t tag, std::chrono::milliseconds timeout,
              const std::function<bool(std::string_view)>& belongs);

 private:
  void intern_frame(Link& link, uint32_t tag, std::chrono::milliseconds timeout,
                    const std::vector<uint32_t>& handles);
  Answer wait_answer(Link& link, Clock::time_point deadline);

  Platform& platform_;
  const ClientOptions& options_;
  HandleTable& handles_;
  const std::atomic<bool>& stop_;
  std::optional<NodeList> report_;
};

}  // namespace sluicegate
