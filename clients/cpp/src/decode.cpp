// Decodes frames into answers, in place. kj exceptions end here: they become ProtocolError.
#include <type_traits>

#include "decode_columns.hpp"

namespace sluicegate {
namespace {

constexpr size_t answer_segments_max = 64;
constexpr size_t answer_words_max = 8 * 1024 * 1024;  // 64 MiB: a sane peer stays far below

Details details(schema::Details::Reader from, size_t count) {
  return {detail_column<uint32_t>(from.getLimit(), count),
          detail_column<uint64_t>(from.getWindowMs(), count),
          detail_column<uint32_t>(from.getRemaining(), count),
          detail_column<uint64_t>(from.getResetMs(), count),
          detail_column<uint64_t>(from.getRetryAfterMs(), count),
          detail_column<uint64_t>(from.getRequestId(), count),
          detail_column<uint32_t>(from.getPosition(), count)};
}

Welcome welcome(schema::Welcome::Reader from) {
  Welcome to;
  to.version = from.getVersion();
  to.shard = from.getShard();
  to.shards = from.getShards();
  to.routing_known = from.getRoutingHash() == schema::RoutingHash::XXH3;
  to.routing_seed = from.getRoutingSeed();
  to.frame_bytes_max = from.getFrameBytesMax();
  to.frame_entries_max = from.getFrameEntriesMax();
  to.outstanding_frames_max = from.getOutstandingFramesMax();
  to.outstanding_bytes_max = from.getOutstandingBytesMax();
  to.waiting_entries_max = from.getWaitingEntriesMax();
  to.handles_max = from.getHandlesMax();
  to.key_bytes_max = from.getKeyBytesMax();
  to.instance_id = from.getInstanceId();
  to.features = from.getFeatures();
  to.server_version = text(from.getServerVersion());
  to.rest_port = from.getRestPort();
  return to;
}

Verdicts verdicts(uint64_t id, schema::Verdicts::Reader from) {
  const size_t count = from.getCount();
  return {id, code_column<Verdict>(from.getVerdicts(), count), details(from.getDetails(), count)};
}

Granted granted(uint64_t id, schema::Granted::Reader from) {
  const std::span<const uint32_t> entries = column<uint32_t>(from.getEntries());
  const size_t count = entries.size();
  Granted to{
      .id = id, .entries = entries, .verdicts = {}, .details = {}, .codes = {}, .reservations = {}};
  if (from.hasCodes()) {
    to.codes = code_column<QuotaCode>(from.getCodes(), count);
    to.reservations = detail_column<uint64_t>(from.getReservations(), count);
    to.retry_after_ms = detail_column<int64_t>(from.getRetryAfterMs(), count);
  } else {
    to.verdicts = code_column<Verdict>(from.getVerdicts(), count);
    to.details = details(from.getDetails(), count);
  }
  return to;
}

Interned interned(uint64_t id, schema::Interned::Reader from) {
  const std::span<const uint32_t> handles = column<uint32_t>(from.getHandles());
  return {id, handles, code_column<Verdict>(from.getVerdicts(), handles.size())};
}

Inspected inspected(uint64_t id, schema::Inspected::Reader from) {
  const auto key_sizes = column<uint16_t>(from.getKeySizes());
  const size_t count = key_sizes.size();
  const auto window_ms = detail_column<uint64_t>(from.getWindowMs(), count);
  const auto reset_ms = detail_column<uint64_t>(from.getResetMs(), count);
  const auto max_requests = detail_column<uint32_t>(from.getMaxRequests(), count);
  const auto max_in_queue = detail_column<uint32_t>(from.getMaxRequestsInQueue(), count);
  const auto approved = detail_column<uint32_t>(from.getApproved(), count);
  const auto denied = detail_column<uint32_t>(from.getDenied(), count);
  const auto waiting = detail_column<uint32_t>(from.getWaiting(), count);
  const capnp::Data::Reader blob = from.getKeys();
  const auto element = [](const auto& list, size_t index) {
    return list.empty() ? typename std::decay_t<decltype(list)>::value_type{} : list[index];
  };

  Inspected to{.id = id, .keys = {}, .cursor = from.getCursor()};
  to.keys.reserve(count);
  size_t begin = 0;
  for (size_t i = 0; i < count; begin += key_sizes[i], ++i) {
    if (key_sizes[i] > blob.size() - begin) {
      throw ProtocolError("the server sent keys whose sizes do not add up");
    }
    const auto* key = reinterpret_cast<const char*>(blob.begin()) + begin;
    to.keys.push_back({.key = {key, key_sizes[i]},
                       .window_ms = element(window_ms, i),
                       .reset_ms = element(reset_ms, i),
                       .max_requests = element(max_requests, i),
                       .max_requests_in_queue = element(max_in_queue, i),
                       .approved = element(approved, i),
                       .denied = element(denied, i),
                       .waiting = element(waiting, i)});
  }
  return to;
}

Topology topology(uint64_t id, schema::TopologyReply::Reader from) {
  const auto host_sizes = column<uint16_t>(from.getHostSizes());
  const size_t count = host_sizes.size();
  const auto rest_ports = detail_column<uint16_t>(from.getRestPorts(), count);
  const auto native_ports = detail_column<uint16_t>(from.getNativePorts(), count);
  const auto shards = detail_column<uint32_t>(from.getShards(), count);
  const auto routing_seeds = detail_column<uint64_t>(from.getRoutingSeeds(), count);
  const auto instance_ids = detail_column<uint64_t>(from.getInstanceIds(), count);
  const capnp::Data::Reader hosts = from.getHosts();
  const auto element = [](const auto& list, size_t index) {
    return list.empty() ? typename std::decay_t<decltype(list)>::value_type{} : list[index];
  };

  Topology to{.id = id,
              .list_digest = from.getListDigest(),
              .node_hash_known = from.getNodeHash() == schema::NodeHash::FNV1A,
              .own_node = from.getOwnNode(),
              .nodes = {}};
  to.nodes.reserve(count);
  size_t begin = 0;
  for (size_t i = 0; i < count; begin += host_sizes[i], ++i) {
    if (host_sizes[i] > hosts.size() - begin) {
      throw ProtocolError("the server sent hosts whose sizes do not add up");
    }
    const auto* host = reinterpret_cast<const char*>(hosts.begin()) + begin;
    to.nodes.push_back({.host = {host, host_sizes[i]},
                        .rest_port = element(rest_ports, i),
                        .native_port = element(native_ports, i),
                        .shards = element(shards, i),
                        .routing_seed = element(routing_seeds, i),
                        .instance_id = element(instance_ids, i)});
  }
  return to;
}

// A Verdicts frame without details in one segment and standard layout, word by word:
//   0 table | 1 -> ServerFrame | 2 id | 3 kind | 4 -> Verdicts | 5 count | 6 -> bytes | 7 no
//   details | 8... the bytes
// Fast path: nearly every answer is such a frame. Comparing five words recognises it, without a
// reader. Returns nothing for any other frame, valid or not.
std::optional<Verdicts> plain_verdicts(std::span<const uint64_t> frame) {
  constexpr size_t words_before_bytes = 8;
  constexpr uint64_t to_server_frame = uint64_t{2} << 32 | uint64_t{1} << 48;  // 2 data, 1 pointer
  constexpr uint64_t to_verdicts = uint64_t{1} << 32 | uint64_t{2} << 48;      // 1 data, 2 pointers
  constexpr uint64_t to_bytes = 1 | 1 << 2 | uint64_t{2} << 32;  // a byte list, 1 word on
  constexpr uint64_t to_bytes_mask = 0x7'FFFF'FFFF;              // all but its length
  if (frame.size() <= words_before_bytes) return std::nullopt;
  const size_t bytes_count = frame[6] >> 35;
  const size_t count = static_cast<uint32_t>(frame[5]);
  const bool is_plain = frame[0] == uint64_t{frame.size() - 1} << 32 &&
                        frame[1] == to_server_frame && frame[3] == schema::ServerFrame::VERDICTS &&
                        frame[4] == to_verdicts && (frame[6] & to_bytes_mask) == to_bytes &&
                        frame[7] == 0 &&
                        (bytes_count == count || (bytes_count == 1 && count > 0)) &&
                        frame.size() >= words_before_bytes + (bytes_count + 7) / 8;
  if (!is_plain) return std::nullopt;
  const auto* bytes = reinterpret_cast<const uint8_t*>(&frame[words_before_bytes]);
  return Verdicts{.id = frame[2], .verdicts = {{bytes, bytes_count}, count}, .details = {}};
}

Answer answer(schema::ServerFrame::Reader frame) {
  const uint64_t id = frame.getId();
  switch (frame.which()) {
    case schema::ServerFrame::WELCOME:
      return welcome(frame.getWelcome());
    case schema::ServerFrame::VERDICTS:
      return verdicts(id, frame.getVerdicts());
    case schema::ServerFrame::GRANTED:
      return granted(id, frame.getGranted());
    case schema::ServerFrame::DONE:
      return Done{id};
    case schema::ServerFrame::INTERNED:
      return interned(id, frame.getInterned());
    case schema::ServerFrame::INSPECTED:
      return inspected(id, frame.getInspected());
    case schema::ServerFrame::PONG:
      return Pong{id};
    case schema::ServerFrame::ERROR:
      return Refusal{id, static_cast<ErrorCode>(frame.getError().getCode()),
                     text(frame.getError().getText())};
    case schema::ServerFrame::GO_AWAY:
      return GoAway{text(frame.getGoAway().getReason())};
    case schema::ServerFrame::QUOTA_ANSWERS:
      return quota_answers(id, frame.getQuotaAnswers());
    case schema::ServerFrame::USAGE_REPLY:
      return usage_reply(id, frame.getUsageReply());
    case schema::ServerFrame::TOPOLOGY_REPLY:
      return topology(id, frame.getTopologyReply());
    case schema::ServerFrame::QUOTA_OUTCOMES:  // only nodes are sent these
    case schema::ServerFrame::UNSET:
      break;
  }
  return UnknownAnswer{id};
}

}  // namespace

uint64_t id_of(const Answer& any) noexcept {
  return std::visit(
      [](const auto& one) -> uint64_t {
        if constexpr (requires { one.id; }) return one.id;
        return 0;
      },
      any);
}

std::optional<size_t> frame_words(std::span<const uint64_t> words) {
  if (words.empty()) return std::nullopt;
  const size_t segments_count = (words[0] & 0xFFFF'FFFF) + 1;
  constexpr size_t http = 0x5054'5448;  // "HTTP", little-endian
  if (segments_count == http + 1) {
    throw ProtocolError(
        "the server answers in HTTP: this is the REST port; the native one is another, 8081 by "
        "default");
  }
  if (segments_count > answer_segments_max) {
    throw ProtocolError("the server sent a frame of too many segments, or no frame at all");
  }
  const size_t table_words = segments_count / 2 + 1;
  if (words.size() < table_words) return std::nullopt;
  size_t total = table_words;
  for (size_t i = 0; i < segments_count; ++i) {
    const size_t field = i + 1;  // the table's first field is the count
    total += static_cast<uint32_t>(words[field / 2] >> (field % 2 == 0 ? 0 : 32));
  }
  if (total > answer_words_max) throw ProtocolError("the server sent a frame of absurd length");
  return total;
}

Answer decode(std::span<const uint64_t> frame) {
  if (const auto verdicts = plain_verdicts(frame)) return *verdicts;
  try {
    const kj::ArrayPtr<const capnp::word> words{reinterpret_cast<const capnp::word*>(frame.data()),
                                                frame.size()};
    capnp::ReaderOptions options;
    options.traversalLimitInWords = 2 * answer_words_max;
    options.nestingLimit = 8;
    capnp::FlatArrayMessageReader message{words, options};
    return answer(message.getRoot<schema::ServerFrame>());
  } catch (const kj::Exception& fault) {
    throw ProtocolError(std::string{"the server sent a malformed frame: "} +
                        fault.getDescription().cStr());
  }
}

}  // namespace sluicegate
