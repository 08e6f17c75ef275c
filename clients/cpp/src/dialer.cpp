#include "dialer.hpp"

#include <algorithm>

#include "node_table.hpp"
#include "platform.hpp"

namespace sluicegate {
namespace {

constexpr size_t intern_entries_max = 4'096;
constexpr size_t intern_bytes_max = 64 * 1024;
constexpr uint64_t question_id = 1;

}  // namespace

NodeList list_of(const Topology& topology) {
  NodeList list{.digest = topology.list_digest, .own = topology.own_node, .nodes = {}};
  for (const TopologyNode& node : topology.nodes) {
    list.nodes.push_back(
        {.address = {std::string{node.host}, node.native_port}, .instance_id = node.instance_id});
  }
  // By a rule that this client does not know, keys may have any owner: all go to this server.
  const size_t count = list.nodes.size();
  const bool is_usable = count <= NodeTable::nodes_max && list.own < count;
  if (!topology.node_hash_known || !is_usable) return {};
  return list;
}

std::unique_ptr<Link> Dialer::dial(const Address& address, uint32_t shard,
                                   std::chrono::milliseconds timeout) {
  return std::make_unique<Link>(
      address.host, address.port,
      ConnectOptions{
          .client_name = options_.client_name, .wanted_shard = shard, .connect_timeout = timeout},
      &stop_, platform_);
}

NodeList Dialer::ask_nodes(Link& link, Clock::time_point deadline) {
  if ((link.welcome().features & feature_topology) == 0) return {};
  encode(question_id, AskTopology{}, link.output());
  const Answer answer = wait_answer(link, deadline);
  const auto* topology = std::get_if<Topology>(&answer);
  if (topology == nullptr) throw_unexpected(answer);
  return list_of(*topology);
}

// The answer to the one question that is out.
Answer Dialer::wait_answer(Link& link, Clock::time_point deadline) {
  for (;;) {
    const auto frame = link.wait_frame(deadline);
    if (!frame) throw TimedOut("no answer from " + link.peer() + " in time");
    Answer answer = decode(*frame);
    const auto* topology = std::get_if<Topology>(&answer);
    if (topology == nullptr || topology->id != 0) return answer;
    report_ = list_of(*topology);
  }
}

void Dialer::intern(Link& link, uint32_t tag, std::chrono::milliseconds timeout,
                    const std::function<bool(std::string_view)>& belongs) {
  const size_t entries_max = std::min<size_t>(intern_entries_max, link.welcome().frame_entries_max);
  std::vector<uint32_t> gathered;
  size_t bytes = 0;
  const uint32_t count = handles_.count();
  for (uint32_t handle = 0; handle < count; ++handle) {
    const std::string_view key = handles_.key(handle);
    if (!belongs(key)) continue;
    if (gathered.size() == entries_max || bytes + key.size() > intern_bytes_max) {
      intern_frame(link, tag, timeout, gathered);
      gathered.clear();
      bytes = 0;
    }
    gathered.push_back(handle);
    bytes += key.size();
  }
  intern_frame(link, tag, timeout, gathered);
}

void Dialer::intern_frame(Link& link, uint32_t tag, std::chrono::milliseconds timeout,
                          const std::vector<uint32_t>& handles) {
  if (handles.empty()) return;
  std::vector<std::string_view> keys;
  for (const uint32_t handle : handles) keys.push_back(handles_.key(handle));
  encode(question_id, Intern{.keys = keys}, link.output());
  const Answer answer = wait_answer(link, platform_.now() + timeout);
  const auto* interned = std::get_if<Interned>(&answer);
  if (interned == nullptr || interned->handles.size() != keys.size()) throw_unexpected(answer);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (interned->verdicts[i] != Verdict::approved) continue;
    handles_.set_handle_slot(handles[i], tag, interned->handles[i]);
  }
}

}  // namespace sluicegate
