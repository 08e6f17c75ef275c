// Any bytes through frame reader and decoder, as a session takes them: what is decoded keeps every
// promise of capnp_codec.hpp, and all it points to can be read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/limits.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/frame_reader.hpp"

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

bool is_cost(uint32_t cost) {
  return cost >= 1 && cost <= limits::permits_max;
}

struct Promises {
  void operator()(const wire::UnsupportedRequest&) const {}
  void operator()(const wire::PingRequest&) const {}
  void operator()(const wire::HelloRequest& hello) const {
    require(hello.client_name.size() <= limits::client_name_bytes_max);
    volatile size_t zeros = 0;
    zeros = static_cast<size_t>(std::count(hello.client_name.begin(), hello.client_name.end(), 0));
    static_cast<void>(zeros);
  }
  void operator()(const wire::AcquireRequest& acquire) const {
    const size_t entries_count = acquire.key_sizes.size();
    require_keys(acquire.keys, acquire.key_sizes);
    require_optional(acquire.costs, entries_count);
    require_optional(acquire.max_requests, entries_count);
    require_optional(acquire.max_requests_in_queue, entries_count);
    require_optional(acquire.entry_flags, entries_count);
    require_each(acquire.costs, is_cost);
    require_each(acquire.max_requests,
                 [](uint32_t limit) { return is_cost(limit) || limit == api::keep; });
    require_each(acquire.max_requests_in_queue,
                 [](uint32_t queue) { return queue <= limits::queue_max || queue == api::keep; });
    require_each(acquire.entry_flags, [](uint8_t flags) { return flags <= 1; });
    require(acquire.wait_limit_ms <= limits::wait_ms_max);
    require(acquire.details <= wire::detail_bit::all);
  }
  void operator()(const wire::ReleaseRequest& release) const {
    require_keys(release.keys, release.key_sizes);
    require_optional(release.costs, release.key_sizes.size());
    require_each(release.costs, is_cost);
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
};

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
    const auto outcome = wire::decode(complete->value);
    if (outcome)
      std::visit(Promises{}, outcome->body);
    else
      require(outcome.error().code != ErrorCode::none);
    bytes = bytes.subspan(complete->consumed_bytes);
  }
}
