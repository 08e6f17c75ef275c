// Fixed maxima that more than one folder or the protocol depends on. A bound of one class alone
// stands beside that class; what an operator can change is in config/.
// Units: last word of the name.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::limits {

// Decisions (gocc's bounds).
inline constexpr uint32_t permits_max = 1'000'000'000;  // maxRequests, cost
inline constexpr uint32_t queue_max = 1'000'000'000;    // maxRequestsInQueue
inline constexpr uint32_t wait_ms_max = 3'600'000;      // maxWaitMillis, --max-wait-millis
inline constexpr int64_t window_ms_min = 10;
inline constexpr int64_t window_ms_max = 365LL * 24 * 3600 * 1000;  // of a rule or a quota
inline constexpr int64_t default_window_ms_max = 3'600'000;         // --window-millis
inline constexpr uint32_t key_bytes_max = 65'535;                   // a List(UInt16) holds it
inline constexpr int64_t idle_windows = 3;  // a key idle longer is forgotten

// Quotas.
inline constexpr uint64_t amount_max = INT64_MAX;  // of a limit, and of a call
inline constexpr uint32_t quota_limits_max = 16;   // of one subject
inline constexpr uint32_t limit_name_bytes_max = 32;
inline constexpr uint32_t call_subjects_max = 8;
// The retry time where none can be computed: a concurrency limit is reached, others are ahead in
// the queue, the server is full, or shuts down.
inline constexpr int64_t unknown_retry_after_ms = 1'000;
inline constexpr uint32_t client_id_bytes_max = 128;  // likewise of an owner
// With a state file the answer to what changes quotas waits so long for the disk. Other nodes wait
// as much longer for it.
inline constexpr int64_t durable_wait_ms_max = 10'000;
inline constexpr uint32_t lifetime_ms_min = 10;
inline constexpr uint32_t lifetime_ms_max = 2'592'000'000;  // 30 days; longer calls extend
inline constexpr uint32_t overtakers_max = 1'000;
inline constexpr uint32_t quota_calls_max = 2'048;    // in one frame
inline constexpr uint32_t quota_reports_max = 4'096;  // limits reported in one answer
inline constexpr uint32_t subjects_page_max = 256;    // rows in one answer; likewise of holders
// Reservations that one call searches for open ones, and the text of their rows.
inline constexpr uint32_t holders_scan_max = 8'192;
inline constexpr uint32_t holders_text_bytes_max = 64 * 1024;

// Instances that limit together (--instance-urls).
inline constexpr uint32_t instances_max = 1'024;
inline constexpr uint32_t peer_timeout_ms_max = 60'000;
// For which a node repeats to another one what that has to know, at least.
inline constexpr uint32_t repeats_ms_min = 30'000;
// By which a part of a reservation may outlive its home: a second, and a time-out of each node; one
// that has expired also for as long as an end is repeated.
inline constexpr uint32_t part_slack_ms_max =
    1'000 + call_subjects_max * peer_timeout_ms_max + repeats_ms_min;
inline constexpr uint32_t forwarded_calls_max = 256;  // quota calls of a frame to another node
inline constexpr uint32_t node_tasks_max = 65'536;    // batches of other nodes, of a shard

// The ids of reservations have room for them.
inline constexpr uint32_t shards_max = 256;
inline constexpr uint32_t reservations_max = 8'000'000;  // open, of all shards together

