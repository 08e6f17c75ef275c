// The decoding half of lane_codec.hpp: the library finds and bounds every column in one traversal.
// Only a frame of several segments allocates, and the exception for a malformed one, which ends its
// lane.
#include <sluicegate.capnp.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/answer_layout.hpp"
#include "wire/column_reader.hpp"
#include "wire/frame_message.hpp"
#include "wire/lane_codec.hpp"

namespace sluice::wire {
namespace {

using Body = decltype(OwnerFrame::body);
using Read = tl::expected<Body, ErrorCode>;

tl::unexpected<ErrorCode> refuse(ErrorCode code) noexcept {
  return tl::make_unexpected(code);
}

api::Verdict verdict_of(uint8_t byte) noexcept {
  return byte < api::verdicts_count ? static_cast<api::Verdict>(byte)
                                    : api::Verdict::owner_unreachable;
}

std::string_view view(capnp::Text::Reader text) {
  return {text.begin(), text.size()};
}

template <typename T>
bool absent_or_as_long(Column<T> column, size_t count) noexcept {
  return column.empty() || column.size() == count;
}

bool are_as_long(const AnswerDetails& details, size_t count) noexcept {
  return absent_or_as_long(details.limit, count) && absent_or_as_long(details.window_ms, count) &&
         absent_or_as_long(details.remaining, count) &&
         absent_or_as_long(details.reset_ms, count) &&
         absent_or_as_long(details.retry_after_ms, count) &&
         absent_or_as_long(details.request_id, count) && absent_or_as_long(details.position, count);
}

// A byte for all entries, or one each.
bool is_as_long(const AnswerVerdicts& verdicts, size_t count) noexcept {
  return verdicts.bytes.size() == count || (count > 0 && verdicts.bytes.size() == 1);
}

bool has_verdict(const AnswerVerdicts& verdicts, api::Verdict verdict) noexcept {
  return std::find(verdicts.bytes.begin(), verdicts.bytes.end(), static_cast<uint8_t>(verdict)) !=
         verdicts.bytes.end();
}

// False: a column of the wrong type.
template <typename Reader>
bool read_details(Reader answer, AnswerDetails& details) {
  if (!answer.hasDetails()) return true;
  ColumnReader reader(answer.getDetails());
  details = {.limit = reader.column<uint32_t>(pointer_of(details_rows, "limit")),
             .window_ms = reader.column<uint64_t>(pointer_of(details_rows, "windowMs")),
             .remaining = reader.column<uint32_t>(pointer_of(details_rows, "remaining")),
             .reset_ms = reader.column<uint64_t>(pointer_of(details_rows, "resetMs")),
             .retry_after_ms = reader.column<uint64_t>(pointer_of(details_rows, "retryAfterMs")),
             .request_id = reader.column<uint64_t>(pointer_of(details_rows, "requestId")),
             .position = reader.column<uint32_t>(pointer_of(details_rows, "position"))};
  return reader.types_match();
}

Read read_verdicts(schema::Verdicts::Reader answer) {
  VerdictsFrame frame{.count = answer.getCount(), .has_details = answer.hasDetails()};
  ColumnReader reader(answer);
  frame.verdicts.bytes = reader.column<uint8_t>(pointer_of(verdicts_rows, "verdicts"));
  const bool types_match = read_details(answer, frame.details) && reader.types_match();
  const bool is_whole = frame.count <= limits::frame_entries_max &&
                        is_as_long(frame.verdicts, frame.count) &&
                        are_as_long(frame.details, frame.count);
  if (!types_match || !is_whole) return refuse(ErrorCode::bad_columns);
  if (has_verdict(frame.verdicts, api::Verdict::none)) return refuse(ErrorCode::malformed);
  return frame;
}

size_t approved_count(const GrantedFrame& frame) noexcept {
  const size_t approved =
      static_cast<size_t>(std::count(frame.verdicts.bytes.begin(), frame.verdicts.bytes.end(),
                                     static_cast<uint8_t>(api::Verdict::approved)));
  return frame.verdicts.bytes.size() == 1 ? approved * frame.entries.size() : approved;
}

Read read_granted(schema::Granted::Reader answer) {
  GrantedFrame frame;
  ColumnReader reader(answer);
  frame.entries = reader.column<uint32_t>(pointer_of(granted_rows, "entries"));
  frame.verdicts.bytes = reader.column<uint8_t>(pointer_of(granted_rows, "verdicts"));
  frame.permits = reader.bytes(pointer_of(granted_rows, "permits"));
  const bool types_match = read_details(answer, frame.details) && reader.types_match();
  const size_t count = frame.entries.size();
  const bool is_whole = count <= limits::frame_entries_max && is_as_long(frame.verdicts, count) &&
                        are_as_long(frame.details, count);
  if (!types_match || !is_whole) return refuse(ErrorCode::bad_columns);
  const bool has_permits = !frame.permits.empty();
  if (has_permits && frame.permits.size() != approved_count(frame) * permit_bytes) {
    return refuse(ErrorCode::bad_columns);
  }
  if (has_verdict(frame.verdicts, api::Verdict::none) ||
      has_verdict(frame.verdicts, api::Verdict::queued)) {
    return refuse(ErrorCode::malformed);
  }
  return frame;
}

WelcomeFrame read_welcome(schema::Welcome::Reader answer) {
  return {.version = answer.getVersion(),
          .shard = answer.getShard(),
          .shards = answer.getShards(),
          .routing_known = answer.getRoutingHash() == schema::RoutingHash::XXH3,
          .routing_seed = answer.getRoutingSeed(),
          .bounds = {.frame_bytes_max = answer.getFrameBytesMax(),
                     .frame_entries_max = answer.getFrameEntriesMax()},
          .outstanding_frames_max = answer.getOutstandingFramesMax(),
          .outstanding_bytes_max = answer.getOutstandingBytesMax(),
          .waiting_entries_max = answer.getWaitingEntriesMax(),
          .key_bytes_max = answer.getKeyBytesMax(),
          .instance_id = answer.getInstanceId(),
          .features = answer.getFeatures(),
          .rest_port = answer.getRestPort(),
          .server_version = view(answer.getServerVersion())};
}

// A code of a newer owner is `unsupported`.
ErrorFrame read_error(schema::Error::Reader answer) {
  const auto code = static_cast<uint16_t>(answer.getCode());
  const bool known = code <= static_cast<uint16_t>(ErrorCode::secret_expected);
  return {.code = known ? static_cast<ErrorCode>(code) : ErrorCode::unsupported,
          .text = view(answer.getText())};
}

Read read_body(schema::ServerFrame::Reader frame) {
  using schema::ServerFrame;
  switch (frame.which()) {
    case ServerFrame::WELCOME:
      return read_welcome(frame.getWelcome());
    case ServerFrame::VERDICTS:
      return read_verdicts(frame.getVerdicts());
    case ServerFrame::GRANTED:
      return read_granted(frame.getGranted());
    case ServerFrame::DONE:
      return DoneFrame{};
    case ServerFrame::PONG:
      return PongFrame{};
    case ServerFrame::ERROR:
      return read_error(frame.getError());
    case ServerFrame::GO_AWAY:
      return GoAwayFrame{view(frame.getGoAway().getReason())};
    default:
      return OtherFrame{};
  }
}

}  // namespace

api::Detail AnswerDetails::operator[](size_t entry) const noexcept {
  const auto at = [entry]<typename T>(Column<T> column) {
    return column.empty() ? T{} : column[entry];
  };
  return {.limit = at(limit),
          .remaining = at(remaining),
          .position = at(position),
          .window_ms = static_cast<int64_t>(at(window_ms)),
          .reset_ms = static_cast<int64_t>(at(reset_ms)),
          .retry_after_ms = static_cast<int64_t>(at(retry_after_ms)),
          .request_id = at(request_id)};
}

api::Verdict AnswerVerdicts::operator[](size_t entry) const noexcept {
  return verdict_of(bytes.size() == 1 ? bytes[0] : bytes[entry]);
}

void VerdictsFrame::copy_to(std::span<api::Verdict> to) const noexcept {
  ASSERT(to.size() == count);
  if (verdicts.bytes.size() == 1) {
    std::fill(to.begin(), to.end(), verdicts[0]);
  } else {
    std::transform(verdicts.bytes.begin(), verdicts.bytes.end(), to.begin(), verdict_of);
  }
}

void VerdictsFrame::copy_to(std::span<api::Detail> to) const noexcept {
  if (!has_details) return;
  ASSERT(to.size() == count);
  for (size_t entry = 0; entry < count; ++entry) to[entry] = details[entry];
}

tl::expected<OwnerFrame, ErrorCode> decode_owner_frame(Frame frame) noexcept {
  ASSERT(frame.size() >= word_bytes);
  ASSERT(reinterpret_cast<uintptr_t>(frame.data()) % word_bytes == 0);
  try {
    FrameMessage message(frame);
    const auto root = message.root<schema::ServerFrame>();
    if (root.isQuotaOutcomes()) return OwnerFrame{root.getId(), QuotaOutcomesFrame{frame}};
    Read body = read_body(root);
    if (!body) return tl::make_unexpected(body.error());
    return OwnerFrame{root.getId(), *body};
  } catch (...) {
    return tl::make_unexpected(ErrorCode::malformed);
  }
}

}  // namespace sluice::wire
