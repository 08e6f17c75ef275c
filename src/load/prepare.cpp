#include "load/prepare.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "load/frame_set.hpp"
#include "load/key_text.hpp"

namespace sluice::load {
namespace {

using sluicegate::Connection;
using sluicegate::Verdict;
using sluicegate::Welcome;

constexpr size_t frames_min = 64;  // in a stream
constexpr auto answer_time_max = std::chrono::seconds{5};
constexpr size_t frame_head_bytes_max = 128;  // beside the columns

// ------------------------------------------------------------------------------- limits

[[noreturn]] void refuse(const std::string& what, uint64_t allowed) {
  throw sluicegate::LimitExceeded(what + ": this server allows " + std::to_string(allowed));
}

void require_shard(const Welcome& welcome, uint32_t shard, const Routing& routing) {
  if (welcome.shards != routing.shards || welcome.routing_seed != routing.seed) {
    throw sluicegate::ProtocolError(
        "connections of one run reached different servers, or the server was restarted");
  }
  if (welcome.shard != shard) {
    throw sluicegate::ProtocolError(
        "a connection asked for shard " + std::to_string(shard) + " and got shard " +
        std::to_string(welcome.shard) +
        ": this server gives no choice; run without --route or --misroute");
  }
}

// ---------------------------------------------------------------------- large frames of keys

// How many keys fit into a frame, with an override for each.
uint32_t keys_in_frame(const Welcome& welcome, uint32_t key_bytes) {
  const size_t entry_bytes = key_bytes + sizeof(uint16_t) + sizeof(uint32_t);
  const size_t bytes = std::min(welcome.frame_bytes_max, welcome.outstanding_bytes_max);
  const size_t fit =
      bytes > frame_head_bytes_max ? (bytes - frame_head_bytes_max) / entry_bytes : 0;
  return static_cast<uint32_t>(std::clamp<size_t>(fit, 1, welcome.frame_entries_max));
}

using Keys = std::span<const uint32_t>;

// Calls `use` with the names of the keys, as many at once as fit into a frame.
template <typename Use>
void in_large_frames(const Connection& connection, uint32_t key_bytes, Keys keys, const Use& use) {
  const uint32_t keys_max = keys_in_frame(connection.welcome(), key_bytes);
  KeyText text{keys_max, key_bytes};
  for (size_t begin = 0; begin < keys.size(); begin += keys_max) {
    const Keys part = keys.subspan(begin, std::min<size_t>(keys_max, keys.size() - begin));
    for (size_t i = 0; i < part.size(); ++i) text.write(i, part[i]);
    use(text.keys(part.size()));
  }
}

void require_allowed(const sluicegate::VerdictColumn& verdicts) {
  constexpr auto not_allowed = static_cast<uint8_t>(Verdict::not_allowed);
  if (std::ranges::find(verdicts.bytes(), not_allowed) == verdicts.bytes().end()) return;
  throw std::runtime_error(
      "the server does not let requests set limits, so --denied-share "
      "cannot be met: start it with --requests-can-set-rate=true");
}

// Reads the next answer, which must be verdicts for a frame of this connection.
sluicegate::Verdicts receive_verdicts(Connection& connection) {
  const size_t outstanding = connection.outstanding_frames();
  const auto answer = connection.receive(answer_time_max);
  if (!answer) throw std::runtime_error("the server does not answer");
  if (const auto* refusal = std::get_if<sluicegate::Refusal>(&*answer)) {
    throw sluicegate::Refused(refusal->code, std::string{refusal->text});
  }
  const auto* verdicts = std::get_if<sluicegate::Verdicts>(&*answer);
  if (verdicts == nullptr || connection.outstanding_frames() == outstanding) {
    throw sluicegate::ProtocolError("the server sent an answer that was not asked for");
  }
  require_allowed(verdicts->verdicts);
  return *verdicts;
}

// Asks for every key once, two frames in flight. `permits`, when given, becomes their limit.
void ask_once(Connection& connection, uint32_t key_bytes, Keys keys,
              std::optional<uint32_t> permits) {
  std::vector<uint32_t> limits;
  in_large_frames(connection, key_bytes, keys, [&](std::span<const std::string_view> names) {
    if (permits) limits.assign(names.size(), *permits);
    while (connection.outstanding_frames() > 1) receive_verdicts(connection);
    const size_t frame_bytes_max = connection.welcome().frame_bytes_max;
    if (!connection.has_room(frame_bytes_max)) {
      while (connection.outstanding_frames() > 0) receive_verdicts(connection);
    }
    connection.send(sluicegate::Acquire{.keys = names, .max_requests = limits});
    connection.flush();
  });
  while (connection.outstanding_frames() > 0) receive_verdicts(connection);
}

// Takes all permits of the keys: the answer to the first one shows how many remain.
void take_permits(Connection& connection, uint32_t key_bytes, Keys keys) {
  in_large_frames(connection, key_bytes, keys, [&](std::span<const std::string_view> names) {
    connection.send(sluicegate::Acquire{.keys = names, .details = sluicegate::detail::remaining});
    const auto left = receive_verdicts(connection).details.remaining;
    std::vector<uint32_t> costs{left.begin(), left.end()};
    for (uint32_t& cost : costs) cost = std::max(cost, 1U);
    connection.send(sluicegate::Acquire{.keys = names, .costs = costs});
    receive_verdicts(connection);
  });
}

void release_permits(Connection& connection, uint32_t key_bytes, Keys keys) {
  in_large_frames(connection, key_bytes, keys, [&](std::span<const std::string_view> names) {
    const std::vector<uint32_t> costs(names.size(), key_permits);
    connection.release(sluicegate::Release{.keys = names, .costs = costs});
  });
}

// ------------------------------------------------------------------------------ streams

std::vector<std::vector<PlannedEntry>> sequences(const Options& options,
                                                 const std::optional<Routing>& routing,
                                                 size_t entries_min) {
  if (routing) return routed_sequences(options, entries_min, *routing);
  return {key_sequence(options, entries_min)};
}

// The part of the entries that a connection asks: that of its shard, or of the next one.
size_t part_of(const Options& options, size_t link, size_t parts_count) {
  const size_t shard = link % parts_count;
  return options.route == Route::other_shards ? (shard + 1) % parts_count : shard;
}

// Adjacent stretches: when each key occurs once, no two stretches share a key.
std::vector<PlannedEntry> stretch_of(const std::vector<PlannedEntry>& part, size_t index,
                                     size_t count) {
  const auto begin = part.begin() + static_cast<ptrdiff_t>(part.size() * index / count);
  const auto end = part.begin() + static_cast<ptrdiff_t>(part.size() * (index + 1) / count);
  return begin == end ? part : std::vector<PlannedEntry>{begin, end};
}

// One stream per link. Links share no entries, unless those are denied by cost or ask one key.
std::deque<Stream> streams_of_links(const Options& options, const std::optional<Routing>& routing,
                                    std::vector<Link>& links) {
  const size_t entries_min = std::max<size_t>(frames_min, 2 * options.window) * options.batch;
  const bool shared_out = options.distribution != Distribution::one && !denied_by_cost(options);
  const auto parts = sequences(options, routing, shared_out ? 1 : entries_min);
  std::vector<size_t> links_count(parts.size()), links_seen(parts.size());
  for (size_t i = 0; i < links.size(); ++i) ++links_count[part_of(options, i, parts.size())];
  std::deque<Stream> streams;
  for (size_t i = 0; i < links.size(); ++i) {
    const size_t part = part_of(options, i, parts.size());
    links[i].stream = i;
    auto planned =
        shared_out ? stretch_of(parts[part], links_seen[part]++, links_count[part]) : parts[part];
    repeat(planned, entries_min);
    streams.emplace_back(std::move(planned), options.batch);
  }
  return streams;
}

// One stream per part; the links of a part share it.
std::deque<Stream> streams_of_parts(const Options& options, const std::optional<Routing>& routing,
                                    std::vector<Link>& links) {
  const size_t parts_count = routing ? routing->shards : 1;
  // Twice the frames that can be in flight, so that a frame is answered long before it is sent
  // again.
  const size_t links_of_part = (links.size() + parts_count - 1) / parts_count;
  const size_t frames_count = std::max(frames_min, 2 * links_of_part * options.window);
  std::deque<Stream> streams;
  for (auto& part : sequences(options, routing, frames_count * options.batch)) {
    streams.emplace_back(std::move(part), options.batch);
  }
  for (size_t i = 0; i < links.size(); ++i) links[i].stream = part_of(options, i, parts_count);
  return streams;
}

// The first link of each stream; a stream without a link is never sent.
std::vector<Connection*> connection_of_streams(size_t streams_count,
                                               const std::vector<Link>& links) {
  std::vector<Connection*> connections(streams_count, nullptr);
  for (const Link& link : links) {
    if (connections[link.stream] == nullptr) connections[link.stream] = link.connection.get();
  }
  return connections;
}

// Calls `use` with a connection of each stream and the keys that go over it, each key once in all;
// with `only_denied` only the denied keys.
template <typename Use>
void for_keys_of_streams(const Options& options, const std::deque<Stream>& streams,
                         const std::vector<Link>& links, bool only_denied, const Use& use) {
  const auto connections = connection_of_streams(streams.size(), links);
  std::vector<bool> used(options.keys);  // without new keys: the run asks for those first
  for (size_t i = 0; i < streams.size(); ++i) {
    if (connections[i] == nullptr) continue;
    std::vector<uint32_t> keys;
    for (const PlannedEntry& entry : streams[i].planned()) {
      if (entry.key >= options.keys || used[entry.key] || (only_denied && !entry.denied)) continue;
      used[entry.key] = true;
      keys.push_back(entry.key);
    }
    use(*connections[i], keys);
  }
}

void intern_link(const Options& options, const Stream& stream, Link& link) {
  HandleTable& table = link.handles.emplace(stream.planned(), options.keys);
  const Welcome& welcome = link.connection->welcome();
  if (table.keys().size() > welcome.handles_max) {
    refuse(std::to_string(table.keys().size()) +
               " keys with handles on a connection (fewer --keys, or more --connections)",
           welcome.handles_max);
  }
  in_large_frames(
      *link.connection, options.key_bytes, table.keys(),
      [&](std::span<const std::string_view> names) {
        try {
          table.add(link.connection->intern(names));
        } catch (const sluicegate::NotInterned& failure) {
          const bool full = std::ranges::find(failure.verdicts(), Verdict::handles_full) !=
                            failure.verdicts().end();
          throw std::runtime_error(
              std::string{failure.what()} +
              (full ? " (fewer --keys, or start the server with more --max-handles)"
                    : " (smaller --key-bytes, or start the server with more --max-key-bytes)"));
        }
      });
}

// Bytes of keys that a frame by handle may name when other shards own some (docs/protocol.md).
constexpr size_t misrouted_text_max = 1024 * 1024;

// Uses every handle once, so that the server's work for a new handle is not part of the run.
void warm_handles(const Options& options, Link& link) {
  const auto handles = link.handles->handles();
  const Welcome& welcome = link.connection->welcome();
  size_t handles_max = keys_in_frame(welcome, sizeof(uint32_t));
  if (welcome.shards > 1) {
    handles_max =
        std::min(handles_max, std::max(misrouted_text_max / options.key_bytes, size_t{1}));
  }
  for (size_t begin = 0; begin < handles.size(); begin += handles_max) {
    (void)link.connection->acquire(
        handles.subspan(begin, std::min(handles_max, handles.size() - begin)));
  }
}

// Interns the first key of the next shard's link, and asks for it once.
void intern_other(const Options& options, const std::vector<Link>& links, size_t index) {
  sluicegate::Connection& connection = *links[index].connection;
  const auto keys = links[(index + 1) % connection.welcome().shards].handles->keys();
  if (keys.empty()) throw std::invalid_argument("--other-handle needs more --keys");
  KeyText text{1, options.key_bytes};
  text.write(0, keys[0]);
  (void)connection.acquire(connection.intern(text.keys(1)));
}

}  // namespace

void check_limits(const Options& options, const Welcome& welcome) {
  const uint64_t frame_bytes = frame_bytes_max(options);
  if (options.batch > welcome.frame_entries_max) {
    refuse("--batch " + std::to_string(options.batch), welcome.frame_entries_max);
  }
  if (frame_bytes > welcome.frame_bytes_max) {
    refuse("frames of " + std::to_string(frame_bytes) + " bytes", welcome.frame_bytes_max);
  }
  if (options.window > welcome.outstanding_frames_max) {
    refuse("--window " + std::to_string(options.window), welcome.outstanding_frames_max);
  }
  if (options.window * frame_bytes > welcome.outstanding_bytes_max) {
    refuse("--window " + std::to_string(options.window) + " with frames of " +
               std::to_string(frame_bytes) + " bytes",
           welcome.outstanding_bytes_max / frame_bytes);
  }
  if (options.handles && welcome.handles_max == 0) {
    throw std::runtime_error("this server has no handles: run without --handles");
  }
}

std::optional<Routing> routing_of(const Options& options, const Welcome& welcome) {
  if (options.route == Route::any) return std::nullopt;
  if (!welcome.routing_known || welcome.shards == 0) {
    throw std::runtime_error(
        "this server does not announce which shard owns a key: run without --route or --misroute");
  }
  if (options.route == Route::other_shards && welcome.shards == 1) {
    throw std::invalid_argument("--misroute needs a server of more than one shard");
  }
  if (options.other_handle && welcome.shards == 1) {
    throw std::invalid_argument("--other-handle needs a server of more than one shard");
  }
  // A misrouted run measures shard messages, for which the keys of one shard are enough.
  if (options.route == Route::owners && options.connections < welcome.shards) {
    throw std::invalid_argument("--route needs a connection to each of the server's " +
                                std::to_string(welcome.shards) + " shards: --connections " +
                                std::to_string(welcome.shards) + " or more");
  }
  return Routing{.seed = welcome.routing_seed, .shards = welcome.shards};
}

std::vector<Link> connect_links(const Options& options, const std::optional<Routing>& routing,
                                const sluicegate::Address& server) {
  std::vector<Link> links;
  for (uint32_t i = 0; i < options.connections; ++i) {
    sluicegate::ConnectOptions connect{.client_name = "sluicegate-bench"};
    if (routing) connect.wanted_shard = i % routing->shards;
    links.push_back(
        {.connection = std::make_unique<Connection>(server.host, server.port, connect)});
    const Welcome& welcome = links.back().connection->welcome();
    if (routing) require_shard(welcome, *connect.wanted_shard, *routing);
    if (i == 0) check_limits(options, welcome);
  }
  return links;
}

std::deque<Stream> make_streams(const Options& options, const std::optional<Routing>& routing,
                                std::vector<Link>& links) {
  require_key_bytes(options.keys + options.new_keys, options.key_bytes);
  return options.handles ? streams_of_links(options, routing, links)
                         : streams_of_parts(options, routing, links);
}

void warm_keys(const Options& options, const std::deque<Stream>& streams,
               const std::vector<Link>& links, std::optional<uint32_t> permits) {
  for_keys_of_streams(options, streams, links, false, [&](Connection& connection, Keys keys) {
    ask_once(connection, options.key_bytes, keys, permits);
  });
  if (!denied_by_key(options)) return;
  for_keys_of_streams(options, streams, links, true, [&](Connection& connection, Keys keys) {
    take_permits(connection, options.key_bytes, keys);
  });
}

void release_denied_keys(const Options& options, const std::deque<Stream>& streams,
                         const std::vector<Link>& links) {
  for_keys_of_streams(options, streams, links, true, [&](Connection& connection, Keys keys) {
    release_permits(connection, options.key_bytes, keys);
  });
}

void intern_keys(const Options& options, const std::deque<Stream>& streams,
                 std::vector<Link>& links) {
  for (Link& link : links) {
    intern_link(options, streams[link.stream], link);
    warm_handles(options, link);
  }
  if (!options.other_handle) return;
  for (size_t i = 0; i < links.size(); ++i) intern_other(options, links, i);
}

}  // namespace sluice::load
