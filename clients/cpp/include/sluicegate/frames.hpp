// Requests and answers as values, and their conversion to and from Cap'n Proto frames.
// Flow:   Acquire, Release, ... -> encode() -> words on the wire -> decode() -> Answer.
// Shape:  a frame is a segment table and its segments (docs/protocol.md); we write one segment.
// Units:  frames are whole 8-byte words in spans and vectors of uint64_t; times are milliseconds.
// Errors: ProtocolError for bytes that are no answer of this protocol; LimitExceeded for columns
//         of different lengths.
// Lives:  spans and string_views of an answer point into its frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sluicegate/error.hpp"
#include "sluicegate/quota_frames.hpp"
#include "sluicegate/verdict.hpp"

namespace sluicegate {

inline constexpr uint16_t protocol_version = 1;
inline constexpr uint32_t keep = 0xFFFF'FFFF;  // in an override column: no override
inline constexpr uint64_t keep_window = 0xFFFF'FFFF'FFFF'FFFF;  // likewise, of windows
inline constexpr uint32_t no_handle = 0xFFFF'FFFF;  // for a key that got none; never to be sent

// Bits of Acquire::details: which columns the answer shall have.
namespace detail {
inline constexpr uint8_t limit = 1, window = 2, remaining = 4, reset = 8, retry = 16,
                         request_id = 32, position = 64, all = 127;
}

// -------------------------------------------------------------------------------- requests

struct Hello {
  std::string_view client_name{};
  std::optional<uint32_t> wanted_shard{};
};

// "May I?" for each key. A column is empty, or has an element per key.
struct Acquire {
  std::span<const std::string_view> keys{};
  std::span<const uint32_t> costs{};                  // empty: 1 each
  std::span<const uint32_t> max_requests{};           // empty, or `keep`: no override
  std::span<const uint32_t> max_requests_in_queue{};  // likewise
  std::span<const uint8_t> may_wait{};  // not 0: wait in the key's queue instead of being denied
  // Empty, or `keep_window`: no override. Servers without feature_windows ignore it.
  std::span<const uint64_t> window_ms{};
  bool all_may_wait = false;
  uint32_t wait_limit_ms = 0;  // 0: no limit of its own
  uint8_t details = 0;         // bits of detail::
};

// The same for keys that were interned on this connection: four bytes a key.
struct AcquireByHandle {
  std::span<const uint32_t> handles{};
  std::span<const uint32_t> costs{};
  std::span<const uint32_t> max_requests{};
  std::span<const uint32_t> max_requests_in_queue{};
  std::span<const uint8_t> may_wait{};
  std::span<const uint64_t> window_ms{};
  bool all_may_wait = false;
  uint32_t wait_limit_ms = 0;
  uint8_t details = 0;
};

// Releases permits.
struct Release {
  std::span<const std::string_view> keys{};
  std::span<const uint32_t> costs{};  // empty: 1 each
};

// Withdraws waiting entries of the Acquire frame `target` from their queues.
struct Withdraw {
  uint64_t target = 0;
  std::span<const uint32_t> entries{};  // empty: all
};

struct Inspect {
  std::string_view key{};  // empty: a page of all keys
  uint64_t cursor = 0;     // of the page before; 0: from the start
  uint32_t limit = 0;      // keys on the page; 0: as many as the server allows
};

// Asks for a handle of each key. A handle is valid on its connection until Forget or the end.
struct Intern {
  std::span<const std::string_view> keys{};
};

struct Forget {
  std::span<const uint32_t> handles{};
};

struct Ping {};

// Asks which nodes share the keys; the server also reports each change, with the id 0. Only to
// servers with feature_topology.
struct AskTopology {};

// Each appends one frame to `out`.
void encode(uint64_t id, const Hello&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Acquire&, std::vector<uint64_t>& out);
void encode(uint64_t id, const AcquireByHandle&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Release&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Withdraw&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Inspect&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Intern&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Forget&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Ping&, std::vector<uint64_t>& out);
void encode(uint64_t id, const AskTopology&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Reserve&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Check&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Settle&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Cancel&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Extend&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Record&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Consume&, std::vector<uint64_t>& out);
void encode(uint64_t id, const AskUsage&, std::vector<uint64_t>& out);
void encode(uint64_t id, const PutQuota&, std::vector<uint64_t>& out);
void encode(uint64_t id, const RemoveQuota&, std::vector<uint64_t>& out);
void encode(uint64_t id, const Reset&, std::vector<uint64_t>& out);

// --------------------------------------------------------------------------------- answers

// Describes the server, and the bounds of this connection.
struct Welcome {
  uint16_t version = 0;
  uint32_t shard = 0;  // the one that serves this connection
  uint32_t shards = 0;
  bool routing_known = false;  // false: a routing hash of a newer server
  uint64_t routing_seed = 0;
  uint32_t frame_bytes_max = 0;
  uint32_t frame_entries_max = 0;
  uint32_t outstanding_frames_max = 0;
  uint32_t outstanding_bytes_max = 0;
  uint32_t waiting_entries_max = 0;
  uint32_t handles_max = 0;
  uint32_t key_bytes_max = 0;
  uint64_t instance_id = 0;  // of this start of the server
  uint64_t features = 0;
  std::string server_version{};
  uint16_t rest_port = 0;  // of the same host; 0: the server does not announce it
};

// Each column is empty when it was not requested.
struct Details {
  std::span<const uint32_t> limit{};
  std::span<const uint64_t> window_ms{};
  std::span<const uint32_t> remaining{};
  std::span<const uint64_t> reset_ms{};
  std::span<const uint64_t> retry_after_ms{};
  std::span<const uint64_t> request_id{};
  // Of an entry that waits: 1 is served next; 0: it does not wait. Not in Granted.
  std::span<const uint32_t> position{};
};

struct Verdicts {
  uint64_t id = 0;
  VerdictColumn verdicts{};
  Details details{};
};

// Outcomes of entries that got the verdict `queued` before.
struct Granted {
  uint64_t id = 0;
  std::span<const uint32_t> entries{};  // indexes in the Acquire or Reserve
  VerdictColumn verdicts{};             // of an Acquire
  Details details{};
  QuotaCodeColumn codes{};                    // of a Reserve
  std::span<const uint64_t> reservations{};   // likewise; empty: none
  std::span<const int64_t> retry_after_ms{};  // likewise; empty: 0 each
};

struct Done {
  uint64_t id = 0;
};

// A handle and a verdict per key, in their order.
struct Interned {
  uint64_t id = 0;
  std::span<const uint32_t> handles{};  // no_handle where the verdict is not `approved`
  VerdictColumn verdicts{};
};

struct InspectedKey {
  std::string_view key{};
  uint64_t window_ms = 0;
  uint64_t reset_ms = 0;
  uint32_t max_requests = 0;
  uint32_t max_requests_in_queue = 0;
  uint32_t approved = 0;
  uint32_t denied = 0;
  uint32_t waiting = 0;
};

struct Inspected {
  uint64_t id = 0;
  std::vector<InspectedKey> keys{};
  uint64_t cursor = 0;  // for the next page; 0: this was the last
};

struct Pong {
  uint64_t id = 0;
};

// An Error frame. The id is 0 when it concerns the connection.
struct Refusal {
  uint64_t id = 0;
  ErrorCode code = ErrorCode::none;
  std::string_view text{};
};

// The server is draining: it answers the frames it has received and then closes.
struct GoAway {
  std::string_view reason{};
};

struct TopologyNode {
  std::string_view host{};  // empty: not known
  uint16_t rest_port = 0;
  uint16_t native_port = 0;  // 0: not known yet; likewise below
  uint32_t shards = 0;
  uint64_t routing_seed = 0;
  uint64_t instance_id = 0;
};

// The nodes that share the keys, in the order of their list. The id is 0 where they have changed.
struct Topology {
  uint64_t id = 0;
  uint64_t list_digest = 0;
  bool node_hash_known = false;
  uint16_t own_node = 0;  // the place of the server that has sent this
  std::vector<TopologyNode> nodes{};
};

// A kind of answer that a newer server knows.
struct UnknownAnswer {
  uint64_t id = 0;
};

using Answer = std::variant<UnknownAnswer, Welcome, Verdicts, Granted, Done, Interned, Inspected,
                            Pong, Refusal, GoAway, QuotaAnswers, UsageReply, Topology>;

// The id of the answered request; 0 where there is none.
uint64_t id_of(const Answer&) noexcept;

// The size of the frame that begins here; nothing while its segment table is incomplete.
std::optional<size_t> frame_words(std::span<const uint64_t> words);

// Decodes one whole frame, segment table included.
Answer decode(std::span<const uint64_t> frame);

}  // namespace sluicegate
