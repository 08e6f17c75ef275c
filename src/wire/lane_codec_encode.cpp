// The encoding half of lane_codec.hpp. FrameWriter lays the frames out as a builder of the library
// does, so that the owner reads them on its fast path.
#include <sluicegate.capnp.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "base/assert.hpp"
#include "base/limits.hpp"
#include "wire/answer_frame.hpp"
#include "wire/frame_writer.hpp"
#include "wire/lane_codec.hpp"
#include "wire/request_layout.hpp"

namespace sluice::wire {
namespace {

using api::Entry;
using api::Op;
using Writer = FrameWriter;

// ------------------------------------------------------------------------ frames to the owner

constexpr size_t request_head_bytes = Writer::head_bytes + shape_of<schema::ClientFrame>.bytes();
static_assert(ping_bytes == request_head_bytes);

template <typename Request>
constexpr size_t empty_frame_bytes = request_head_bytes +
                                     shape_of<typename Layout<Request>::Struct>.bytes();

// The place of a field, or the pointer of a column, of the request's struct.
template <typename Request>
consteval size_t byte_of(std::string_view name) {
  size_t byte = SIZE_MAX;
  each_row(Layout<Request>::fields, [&](size_t, const auto& row) {
    if (name == row.name) byte = row.byte;
  });
  if (byte == SIZE_MAX) throw "no field has this name";
  return byte;
}
template <typename Request>
consteval size_t pointer_in(std::string_view name) {
  return pointer_of(Layout<Request>::columns, name);
}

Writer::Struct add_request(Writer& writer, uint64_t id, schema::ClientFrame::Which kind) noexcept {
  const auto frame = writer.add_root(shape_of<schema::ClientFrame>);
  writer.set(frame, frame_at::id, id);
  writer.set(frame, frame_at::kind, static_cast<uint16_t>(kind));
  return frame;
}

template <typename Request>
Writer::Struct add_request(Writer& writer, uint64_t id) noexcept {
  const auto frame = add_request(writer, id, Layout<Request>::kind);
  return writer.add_struct(frame, frame_at::body, shape_of<typename Layout<Request>::Struct>);
}

constexpr size_t text_field_bytes(std::string_view text) noexcept {
  return text.empty() ? 0 : list_bytes(text.size() + 1, 1);
}

std::string_view name_of(const LaneHello& hello) noexcept {
  return hello.client_name.substr(0, limits::client_name_bytes_max);
}

// ------------------------------------------------------------------------------------ Forward

namespace forward_at {
constexpr auto details = byte_of<ForwardRequest>("details");
constexpr auto flags = byte_of<ForwardRequest>("flags");
constexpr auto wait_limit_ms = byte_of<ForwardRequest>("waitLimitMs");
constexpr auto keys = pointer_in<ForwardRequest>("keys");
constexpr auto key_sizes = pointer_in<ForwardRequest>("keySizes");
constexpr auto costs = pointer_in<ForwardRequest>("costs");
constexpr auto max_requests = pointer_in<ForwardRequest>("maxRequests");
constexpr auto max_requests_in_queue = pointer_in<ForwardRequest>("maxRequestsInQueue");
constexpr auto entry_flags = pointer_in<ForwardRequest>("entryFlags");
constexpr auto window_ms = pointer_in<ForwardRequest>("windowMs");
constexpr auto operations = pointer_in<ForwardRequest>("operations");
constexpr auto wait_limits_ms = pointer_in<ForwardRequest>("waitLimitsMs");
constexpr auto entry_details = pointer_in<ForwardRequest>("entryDetails");
}  // namespace forward_at

constexpr uint16_t column_bit(size_t pointer) noexcept {
  return static_cast<uint16_t>(1U << pointer);
}

// Calls `visit(run, first, count)` for the part of each run that is in a range of all entries.
template <typename Visit>
void each_part(std::span<const ForwardRun> runs, uint32_t first, uint32_t count, Visit visit) {
  for (const ForwardRun& run : runs) {
    if (count == 0) return;
    const uint32_t size = run.entries_count();
    if (first >= size) {
      first -= size;
      continue;
    }
    const uint32_t taken = std::min(size - first, count);
    visit(run, first, taken);
    count -= taken;
    first = 0;
  }
}

size_t sum_of(std::span<const uint16_t> sizes) noexcept {
  size_t sum = 0;
  for (const uint16_t size : sizes) sum += size;
  return sum;
}

// The keys of a part of a plain run.
std::string_view text_of(const ForwardRun& run, uint32_t first, uint32_t count) noexcept {
  if (count == run.key_sizes.size()) return run.text;
  const size_t begin = sum_of(run.key_sizes.first(first));
  return run.text.substr(begin, sum_of(run.key_sizes.subspan(first, count)));
}

uint8_t wait_bits(const Entry& entry) noexcept {
  namespace flag = api::flag;
  if ((entry.flags & flag::may_wait) == 0) return 0;
  uint8_t bits = entry_bit::may_wait;
  if ((entry.flags & flag::waiters_full) != 0) bits |= entry_bit::waiters_full;
  if ((entry.flags & flag::connection_waiters_full) != 0) {
    bits |= entry_bit::connection_waiters_full;
  }
  return bits;
}

uint8_t detail_wishes(const Entry& entry) noexcept {
  namespace flag = api::flag;
  if ((entry.flags & flag::wants_details) == 0) return 0;
  const bool takes_id = (entry.flags & flag::shows_id) != 0;
  return takes_id ? entry_detail_bit::all : entry_detail_bit::wants_details;
}

// What the entries of a frame ask for, as far as columns depend on it.
class Survey {
 public:
  void add_plain(std::string_view text) noexcept {
    text_bytes_ += text.size();
    note_bits(0, 0);
  }
  void add(const Entry& entry) noexcept {
    DEBUG_ASSERT(entry.op <= Op::look);
    text_bytes_ += entry.key_bytes;
    if (entry.cost != 1) need(forward_at::costs);
    if (entry.op != Op::acquire) need(forward_at::operations);
    if (const api::Overrides* given = entry.given_overrides) {
      if (given->max_requests != api::keep) need(forward_at::max_requests);
      if (given->max_requests_in_queue != api::keep) need(forward_at::max_requests_in_queue);
      if (given->window_ms != api::keep_window) need(forward_at::window_ms);
    }
    const uint8_t waits = wait_bits(entry);
    if (waits != 0) note_wait_limit(entry.wait_ms_max);
    note_bits(waits, detail_wishes(entry));
  }