// Native protocol. Welcome announces them.
inline constexpr uint32_t frame_bytes_max = 256 * 1024;
inline constexpr uint32_t frame_segments_max = 8;
inline constexpr uint32_t frame_entries_max = 8'192;
// Text of the keys that one frame names by handle, where other shards own some of them.
inline constexpr uint32_t handles_text_bytes_max = 1024 * 1024;
inline constexpr uint32_t outstanding_frames_max = 1'024;
inline constexpr uint32_t outstanding_bytes_max = 1024 * 1024;
inline constexpr uint32_t connection_waiters_max = 16'384;
inline constexpr uint32_t client_name_bytes_max = 256;
inline constexpr uint32_t remembered_forwards = 16;      // of a connection: when they came
inline constexpr uint32_t forward_outcomes_max = 4'096;  // in one Granted, for their permits' sake
inline constexpr uint32_t position_max = 1'000;          // in the queue of a subject
inline constexpr uint32_t shown_waiters_max = 20;        // of one key
inline constexpr uint32_t inspect_page_max = 1'024;      // keys in one Inspected frame

// REST.
inline constexpr uint32_t http_header_bytes_max = 8 * 1024;
inline constexpr uint32_t http_body_bytes_max = 64 * 1024;
inline constexpr uint32_t correlation_id_bytes_max = 256;  // that another node is sent
inline constexpr uint32_t debug_keys_max = 1'000'000'000;  // ?limit= of GET /debug
inline constexpr uint32_t top_keys_max = 100;              // ?keys= of GET /top
inline constexpr uint32_t top_keys_default = 20;           // of GET /top without ?keys=
// Decisions of a connection of HTTP/1.1 that shards are asked for before the first is answered.
inline constexpr uint32_t pipelined_decisions_max = 64;

// Buffers of one connection; address space, committed as it is used.
inline constexpr uint32_t receive_buffer_bytes = 32 * 1024;
inline constexpr uint32_t receive_buffers = 64;          // of one worker
inline constexpr uint32_t taken_bytes_max = 512 * 1024;  // by one Io::receive_now()
inline constexpr uint32_t output_high_bytes = 256 * 1024;
inline constexpr uint32_t output_low_bytes = 64 * 1024;
inline constexpr uint32_t reply_bytes_max = 512 * 1024;  // the largest single reply but /metrics
// The text of GET /metrics: every shard has its own series, and so has every other node of the
// list, whose name and port may have 259 bytes.
constexpr uint32_t metrics_bytes_max(uint32_t shards, uint32_t nodes) noexcept {
  return (1 + shards) * 12 * 1024 + (nodes - 1) * 3 * 1024;
}
// One output buffer: what may be unsent when a request is taken, and what that request writes.
constexpr uint32_t output_bytes(uint32_t shards, uint32_t nodes = 1) noexcept {
  return output_high_bytes +
         std::max(2 * reply_bytes_max, http_header_bytes_max + metrics_bytes_max(shards, nodes));
}
// Words for the reservations that unsent replies name, of each of a connection's two output
// buffers: as many as 256 KiB of replies can name, and those of one more frame.
inline constexpr uint32_t undelivered_words = output_high_bytes / 8 + 2 * frame_entries_max;
// Bytes that the kernel had received when reading was stopped still have to fit.
inline constexpr uint32_t input_bytes =
    frame_bytes_max + 2 * receive_buffers * receive_buffer_bytes;

// One loop turn.
inline constexpr uint32_t turn_entries = 16'384;  // decided together at most
inline constexpr uint32_t turn_requests = 4'096;
inline constexpr uint32_t turn_events = 512;
// Keys interned and handles forgotten in a turn; a single larger frame is done whole.
inline constexpr uint32_t turn_handle_work = 2'048;
// What a turn frees of ended connections: handles of one connection, and connections.
inline constexpr uint32_t turn_handles_freed = 512;
inline constexpr uint32_t turn_handle_sets_freed = 8;
// Ended connections whose handles are not freed yet; beyond that Intern is refused (handles_full).
inline constexpr uint32_t departed_sets_max = 1'024;

static_assert(turn_entries >= 2 * frame_entries_max);
static_assert(forward_outcomes_max <= frame_entries_max);
static_assert(handles_text_bytes_max >= frame_bytes_max);
static_assert(holders_text_bytes_max > key_bytes_max);
static_assert(outstanding_bytes_max >= frame_bytes_max);

}  // namespace sluice::limits
