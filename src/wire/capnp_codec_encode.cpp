// The encoding half of capnp_codec.hpp. FrameWriter lays out the answers instead of the library's
// builder: no allocation, no exception, and columns are plain loops. Golden files of the `capnp`
// tool pin the schema's offsets.
#include <sluicegate.capnp.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/answer_frame.hpp"
#include "wire/answer_layout.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_writer.hpp"

namespace sluice::wire {
namespace {

// Byte offsets into a struct's data (`capnp compile -ocapnp`); pointers by answer_layout.hpp.
namespace welcome_at {
constexpr size_t version = 0, routing_hash = 2, shard = 4, shards = 8, frame_bytes_max = 12,
                 routing_seed = 16, frame_entries_max = 24, outstanding_frames_max = 28,
                 outstanding_bytes_max = 32, waiting_entries_max = 36, handles_max = 40,
                 key_bytes_max = 44, instance_id = 48, features = 56, rest_port = 64;
constexpr size_t server_version = pointer_of(welcome_rows, "serverVersion");
}  // namespace welcome_at
namespace verdicts_at {
constexpr size_t count = 0;
constexpr size_t verdicts = pointer_of(verdicts_rows, "verdicts"),
                 details = pointer_of(verdicts_rows, "details");
}  // namespace verdicts_at
namespace granted_at {
constexpr size_t entries = pointer_of(granted_rows, "entries"),
                 verdicts = pointer_of(granted_rows, "verdicts"),
                 details = pointer_of(granted_rows, "details"),
                 reservations = pointer_of(granted_rows, "reservations"),
                 codes = pointer_of(granted_rows, "codes"),
                 retry_after_ms = pointer_of(granted_rows, "retryAfterMs"),
                 permits = pointer_of(granted_rows, "permits");
}
namespace interned_at {
constexpr size_t handles = pointer_of(interned_rows, "handles"),
                 verdicts = pointer_of(interned_rows, "verdicts");
}
namespace inspected_at {
constexpr size_t cursor = 0;
constexpr size_t keys = pointer_of(inspected_rows, "keys");
}  // namespace inspected_at
namespace topology_at {
constexpr size_t list_digest = 0, node_hash = 8, own_node = 10;
constexpr size_t hosts = pointer_of(topology_rows, "hosts");
}  // namespace topology_at
namespace error_at {
constexpr size_t code = 0;
constexpr size_t text = pointer_of(error_rows, "text");
}  // namespace error_at
namespace go_away_at {
constexpr size_t reason = pointer_of(go_away_rows, "reason");
}

// The bound of a small answer's text, whatever else the answer has.
constexpr size_t text_bytes_max =
    small_answer_bytes_max - frame_head_bytes - shape_of<schema::Welcome>.bytes() - word_bytes;
static_assert(shape_of<schema::Error>.bytes() <= shape_of<schema::Welcome>.bytes());
static_assert(shape_of<schema::GoAway>.bytes() <= shape_of<schema::Welcome>.bytes());

size_t encode_bare(uint64_t id, Kind kind, std::span<std::byte> out) noexcept {
  FrameWriter writer(out);
  add_frame(writer, id, kind);
  return writer.finish();
}

// A byte for each verdict or code, or one byte when all are equal, as they mostly are.
template <typename Code>
void add_codes(FrameWriter& writer, FrameWriter::Struct parent, size_t pointer,
               std::span<const Code> codes) noexcept {
  static_assert(sizeof(Code) == 1);
  if (codes.empty()) return;
  const bool all_agree = std::memcmp(codes.data(), codes.data() + 1, codes.size() - 1) == 0;
  const size_t count = all_agree ? 1 : codes.size();
  std::memcpy(writer.add_list<Code>(parent, pointer, count), codes.data(), count);
}

// A column of Granted; one of zeros is left out.
template <size_t pointer, typename Number>
void add_unless_zero(FrameWriter& writer, FrameWriter::Struct granted,
                     std::span<const Number> numbers) noexcept {
  const bool all_zero =
      std::all_of(numbers.begin(), numbers.end(), [](Number number) { return number == 0; });
  if (!all_zero) add_column<pointer>(writer, granted, granted_rows, numbers);
}

void add_details(FrameWriter& writer, FrameWriter::Struct parent, size_t pointer,
                 std::span<const api::Detail> details, uint8_t bits) noexcept {
  if (bits == 0) return;
  const auto columns = writer.add_struct(parent, pointer, shape_of<schema::Details>);
  each_column(details_rows, [&](size_t column, const auto& row) {
    if ((bits & detail_bit_of(column)) != 0) add_column(writer, columns, column, row, details);
  });
}

size_t details_bytes(size_t count, uint8_t bits) noexcept {
  if (bits == 0) return 0;
  size_t bytes = shape_of<schema::Details>.bytes();
  each_column(details_rows, [&](size_t column, const auto& row) {
    if ((bits & detail_bit_of(column)) != 0) bytes += column_bytes(row, count);
  });
  return bytes;
}

// The size of all keys, which are written end to end.
size_t keys_bytes(std::span<const api::KeyState> keys) noexcept {
  size_t bytes = 0;
  for (const api::KeyState& key : keys) bytes += key.key.size();
  return bytes;
}

void add_keys(FrameWriter& writer, FrameWriter::Struct inspected,
              std::span<const api::KeyState> keys) noexcept {
  std::byte* next = writer.add_list<char>(inspected, inspected_at::keys, keys_bytes(keys));
  for (const api::KeyState& key : keys) {
    if (key.key.empty()) continue;
    std::memcpy(next, key.key.data(), key.key.size());
    next += key.key.size();
  }
}

// With names as long as DNS has them, and all columns.
static_assert(limits::instances_max * (253 + 3 * 2 + 4 + 2 * 8) + 1'024 <= limits::reply_bytes_max);

size_t hosts_bytes(const Topology& topology) noexcept {
  size_t bytes = 0;
  for (const TopologyNode& node : topology.nodes) bytes += node.host.size();
  return bytes;
}

void add_hosts(FrameWriter& writer, FrameWriter::Struct reply, const Topology& topology) noexcept {
  std::byte* next = writer.add_list<char>(reply, topology_at::hosts, hosts_bytes(topology));
  for (const TopologyNode& node : topology.nodes) {
    if (node.host.empty()) continue;
    std::memcpy(next, node.host.data(), node.host.size());
    next += node.host.size();
  }
}

}  // namespace

size_t verdicts_bytes_max(uint32_t entries_count, uint8_t detail_bits) noexcept {
  return frame_head_bytes + shape_of<schema::Verdicts>.bytes() + list_bytes(entries_count, 1) +
         details_bytes(entries_count, detail_bits);
}

size_t granted_bytes_max(uint32_t entries_count, uint8_t detail_bits,
                         uint32_t permits_count) noexcept {
  return frame_head_bytes + shape_of<schema::Granted>.bytes() +
         columns_bytes(granted_rows, entries_count) + list_bytes(entries_count, 1) +
         details_bytes(entries_count, detail_bits & detail_bit::of_granted) +
         permits_count * permit_bytes;
}

size_t interned_bytes_max(uint32_t keys_count) noexcept {
  return frame_head_bytes + shape_of<schema::Interned>.bytes() +
         columns_bytes(interned_rows, keys_count) + list_bytes(keys_count, 1);
}

size_t inspected_bytes_max(std::span<const api::KeyState> keys) noexcept {
  return frame_head_bytes + shape_of<schema::Inspected>.bytes() + list_bytes(keys_bytes(keys), 1) +
         columns_bytes(inspected_rows, keys.size());
}

size_t topology_bytes_max(const Topology& topology) noexcept {
  return frame_head_bytes + shape_of<schema::TopologyReply>.bytes() +
         list_bytes(hosts_bytes(topology), 1) + columns_bytes(topology_rows, topology.nodes.size());
}

size_t encode_welcome(uint64_t id, const WelcomeAnswer& answer, std::span<std::byte> out) noexcept {
  FrameWriter writer(out);
  const auto welcome = add_body<schema::Welcome>(writer, id, Kind::WELCOME);
  writer.set(welcome, welcome_at::version, protocol_version);
  writer.set(welcome, welcome_at::shard, answer.shard);
  writer.set(welcome, welcome_at::shards, answer.shards);
  writer.set(welcome, welcome_at::routing_hash, schema::RoutingHash::XXH3);
  writer.set(welcome, welcome_at::routing_seed, answer.routing_seed);
  writer.set(welcome, welcome_at::frame_bytes_max, limits::frame_bytes_max);
  writer.set(welcome, welcome_at::frame_entries_max, limits::frame_entries_max);
  writer.set(welcome, welcome_at::outstanding_frames_max, limits::outstanding_frames_max);
  writer.set(welcome, welcome_at::outstanding_bytes_max, limits::outstanding_bytes_max);
  writer.set(welcome, welcome_at::waiting_entries_max, answer.waiting_entries_max);
  writer.set(welcome, welcome_at::handles_max, answer.handles_max);
  writer.set(welcome, welcome_at::key_bytes_max, answer.key_bytes_max);
  writer.set(welcome, welcome_at::instance_id, answer.instance_id);
  constexpr uint64_t features =
      feature_bit::quotas | feature_bit::windows | feature_bit::looks | feature_bit::topology;
  writer.set(welcome, welcome_at::features,
             features | (answer.takes_forwards ? feature_bit::forward : 0) |
                 (answer.takes_quota_calls ? feature_bit::forward_quota : 0));
  writer.set(welcome, welcome_at::rest_port, answer.rest_port);
  writer.add_text(welcome, welcome_at::server_version,
                  answer.server_version.substr(0, text_bytes_max));
  return writer.finish();
}

size_t encode_verdicts(uint64_t id, std::span<const api::Verdict> verdicts,
                       std::span<const api::Detail> details, uint8_t detail_bits,
                       std::span<std::byte> out) noexcept {
  ASSERT(detail_bits == 0 || details.size() == verdicts.size());
  FrameWriter writer(out);
  const auto body = add_body<schema::Verdicts>(writer, id, Kind::VERDICTS);
  writer.set(body, verdicts_at::count, static_cast<uint32_t>(verdicts.size()));
  add_codes(writer, body, verdicts_at::verdicts, verdicts);
  add_details(writer, body, verdicts_at::details, details, detail_bits);
  return writer.finish();
}

size_t encode_granted(uint64_t id, std::span<const uint32_t> entries,
                      std::span<const api::Verdict> verdicts, std::span<const api::Detail> details,
                      uint8_t detail_bits, std::span<std::byte> out,
                      std::span<const Permit> permits) noexcept {
  ASSERT(entries.size() == verdicts.size());
  ASSERT(detail_bits == 0 || details.size() == verdicts.size());
  FrameWriter writer(out);
  const auto body = add_body<schema::Granted>(writer, id, Kind::GRANTED);
  add_column<granted_at::entries>(writer, body, granted_rows, entries);
  add_codes(writer, body, granted_at::verdicts, verdicts);
  add_details(writer, body, granted_at::details, details, detail_bits & detail_bit::of_granted);
  if (!permits.empty()) {
    std::memcpy(writer.add_list<std::byte>(body, granted_at::permits, permits.size_bytes()),
                permits.data(), permits.size_bytes());
  }
  return writer.finish();
}

size_t encode_granted(uint64_t id, const ReserveOutcomes& outcomes,
                      std::span<std::byte> out) noexcept {
  ASSERT(outcomes.codes.size() == outcomes.entries.size());
  ASSERT(outcomes.reservations.size() == outcomes.entries.size());
  ASSERT(outcomes.retry_after_ms.size() == outcomes.entries.size());
  FrameWriter writer(out);
  const auto body = add_body<schema::Granted>(writer, id, Kind::GRANTED);
  add_column<granted_at::entries>(writer, body, granted_rows, outcomes.entries);
  add_unless_zero<granted_at::reservations>(writer, body, outcomes.reservations);
  add_codes(writer, body, granted_at::codes, outcomes.codes);
  add_unless_zero<granted_at::retry_after_ms>(writer, body, outcomes.retry_after_ms);
  return writer.finish();
}

size_t encode_done(uint64_t id, std::span<std::byte> out) noexcept {
  return encode_bare(id, Kind::DONE, out);
}

size_t encode_pong(uint64_t id, std::span<std::byte> out) noexcept {
  return encode_bare(id, Kind::PONG, out);
}

size_t encode_interned(uint64_t id, std::span<const api::Handle> handles,
                       std::span<const api::Verdict> verdicts, std::span<std::byte> out) noexcept {
  ASSERT(handles.size() == verdicts.size());
  FrameWriter writer(out);
  const auto body = add_body<schema::Interned>(writer, id, Kind::INTERNED);
  add_column<interned_at::handles>(writer, body, interned_rows, handles);
  add_codes(writer, body, interned_at::verdicts, verdicts);
  return writer.finish();
}

size_t encode_inspected(uint64_t id, std::span<const api::KeyState> keys, uint64_t next_cursor,
                        std::span<std::byte> out) noexcept {
  FrameWriter writer(out);
  const auto body = add_body<schema::Inspected>(writer, id, Kind::INSPECTED);
  writer.set(body, inspected_at::cursor, next_cursor);
  add_keys(writer, body, keys);
  each_column(inspected_rows, [&](size_t pointer, const auto& row) {
    add_column(writer, body, pointer, row, keys);
  });
  return writer.finish();
}

size_t encode_topology(uint64_t id, const Topology& topology, std::span<std::byte> out) noexcept {
  FrameWriter writer(out);
  const auto body = add_body<schema::TopologyReply>(writer, id, Kind::TOPOLOGY_REPLY);
  writer.set(body, topology_at::list_digest, topology.list_digest);
  writer.set(body, topology_at::node_hash, schema::NodeHash::FNV1A);
  writer.set(body, topology_at::own_node, topology.own_node);
  add_hosts(writer, body, topology);
  const std::span nodes(topology.nodes);
  each_column(topology_rows, [&](size_t pointer, const auto& row) {
    add_column(writer, body, pointer, row, nodes);
  });
  return writer.finish();
}

size_t encode_error(uint64_t id, const ErrorAnswer& answer, std::span<std::byte> out) noexcept {
  FrameWriter writer(out);
  const auto error = add_body<schema::Error>(writer, id, Kind::ERROR);
  writer.set(error, error_at::code, static_cast<uint16_t>(answer.code));
  writer.add_text(error, error_at::text, answer.text.substr(0, text_bytes_max));
  return writer.finish();
}

size_t encode_go_away(std::string_view reason, std::span<std::byte> out) noexcept {
  FrameWriter writer(out);
  const auto go_away = add_body<schema::GoAway>(writer, 0, Kind::GO_AWAY);
  writer.add_text(go_away, go_away_at::reason, reason.substr(0, text_bytes_max));
  return writer.finish();
}

}  // namespace sluice::wire
