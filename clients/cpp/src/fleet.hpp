// Connects a client to each of the nodes that share keys and quotas. Part of Client.
// Flow:   the first address that answers -> its list of the nodes -> a connection to each shard of
//         each node -> NodeTable, which the calls read.
// Shape:  a server says which node it is, and by which list: only then a connection is used. So an
//         address that is translated, or leads to another server from here, does no harm; and the
//         caller's own addresses are tried for nodes that the servers name in vain.
// Errors: connect_due() throws Error where nobody answers. A node that cannot be reached while
//         another one can is no error: it is tried again after `owner_retry`, or once another node
//         reports that it was restarted. One attempt at a time: a connection that is lost meanwhile
//         comes before the next one.
// Threads: the connector's, but for note().
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dialer.hpp"
#include "lane_set.hpp"
#include "node_table.hpp"

namespace sluicegate {

class Connector;

class Fleet {
 public:
  using Clock = Platform::Clock;

  struct Parts {
    Platform& platform;
    const ClientOptions& options;
    LaneSet& lanes;
    NodeTable& nodes;
    Connector& connector;
  };

  Fleet(const Parts& parts, Dialer& dialer, std::vector<Address> addresses);

  // Connects what is due, and returns when something is due again.
  Clock::time_point connect_due();
  // A server has reported that a node is another one now. Any thread.
  void note(NodeList list);

 private:
  // An owner that another node can be asked for has less time than `connect_timeout`.
  static constexpr std::chrono::milliseconds owner_timeout_max{1'000};

  struct Given {
    Address address;
    std::optional<uint32_t> place;  // of the node that answered there
  };
  struct Known {
    NodeList::Entry reported{};
    Address connected{};                     // where its first connection led to
    uint64_t instance_id = 0;                // likewise
    std::vector<uint64_t> lane_instances{};  // that each shard's lane was last connected to
    bool was_connected = false;              // since the last attempt
    std::vector<Address> tried{};            // in vain, since the last pause
    Clock::time_point retry_at{};
  };

  void find_first();
  void note_unproven_losses();
  void take_reports();
  void adopt(const NodeList& list);
  void forget_places();
  void note_reach(bool is_out_of_reach) noexcept;
  void hand_over_draining();
  void reconnect_lost();
  Clock::time_point connect_next();
  void connect_node(uint32_t place);
  bool take_unproven_loss(uint32_t place);
  void connect_first_lane(uint32_t place);
  void connect_shards(uint32_t place);
  void note_failure(uint32_t place, const std::string& why);
  void hand_over(uint32_t place);
  std::vector<Lane*> lanes_of(uint32_t place) const;
  void install(uint32_t place, uint32_t shard, const Address& address, std::unique_ptr<Link> link);
  std::chrono::milliseconds owner_timeout() const noexcept {
    return std::min(parts_.options.connect_timeout, owner_timeout_max);
  }
  Lane& lane_for(uint32_t place, uint32_t shard);
  void retire_free_lanes();
  void choose_home() noexcept;

  uint32_t find_connected() const noexcept;
  uint32_t find_stand_in() noexcept;
  bool lacks_links(uint32_t place) const;
  bool is_lost(uint32_t place) const;
  bool needs_link(uint32_t place, uint32_t shard) const;
  bool is_connected(uint32_t place) const noexcept;
  bool leads_to(const NodeList& list, uint32_t place) const noexcept;
  std::vector<Address> addresses_of(uint32_t place) const;
  std::optional<Address> untried_address(uint32_t place) const;
  std::vector<Address> all_addresses() const;
  void note_place(const Address& address, uint32_t place) noexcept;
  uint32_t shards_max() const noexcept;

  const Parts parts_;
  Dialer& dialer_;
  std::vector<Given> given_;
  std::vector<Known> known_;  // by place
  uint64_t list_digest_ = 0;
  std::vector<uint32_t> free_lanes_{0};
  std::mutex mutex_;
  std::optional<NodeList> report_;
};

}  // namespace sluicegate
