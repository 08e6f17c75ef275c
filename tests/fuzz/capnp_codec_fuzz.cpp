// Any bytes through frame reader and decoder, as a session takes them: a decoded request keeps
// every promise of capnp_codec.hpp, and all it points to can be read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/limits.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/forward_quota.hpp"
#include "wire/frame_reader.hpp"
#include "wire/standard_frame.hpp"

namespace {

using namespace sluice;

void require(bool condition) {
  if (!condition) std::abort();
}

template <typename T>
void require_optional(wire::Column<T> column, size_t entries_count) {
  require(column.empty() || column.size() == entries_count);
}

template <typename T, typename Holds>
void require_each(wire::Column<T> column, Holds holds) {
  require(std::all_of(column.begin(), column.end(), holds));
}

void require_keys(std::string_view keys, wire::Column<uint16_t> sizes) {
  require(sizes.size() <= limits::frame_entries_max);
  uint64_t sum = 0;
  for (const uint16_t size : sizes) sum += size;
  require(sum == keys.size());
  volatile char seen = 0;
  for (const char byte : keys) seen = byte;
  static_cast<void>(seen);
}

bool is_limit(uint32_t permits) {
  return permits >= 1 && permits <= limits::permits_max;
}
bool is_cost_or_look(uint32_t cost) {
  return cost <= limits::permits_max;
}

void require_subjects(const wire::EntrySubjects& entries) {
  const size_t count = entries.entries_count();
  require(count <= limits::quota_calls_max);
  uint64_t bytes = 0;
  for (const uint16_t size : entries.subject_sizes) bytes += size;
  require(bytes == entries.subjects.size());
  if (entries.subject_counts.empty()) return;
  require_each(entries.subject_counts,
               [](uint8_t subjects) { return subjects >= 1 && subjects <= 8; });
  uint64_t subjects = 0;
  for (const uint8_t of_entry : entries.subject_counts) subjects += of_entry;
  require(subjects == entries.subject_sizes.size());
}

void require_amounts(const wire::EntryAmounts& amounts, size_t entries_count) {
  require_optional(amounts.requests, entries_count);
  require_each(amounts.requests, [](uint32_t requests) { return requests <= UINT32_MAX; });
  for (const wire::Column<uint64_t> column :
       {amounts.input_tokens, amounts.cached_input_tokens, amounts.output_tokens, amounts.costs}) {
    require_optional(column, entries_count);
    require_each(column, [](uint64_t amount) {
      return amount <= limits::amount_max || amount == wire::unset;
    });
  }
}

void require_ids(const wire::EntryIds& entries, size_t entries_count) {
  require_optional(entries.id_sizes, entries_count);
  uint64_t bytes = 0;
  for (const uint16_t size : entries.id_sizes) {
    require(size <= limits::client_id_bytes_max);
    bytes += size;
  }
  require(bytes == entries.ids.size());
}

// Of a Record or Consume.
template <typename Request>
void require_used(const Request& request) {
  const size_t count = request.entries_count();
  require_subjects(request);
  require_amounts(request, count);
  require_ids(request, count);
  for (size_t index = 0; index < request.cached_input_tokens.size(); ++index) {
    const uint64_t cached = request.cached_input_tokens[index];
    const uint64_t input = request.input_tokens.empty() ? 0 : request.input_tokens[index];
    require(cached <= input || cached == wire::unset);
  }
}

void require_reservations(wire::Column<uint64_t> reservations) {
  require(reservations.size() <= limits::quota_calls_max);
  require_each(reservations, [](uint64_t id) { return id <= UINT64_MAX; });
}

bool is_lifetime(uint32_t lifetime_ms) {
  return lifetime_ms == 0 ||
         (lifetime_ms >= limits::lifetime_ms_min && lifetime_ms <= limits::lifetime_ms_max);
}

struct Promises {
  void operator()(const wire::UnsupportedRequest&) const {}
  void operator()(const wire::PingRequest&) const {}
  void operator()(const wire::TopologyRequest&) const {}
  void operator()(const wire::HelloRequest& hello) const {
    require(hello.client_name.size() <= limits::client_name_bytes_max);
    volatile size_t zeros = 0;
    zeros = static_cast<size_t>(std::count(hello.client_name.begin(), hello.client_name.end(), 0));
    static_cast<void>(zeros);
  }
  void operator()(const wire::AcquireRequest& acquire) const {
    require_keys(acquire.keys, acquire.key_sizes);
    require_terms(acquire, acquire.key_sizes.size());
  }
  void operator()(const wire::ForwardRequest& forward) const {
    const size_t count = forward.key_sizes.size();
    require_keys(forward.keys, forward.key_sizes);
    require_terms(forward, count, wire::entry_bit::of_forward);
    require_optional(forward.operations, count);
    require_optional(forward.wait_limits_ms, count);
    require_optional(forward.entry_details, count);
    for (size_t entry = 0; entry < forward.operations.size(); ++entry) {
      require(forward.operations[entry] <= static_cast<uint8_t>(api::Op::look));
      const bool releases = forward.operations[entry] == static_cast<uint8_t>(api::Op::release);
      require(!releases || forward.costs.empty() || forward.costs[entry] > 0);
    }
    require_each(forward.wait_limits_ms,
                 [](uint32_t limit_ms) { return limit_ms <= limits::wait_ms_max; });
    require_each(forward.entry_details,
                 [](uint8_t wishes) { return wishes <= wire::entry_detail_bit::all; });
  }
  void operator()(const wire::ForwardQuotaRequest& forward) const {
    require(forward.sender != 0);
    api::QuotaBatch batch;
    std::vector<bool> wants_outcome;
    if (!wire::read_calls(forward, batch, wants_outcome)) return;
    require(batch.calls.size() <= wire::forwarded_calls_max);
    require(batch.calls.size() == wants_outcome.size());
    for (const api::QuotaCall& call : batch.calls) {
      require(wire::may_forward(call.op) && is_lifetime(call.lifetime_ms));
      require(call.first_subject + call.subjects_count <= batch.subjects.size());
      require(call.place < std::max<size_t>(call.subjects_count, 1));
    }
  }
  void operator()(const wire::RefundRequest& refund) const {
    require(refund.permits.size() % wire::permit_bytes == 0);
    const size_t permits = wire::permits_count(refund.permits);
    require(permits <= limits::frame_entries_max);
    volatile uint64_t seen = 0;
    for (size_t index = 0; index < permits; ++index) {
      seen = seen + wire::claim_of(wire::nth_permit(refund.permits, index)).claim.key_tag;
    }
    require_keys(refund.keys, refund.key_sizes);
    require_optional(refund.costs, refund.key_sizes.size());
    require_each(refund.costs, is_limit);
  }
  void operator()(const wire::AcquireByHandleRequest& acquire) const {
    require(acquire.handles.size() <= limits::frame_entries_max);
    require_each(acquire.handles, [](uint32_t handle) { return handle <= UINT32_MAX; });
    require_terms(acquire, acquire.handles.size());
  }
  void operator()(const wire::InternRequest& intern) const {
    require_keys(intern.keys, intern.key_sizes);
  }
  void operator()(const wire::ForgetRequest& forget) const {
    require(forget.handles.size() <= limits::frame_entries_max);
    require_each(forget.handles, [](uint32_t handle) { return handle <= UINT32_MAX; });
  }
  static void require_terms(const wire::AcquireCommon& acquire, size_t entries_count,
                            uint8_t entry_flags = wire::entry_bit::may_wait) {
    require_optional(acquire.costs, entries_count);
    require_optional(acquire.max_requests, entries_count);
    require_optional(acquire.max_requests_in_queue, entries_count);
    require_optional(acquire.entry_flags, entries_count);
    require_optional(acquire.window_ms, entries_count);
    require_each(acquire.costs, is_cost_or_look);
    require_each(acquire.max_requests,
                 [](uint32_t limit) { return is_limit(limit) || limit == api::keep; });
    require_each(acquire.max_requests_in_queue,
                 [](uint32_t queue) { return queue <= limits::queue_max || queue == api::keep; });
    require_each(acquire.window_ms, [](uint64_t window_ms) {
      return (window_ms >= limits::window_ms_min && window_ms <= limits::window_ms_max) ||
             window_ms == wire::keep_window;
    });
    require_each(acquire.entry_flags,
                 [entry_flags](uint8_t flags) { return flags <= entry_flags; });
    require(acquire.wait_limit_ms <= limits::wait_ms_max);
    require(acquire.detail_bits <= wire::detail_bit::all);
  }
  void operator()(const wire::ReleaseRequest& release) const {
    require_keys(release.keys, release.key_sizes);
    require_optional(release.costs, release.key_sizes.size());
    require_each(release.costs, is_limit);
  }
  void operator()(const wire::WithdrawRequest& withdraw) const {
    require(withdraw.entries.size() <= limits::frame_entries_max);
    require_each(withdraw.entries, [](uint32_t entry) { return entry <= UINT32_MAX; });
  }
  void operator()(const wire::InspectRequest& inspect) const {
    volatile char seen = 0;
    for (const char byte : inspect.key) seen = byte;
    static_cast<void>(seen);
  }
  void operator()(const wire::ReserveRequest& reserve) const {
    require_subjects(reserve);
    const size_t count = reserve.entries_count();
    require_amounts(reserve, count);
    require_ids(reserve, count);
    require(reserve.owner.size() <= limits::client_id_bytes_max);
    require(reserve.wait_limit_ms <= limits::wait_ms_max && is_lifetime(reserve.lifetime_ms));
    require(reserve.flags < wire::quota_bit::keep_requests);
  }
  void operator()(const wire::SettleRequest& settle) const {
    require_reservations(settle.reservations);
    require_amounts(settle, settle.reservations.size());
    require(settle.flags == 0);
  }
  void operator()(const wire::CancelRequest& cancel) const {
    require_reservations(cancel.reservations);
    require((cancel.flags & ~wire::quota_bit::keep_requests) == 0);
  }
  void operator()(const wire::ExtendRequest& extend) const {
    require_reservations(extend.reservations);
    require(extend.flags == 0 && is_lifetime(extend.lifetime_ms));
  }
  void operator()(const wire::RecordRequest& record) const { require_used(record); }
  void operator()(const wire::ConsumeRequest& consume) const {
    require_used(consume);
    require(consume.wait_limit_ms <= limits::wait_ms_max);
    require(consume.flags < wire::quota_bit::keep_requests);
  }
  void operator()(const wire::UsageRequest& usage) const {
    require(usage.subject_sizes.size() <= limits::subjects_page_max);
    require_keys(usage.subjects, usage.subject_sizes);
  }
  void operator()(const wire::QuotaChangeRequest& change) const {
    require(!change.subject.empty());
    if (change.remove) return;
    const auto quota = wire::quota_of(change);
    if (!quota) {
      require(!quota.error().empty() && quota.error().size() <= wire::invalid_detail_bytes_max);
      return;
    }
    require(quota->limits.size() <= limits::quota_limits_max);
    for (const api::Limit& limit : quota->limits) {
      require(limit.amount <= limits::amount_max && limit.period_ms >= 0);
      require(!metric_name(limit.metric).empty() && !kind_name(limit.kind).empty() &&
              !unit_name(limit.unit).empty() && limit.ceiling <= api::Ceiling::block);
    }
  }
  void operator()(const wire::ResetRequest& reset) const {
    volatile char seen = 0;
    for (const char byte : reset.subject) seen = byte;
    static_cast<void>(seen);
  }
};

// Frames that bypass the library are read as it would read them.
template <typename T>
bool same_column(wire::Column<T> one, wire::Column<T> other) {
  return one.size() == other.size() && (one.empty() || one.data() == other.data());
}

bool same_terms(const wire::AcquireCommon& one, const wire::AcquireCommon& other) {
  return same_column(one.costs, other.costs) && same_column(one.max_requests, other.max_requests) &&
         same_column(one.max_requests_in_queue, other.max_requests_in_queue) &&
         same_column(one.entry_flags, other.entry_flags) &&
         same_column(one.window_ms, other.window_ms) && one.wait_limit_ms == other.wait_limit_ms &&
         one.detail_bits == other.detail_bits && one.flags == other.flags;
}

bool same_subjects(const wire::EntrySubjects& one, const wire::EntrySubjects& other) {
  return one.subjects == other.subjects && same_column(one.subject_sizes, other.subject_sizes) &&
         same_column(one.subject_counts, other.subject_counts);
}

bool same_amounts(const wire::EntryAmounts& one, const wire::EntryAmounts& other) {
  return same_column(one.requests, other.requests) &&
         same_column(one.input_tokens, other.input_tokens) &&
         same_column(one.cached_input_tokens, other.cached_input_tokens) &&
         same_column(one.output_tokens, other.output_tokens) && same_column(one.costs, other.costs);
}

bool same_ids(const wire::EntryIds& one, const wire::EntryIds& other) {
  return one.ids == other.ids && same_column(one.id_sizes, other.id_sizes);
}

struct Same {
  bool operator()(const wire::AcquireRequest& one, const wire::AcquireRequest& other) const {
    return same_terms(one, other) && one.keys == other.keys &&
           same_column(one.key_sizes, other.key_sizes);
  }
  bool operator()(const wire::ForwardRequest& one, const wire::ForwardRequest& other) const {
    return (*this)(static_cast<const wire::AcquireRequest&>(one),
                   static_cast<const wire::AcquireRequest&>(other)) &&
           same_column(one.operations, other.operations) &&
           same_column(one.wait_limits_ms, other.wait_limits_ms) &&
           same_column(one.entry_details, other.entry_details);
  }
  bool operator()(const wire::AcquireByHandleRequest& one,
                  const wire::AcquireByHandleRequest& other) const {
    return same_terms(one, other) && same_column(one.handles, other.handles);
  }
  bool operator()(const wire::ReserveRequest& one, const wire::ReserveRequest& other) const {
    return same_subjects(one, other) && same_amounts(one, other) && same_ids(one, other) &&
           one.owner == other.owner && one.wait_limit_ms == other.wait_limit_ms &&
           one.lifetime_ms == other.lifetime_ms && one.flags == other.flags;
  }
  bool operator()(const wire::SettleRequest& one, const wire::SettleRequest& other) const {
    return same_column(one.reservations, other.reservations) && same_amounts(one, other) &&
           one.flags == other.flags;
  }
  bool operator()(const wire::CancelRequest& one, const wire::CancelRequest& other) const {
    return same_column(one.reservations, other.reservations) && one.flags == other.flags;
  }
  bool operator()(const wire::ExtendRequest& one, const wire::ExtendRequest& other) const {
    return same_column(one.reservations, other.reservations) &&
           one.lifetime_ms == other.lifetime_ms && one.flags == other.flags;
  }
  bool operator()(const wire::RecordRequest& one, const wire::RecordRequest& other) const {
    return same_subjects(one, other) && same_amounts(one, other) && same_ids(one, other) &&
           one.flags == other.flags;
  }
  bool operator()(const wire::ConsumeRequest& one, const wire::ConsumeRequest& other) const {
    return same_subjects(one, other) && same_amounts(one, other) && same_ids(one, other) &&
           one.wait_limit_ms == other.wait_limit_ms && one.flags == other.flags;
  }
  template <typename One, typename Other>
  bool operator()(const One&, const Other&) const {
    return false;
  }
};

void require_as_by_library(wire::Frame frame) {
  if (!wire::read_standard_frame(frame)) return;
  const auto one = wire::decode(frame);
  const auto other = wire::decode_with_library(frame);
  require(one.has_value() == other.has_value());
  if (!one) {
    require(one.error().code == other.error().code && one.error().id == other.error().id);
    return;
  }
  require(one->id == other->id && std::visit(Same{}, one->body, other->body));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, aligned as a connection's input is; a sanitizer guards its end.
  std::vector<uint64_t> words((size + 7) / 8);
  if (size > 0) std::memcpy(words.data(), data, size);
  auto bytes = std::as_bytes(std::span(words)).first(size);

  while (true) {
    const auto cut = wire::read_frame(bytes, limits::frame_bytes_max);
    const auto* complete = std::get_if<base::Complete<wire::Frame>>(&cut);
    if (complete == nullptr) return 0;
    require_as_by_library(complete->value);
    const auto outcome = wire::decode(complete->value);
    if (outcome)
      std::visit(Promises{}, outcome->body);
    else
      require(outcome.error().code != ErrorCode::none);
    bytes = bytes.subspan(complete->consumed_bytes);
  }
}