  // Columns where the entries differ, else a field for all.
  void conclude(ForwardCut& cut) noexcept {
    cut.text_bytes = text_bytes_;
    if (any_waits_ != 0) conclude_waits(cut);
    if (any_details_ != 0) conclude_details(cut);
    cut.columns = columns_;
  }

 private:
  void need(size_t pointer) noexcept { columns_ |= column_bit(pointer); }
  void note_bits(uint8_t waits, uint8_t details) noexcept {
    any_waits_ |= waits;
    all_waits_ &= waits;
    any_details_ |= details;
    all_details_ &= details;
  }
  void note_wait_limit(uint32_t wait_limit_ms) noexcept {
    if (!wait_limit_ms_) wait_limit_ms_ = wait_limit_ms;
    if (*wait_limit_ms_ != wait_limit_ms) need(forward_at::wait_limits_ms);
  }
  void conclude_waits(ForwardCut& cut) noexcept {
    const bool all_may_wait = any_waits_ == entry_bit::may_wait && all_waits_ == any_waits_;
    if (all_may_wait)
      cut.flags = frame_bit::may_wait;
    else
      need(forward_at::entry_flags);
    if ((columns_ & column_bit(forward_at::wait_limits_ms)) == 0) {
      cut.wait_limit_ms = *wait_limit_ms_;
    }
  }
  void conclude_details(ForwardCut& cut) noexcept {
    cut.detail_bits = detail_bit::all;
    if ((any_details_ & entry_detail_bit::takes_id) == 0)
      cut.detail_bits &= ~detail_bit::request_id;
    if (any_details_ != all_details_) need(forward_at::entry_details);
  }

  size_t text_bytes_ = 0;
  uint16_t columns_ = 0;
  uint8_t any_waits_ = 0, all_waits_ = 0xFF;
  uint8_t any_details_ = 0, all_details_ = 0xFF;
  std::optional<uint32_t> wait_limit_ms_;
};

template <typename Class, typename T, typename AreValid>
constexpr size_t item_bytes(const ColumnRow<Class, T, AreValid>&) noexcept {
  return sizeof(T);
}
template <typename Row>
constexpr size_t item_bytes(const Row&) noexcept {
  return 0;  // the keys and their sizes, which every frame has
}

size_t terms_bytes(uint16_t columns, uint32_t entries_count) noexcept {
  size_t bytes = 0;
  each_row(Layout<ForwardRequest>::columns, [&](size_t pointer, const auto& row) {
    if ((columns & column_bit(pointer)) != 0) bytes += list_bytes(entries_count, item_bytes(row));
  });
  return bytes;
}

ForwardCut survey(std::span<const ForwardRun> runs, uint32_t first, uint32_t count) noexcept {
  ForwardCut cut{.first_entry = first, .entries_count = count};
  Survey survey;
  each_part(runs, first, count, [&](const ForwardRun& run, uint32_t from, uint32_t taken) {
    if (run.entries.empty()) return survey.add_plain(text_of(run, from, taken));
    for (const Entry& entry : run.entries.subspan(from, taken)) survey.add(entry);
  });
  survey.conclude(cut);
  cut.frame_bytes = empty_frame_bytes<ForwardRequest> + list_bytes(cut.text_bytes, 1) +
                    list_bytes(count, sizeof(uint16_t)) + terms_bytes(cut.columns, count);
  return cut;
}

struct ForwardSource {
  std::span<const ForwardRun> runs;
  const ForwardCut& cut;

