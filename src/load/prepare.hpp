// Prepares a run before the clock starts: connections, streams, limits, keys, handles.
// Flow:   options, Welcome -> streams of entries, one for all connections, one per shard, or,
//         with handles, one per connection -> asks for every key once, in frames as large as the
//         server allows, so that no table grows during the run -> handles.
// Errors: std::exception with one sentence for the user that names the cure.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "load/handle_table.hpp"
#include "load/key_sequence.hpp"
#include "load/options.hpp"
#include "load/stream.hpp"
#include "sluicegate/address.hpp"
#include "sluicegate/connection.hpp"

namespace sluice::load {

// One connection, and the index of its stream.
struct Link {
  std::unique_ptr<sluicegate::Connection> connection;
  size_t stream = 0;
  std::optional<HandleTable> handles;
};

// Throws when the server's limits do not allow these options.
void check_limits(const Options& options, const sluicegate::Welcome& welcome);

// How the server assigns keys to shards; nullopt when the options do not route.
std::optional<Routing> routing_of(const Options& options, const sluicegate::Welcome& welcome);

// The connections of the run, to the shards that the options ask for.
std::vector<Link> connect_links(const Options& options, const std::optional<Routing>& routing,
                                const sluicegate::Address& server);

// Makes the streams, and sets the stream of each link.
std::deque<Stream> make_streams(const Options& options, const std::optional<Routing>& routing,
                                std::vector<Link>& links);

// Asks once for every key of every stream, over a link of the stream. `permits`, when given,
// becomes their limit. Takes all permits of the keys that the server shall deny.
void warm_keys(const Options& options, const std::deque<Stream>& streams,
               const std::vector<Link>& links, std::optional<uint32_t> permits);

// Releases those permits.
void release_denied_keys(const Options& options, const std::deque<Stream>& streams,
                         const std::vector<Link>& links);

// Interns every key of each link, and asks by each handle once.
void intern_keys(const Options& options, const std::deque<Stream>& streams,
                 std::vector<Link>& links);

}  // namespace sluice::load
