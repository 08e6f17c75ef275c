#include "frames.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>

namespace sluice::simulation {
namespace {

template <typename List, typename Value>
void fill_list(List list, const std::vector<AskedEntry>& entries, Value value) {
  for (uint32_t i = 0; i < entries.size(); ++i) list.set(i, value(entries[i]));
}

template <typename Value, typename T>
bool any_differs(const std::vector<AskedEntry>& entries, Value value, T from) {
  return std::ranges::any_of(entries, [&](const AskedEntry& each) { return value(each) != from; });
}

template <typename Columns>
void fill_keys(Columns columns, const std::vector<std::string>& keys) {
  std::string joined;
  for (const std::string& key : keys) joined += key;
  const auto* bytes = reinterpret_cast<const kj::byte*>(joined.data());
  columns.setKeys(kj::ArrayPtr<const kj::byte>(bytes, joined.size()));
  auto sizes = columns.initKeySizes(static_cast<uint32_t>(keys.size()));
  for (uint32_t i = 0; i < keys.size(); ++i) sizes.set(i, static_cast<uint16_t>(keys[i].size()));
}

template <typename Columns>
void fill_keys(Columns columns, const std::vector<AskedEntry>& entries) {
  std::vector<std::string> keys;
  for (const AskedEntry& entry : entries) keys.push_back(entry.key);
  fill_keys(columns, keys);
}

template <typename Columns>
void fill_costs(Columns columns, const std::vector<AskedEntry>& entries) {
  const auto has_cost = [](const AskedEntry& entry) { return entry.cost != 1; };
  if (std::ranges::none_of(entries, has_cost)) return;
  fill_list(columns.initCosts(static_cast<uint32_t>(entries.size())), entries,
            [](const AskedEntry& entry) { return entry.cost; });
}

// Fills everything but the keys or handles.
template <typename Acquire>
void fill_terms(Acquire acquire, const AskedFrame& asked) {
  const std::vector<AskedEntry>& entries = asked.entries;
  const auto count = static_cast<uint32_t>(entries.size());
  acquire.setDetails(asked.details);
  acquire.setWaitLimitMs(asked.wait_limit_ms);
  acquire.setFlags(asked.all_may_wait ? schema::FRAME_MAY_WAIT : 0);
  fill_costs(acquire, entries);
  const auto limit_of = [](const AskedEntry& entry) { return entry.overrides.max_requests; };
  if (any_differs(entries, limit_of, api::keep)) {
    fill_list(acquire.initMaxRequests(count), entries, limit_of);
  }
  const auto queue_of = [](const AskedEntry& entry) {
    return entry.overrides.max_requests_in_queue;
  };
  if (any_differs(entries, queue_of, api::keep)) {
    fill_list(acquire.initMaxRequestsInQueue(count), entries, queue_of);
  }
  const auto window_of = [](const AskedEntry& entry) {
    return static_cast<uint64_t>(entry.overrides.window_ms);
  };
  if (any_differs(entries, window_of, schema::KEEP_WINDOW)) {
    fill_list(acquire.initWindowMs(count), entries, window_of);
  }
  const auto waits = [](const AskedEntry& entry) { return entry.may_wait; };
  if (!asked.all_may_wait && std::ranges::any_of(entries, waits)) {
    fill_list(acquire.initEntryFlags(count), entries, [](const AskedEntry& entry) {
      return entry.may_wait ? schema::ENTRY_MAY_WAIT : uint8_t{0};
    });
  }
}

}  // namespace

Bytes build_frame(uint32_t first_segment_words, const Fill& fill) {
  capnp::MallocMessageBuilder message(first_segment_words);
  fill(message.initRoot<schema::ClientFrame>());
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  Bytes frame(bytes.size());
  std::memcpy(frame.data(), bytes.begin(), bytes.size());
  return frame;
}

void fill_acquire(schema::ClientFrame::Builder frame, const AskedFrame& asked) {
  frame.setId(asked.id);
  auto acquire = frame.initAcquire();
  fill_keys(acquire, asked.entries);
  fill_terms(acquire, asked);
}

void fill_acquire_by_handle(schema::ClientFrame::Builder frame, const AskedFrame& asked) {
  frame.setId(asked.id);
  auto acquire = frame.initAcquireByHandle();
  fill_list(acquire.initHandles(static_cast<uint32_t>(asked.entries.size())), asked.entries,
            [](const AskedEntry& entry) { return entry.handle; });
  fill_terms(acquire, asked);
}

void fill_release(schema::ClientFrame::Builder frame, const AskedFrame& asked) {
  frame.setId(asked.id);
  auto release = frame.initRelease();
  fill_keys(release, asked.entries);
  fill_costs(release, asked.entries);
}

void fill_intern(schema::ClientFrame::Builder frame, uint64_t id,
                 const std::vector<std::string>& keys) {
  frame.setId(id);
  fill_keys(frame.initIntern(), keys);
}

void fill_forget(schema::ClientFrame::Builder frame, uint64_t id,
                 const std::vector<api::Handle>& handles) {
  frame.setId(id);
  auto list = frame.initForget().initHandles(static_cast<uint32_t>(handles.size()));
  for (uint32_t i = 0; i < handles.size(); ++i) list.set(i, handles[i]);
}

bool take_frame(Bytes& bytes, const Read& read) {
  // The library needs whole words; the last ones may have arrived in part.
  const size_t words_count = bytes.size() / sizeof(capnp::word);
  std::vector<uint64_t> words(words_count);
  if (words_count == 0) return false;
  std::memcpy(words.data(), bytes.data(), words_count * sizeof(uint64_t));
  const kj::ArrayPtr<const capnp::word> whole(reinterpret_cast<const capnp::word*>(words.data()),
                                              words_count);
  const size_t frame_words = capnp::expectedSizeInWordsFromPrefix(whole);
  if (frame_words > words_count) return false;
  // The reader fetches the columns again for each entry, which counts against the limit.
  const capnp::ReaderOptions options{.traversalLimitInWords = UINT64_MAX};
  capnp::FlatArrayMessageReader message(whole.slice(0, frame_words), options);
  read(message.getRoot<schema::ServerFrame>());
  const auto frame_bytes = static_cast<ptrdiff_t>(frame_words * sizeof(capnp::word));
  bytes.erase(bytes.begin(), bytes.begin() + frame_bytes);
  return true;
}

}  // namespace sluice::simulation