  template <typename Visit>
  void each_part(Visit visit) const {
    wire::each_part(runs, cut.first_entry, cut.entries_count, visit);
  }
};

void add_keys(Writer& writer, Writer::Struct forward, const ForwardSource& source) noexcept {
  std::byte* next = writer.add_list<char>(forward, forward_at::keys, source.cut.text_bytes);
  const auto put = [&](std::string_view text) {
    if (text.empty()) return;
    std::memcpy(next, text.data(), text.size());
    next += text.size();
  };
  source.each_part([&](const ForwardRun& run, uint32_t first, uint32_t count) {
    if (run.entries.empty()) return put(text_of(run, first, count));
    for (const Entry& entry : run.entries.subspan(first, count)) put(entry.key());
  });
}

void add_key_sizes(Writer& writer, Writer::Struct forward, const ForwardSource& source) noexcept {
  std::byte* next =
      writer.add_list<uint16_t>(forward, forward_at::key_sizes, source.cut.entries_count);
  source.each_part([&](const ForwardRun& run, uint32_t first, uint32_t count) {
    if (run.entries.empty()) {
      std::memcpy(next, run.key_sizes.data() + first, count * sizeof(uint16_t));
      next += count * sizeof(uint16_t);
      return;
    }
    for (const Entry& entry : run.entries.subspan(first, count)) {
      std::memcpy(next, &entry.key_bytes, sizeof(uint16_t));
      next += sizeof(uint16_t);
    }
  });
}

// A column that some entry needs: of plain entries it has the default.
template <typename T, typename Value>
void add_terms(Writer& writer, Writer::Struct forward, const ForwardSource& source, size_t pointer,
               T of_plain, Value value_of) noexcept {
  if ((source.cut.columns & column_bit(pointer)) == 0) return;
  std::byte* next = writer.add_list<T>(forward, pointer, source.cut.entries_count);
  const auto put = [&](T value) {
    std::memcpy(next, &value, sizeof value);
    next += sizeof value;
  };
  source.each_part([&](const ForwardRun& run, uint32_t first, uint32_t count) {
    if (run.entries.empty()) {
      for (uint32_t index = 0; index < count; ++index) put(of_plain);
    } else {
      for (const Entry& entry : run.entries.subspan(first, count)) put(value_of(entry));
    }
  });
}

void add_all_terms(Writer& writer, Writer::Struct forward, const ForwardSource& source) noexcept {
  const auto add = [&](size_t pointer, auto of_plain, auto value_of) {
    add_terms(writer, forward, source, pointer, of_plain, value_of);
  };
  // A look's cost means nothing; a release of none is not valid.
  add(forward_at::costs, uint32_t{1}, [](const Entry& entry) { return entry.cost; });
  add(forward_at::max_requests, api::keep,
      [](const Entry& entry) { return entry.overrides().max_requests; });
  add(forward_at::max_requests_in_queue, api::keep,
      [](const Entry& entry) { return entry.overrides().max_requests_in_queue; });
  add(forward_at::entry_flags, uint8_t{0}, wait_bits);
  add(forward_at::window_ms, keep_window,
      [](const Entry& entry) { return static_cast<uint64_t>(entry.overrides().window_ms); });
  add(forward_at::operations, uint8_t{0},
      [](const Entry& entry) { return static_cast<uint8_t>(entry.op); });
  add(forward_at::wait_limits_ms, uint32_t{0},
      [](const Entry& entry) { return wait_bits(entry) != 0 ? entry.wait_ms_max : 0; });
  add(forward_at::entry_details, uint8_t{0}, detail_wishes);
}

size_t text_bytes(std::span<const LateApproval> entries) noexcept {
  size_t bytes = 0;
  for (const LateApproval& entry : entries) bytes += entry.key.size();
  return bytes;
}

}  // namespace

size_t hello_bytes(const LaneHello& hello) noexcept {
  return empty_frame_bytes<HelloRequest> + text_field_bytes(name_of(hello)) +
         text_field_bytes(hello.token);
}

size_t encode_hello(uint64_t id, const LaneHello& hello, std::span<std::byte> out) noexcept {
  Writer writer(out);
  const auto body = add_request<HelloRequest>(writer, id);
  writer.set(body, byte_of<HelloRequest>("version"), protocol_version);
  writer.set(body, byte_of<HelloRequest>("wantedShard"), hello.wanted_shard_plus_one);
  writer.add_text(body, pointer_in<HelloRequest>("clientName"), name_of(hello));
  writer.add_text(body, pointer_in<HelloRequest>("token"), hello.token);
  return writer.finish();
}

ForwardCut cut_forward(std::span<const ForwardRun> runs, uint32_t first_entry,
                       const FrameBounds& bounds) noexcept {
  uint32_t entries_count = 0;
  for (const ForwardRun& run : runs) entries_count += run.entries_count();
  ASSERT(first_entry < entries_count);
  uint32_t count = std::min(entries_count - first_entry, bounds.frame_entries_max);
  ForwardCut cut = survey(runs, first_entry, count);
  while (cut.frame_bytes > bounds.frame_bytes_max && count > 1) {
    count = (count + 1) / 2;
    cut = survey(runs, first_entry, count);
  }
  return cut;
}

size_t encode_forward(uint64_t id, std::span<const ForwardRun> runs, const ForwardCut& cut,
                      std::span<std::byte> out) noexcept {
  const ForwardSource source{runs, cut};
  Writer writer(out);
  const auto forward = add_request<ForwardRequest>(writer, id);
  writer.set(forward, forward_at::details, cut.detail_bits);
  writer.set(forward, forward_at::flags, cut.flags);
  writer.set(forward, forward_at::wait_limit_ms, cut.wait_limit_ms);
  add_keys(writer, forward, source);
  add_key_sizes(writer, forward, source);
  if (cut.columns != 0) add_all_terms(writer, forward, source);
  const size_t bytes = writer.finish();
  ASSERT(bytes == cut.frame_bytes);
  return bytes;
}

size_t withdraw_bytes(size_t entries_count) noexcept {
  return empty_frame_bytes<WithdrawRequest> + list_bytes(entries_count, sizeof(uint32_t));
}

size_t encode_withdraw(uint64_t id, uint64_t target, std::span<const uint32_t> entries,
                       std::span<std::byte> out) noexcept {
  Writer writer(out);
  const auto withdraw = add_request<WithdrawRequest>(writer, id);
  writer.set(withdraw, byte_of<WithdrawRequest>("target"), target);
  writer.add_column<uint32_t>(withdraw, pointer_in<WithdrawRequest>("entries"), entries,
                              std::identity{});
  return writer.finish();
}

size_t refund_bytes(std::span<const Permit> permits) noexcept {
  return empty_frame_bytes<RefundRequest> + permits.size_bytes();
}

size_t encode_refund(uint64_t id, std::span<const Permit> permits,
                     std::span<std::byte> out) noexcept {
  ASSERT(permits.size() <= refund_permits_max);
  Writer writer(out);
  const auto refund = add_request<RefundRequest>(writer, id);
  if (!permits.empty()) {
    constexpr size_t pointer = pointer_in<RefundRequest>("permits");
    std::memcpy(writer.add_list<std::byte>(refund, pointer, permits.size_bytes()), permits.data(),
                permits.size_bytes());
  }
  return writer.finish();
}

size_t refund_bytes(std::span<const LateApproval> entries) noexcept {
  return empty_frame_bytes<RefundRequest> + list_bytes(text_bytes(entries), 1) +
         list_bytes(entries.size(), sizeof(uint16_t)) +
         list_bytes(entries.size(), sizeof(uint32_t));
}

size_t encode_refund(uint64_t id, uint64_t target, std::span<const LateApproval> entries,
                     std::span<std::byte> out) noexcept {
  Writer writer(out);
  const auto refund = add_request<RefundRequest>(writer, id);
  writer.set(refund, byte_of<RefundRequest>("target"), target);
  std::byte* next =
      writer.add_list<char>(refund, pointer_in<RefundRequest>("keys"), text_bytes(entries));
  for (const LateApproval& entry : entries) {
    if (entry.key.empty()) continue;
    std::memcpy(next, entry.key.data(), entry.key.size());
    next += entry.key.size();
  }
  writer.add_column<uint16_t>(refund, pointer_in<RefundRequest>("keySizes"), entries,
                              [](const LateApproval& entry) { return entry.key.size(); });
  writer.add_column<uint32_t>(refund, pointer_in<RefundRequest>("costs"), entries,
                              &LateApproval::cost);
  return writer.finish();
}

size_t encode_ping(uint64_t id, std::span<std::byte> out) noexcept {
  Writer writer(out);
  add_request(writer, id, Layout<PingRequest>::kind);
  return writer.finish();
}

}  // namespace sluice::wire
