// What is done before the clock starts: connections, streams, limits, keys, handles.
// Flow:   options, Welcome -> streams of questions, one for all connections, for each shard, or,
//         with handles, for each connection -> every key is asked for once, in frames as large as
//         the server allows, so that no table grows during the run -> handles.
// Errors: std::exception with one sentence for the user and the cure.
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

// One connection, and which stream goes over it.
struct Link {
  std::unique_ptr<sluicegate::Connection> connection;
  size_t stream = 0;
  std::optional<HandleTable> handles;
};

// Throws when the server cannot be asked with these options.
void check_limits(const Options& options, const sluicegate::Welcome& welcome);

// How the server spreads its keys, where the options want to know.
std::optional<Routing> routing_of(const Options& options, const sluicegate::Welcome& welcome);

// The connections of the run, to the shards that the options ask for.
std::vector<Link> connect_links(const Options& options, const std::optional<Routing>& routing,
                                const sluicegate::Address& server);

// The streams that the links ask; tells each link which is its own.
std::deque<Stream> make_streams(const Options& options, const std::optional<Routing>& routing,
                                std::vector<Link>& links);

// Asks once for every key of every stream, over a link of the stream. With `permits` that becomes
// their limit. Keys that shall be denied have all of their permits taken.
void warm_keys(const Options& options, const std::deque<Stream>& streams,
               const std::vector<Link>& links, std::optional<uint32_t> permits);

// Gives those permits back.
void release_denied_keys(const Options& options, const std::deque<Stream>& streams,
                         const std::vector<Link>& links);

// A handle for every key that a link asks for, and each of them asked once.
void intern_keys(const Options& options, const std::deque<Stream>& streams,
                 std::vector<Link>& links);

}  // namespace sluice::load
