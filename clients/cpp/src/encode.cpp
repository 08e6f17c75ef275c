// Requests into frames of one segment, built in place at the end of the output.
#include <capnp/message.h>

#include <cstring>

#include "sluicegate.capnp.h"
#include "sluicegate/frames.hpp"

namespace sluicegate {
namespace {

namespace schema = sluice::schema;

constexpr size_t root_words = 1;
constexpr size_t body_words_max = 16;  // ClientFrame and the largest struct in its union

constexpr size_t words_for(size_t bytes) {
  return (bytes + 7) / 8;
}

// Hands out one zeroed segment of a size computed before, so that the frame needs no copy and no
// far pointers.
class OneSegment final : public capnp::MessageBuilder {
 public:
  explicit OneSegment(std::span<uint64_t> words) : words_{words} {}

  kj::ArrayPtr<capnp::word> allocateSegment(unsigned) override {
    if (given_) throw std::logic_error("a frame's size was computed too small");
    given_ = true;
    return {reinterpret_cast<capnp::word*>(words_.data()), words_.size()};
  }

 private:
  std::span<uint64_t> words_;
  bool given_ = false;
};

// Appends a frame whose lists take at most `list_words`; `fill` builds it.
template <typename Fill>
void append_frame(std::vector<uint64_t>& out, uint64_t id, size_t list_words, const Fill& fill) {
  const size_t begin = out.size();
  out.resize(begin + 1 + root_words + body_words_max + list_words);
  OneSegment message{std::span{out}.subspan(begin + 1)};
  auto frame = message.initRoot<schema::ClientFrame>();
  frame.setId(id);
  fill(frame);
  const size_t used_words = message.getSegmentsForOutput()[0].size();
  out[begin] = static_cast<uint64_t>(used_words) << 32;  // one segment: its count minus one is 0
  out.resize(begin + 1 + used_words);
}

void require_column(size_t column_size, size_t keys_count, const char* column) {
  if (column_size == 0 || column_size == keys_count) return;
  throw LimitExceeded("the column " + std::string{column} + " has " + std::to_string(column_size) +
                      " elements for " + std::to_string(keys_count) + " keys");
}

size_t key_bytes_sum(std::span<const std::string_view> keys) {
  size_t sum = 0;
  for (const std::string_view key : keys) {
    if (key.size() > UINT16_MAX) throw LimitExceeded("a key is longer than 65535 bytes");
    sum += key.size();
  }
  return sum;
}

size_t keys_words(size_t key_bytes, size_t count) {
  return words_for(key_bytes) + words_for(count * sizeof(uint16_t));
}

template <typename Struct>
void set_keys(Struct to, std::span<const std::string_view> keys, size_t key_bytes) {
  auto blob = to.initKeys(static_cast<unsigned>(key_bytes));
  auto sizes = to.initKeySizes(static_cast<unsigned>(keys.size()));
  auto* at = blob.begin();
  for (unsigned i = 0; i < keys.size(); ++i) {
    if (!keys[i].empty()) std::memcpy(at, keys[i].data(), keys[i].size());
    at += keys[i].size();
    sizes.set(i, static_cast<uint16_t>(keys[i].size()));
  }
}

template <typename List>
void set_column(List to, std::span<const uint32_t> from) {
  for (unsigned i = 0; i < from.size(); ++i) to.set(i, from[i]);
}

unsigned size32(std::span<const uint32_t> column) {
  return static_cast<unsigned>(column.size());
}

}  // namespace

void encode(uint64_t id, const Hello& hello, std::vector<uint64_t>& out) {
  append_frame(out, id, words_for(hello.client_name.size() + 1), [&](auto frame) {
    auto to = frame.initHello();
    to.setVersion(protocol_version);
    to.setWantedShard(hello.wanted_shard ? *hello.wanted_shard + 1 : 0);
    auto text = to.initClientName(static_cast<unsigned>(hello.client_name.size()));
    std::copy(hello.client_name.begin(), hello.client_name.end(), text.begin());
  });
}

void encode(uint64_t id, const Acquire& acquire, std::vector<uint64_t>& out) {
  const size_t count = acquire.keys.size();
  require_column(acquire.costs.size(), count, "costs");
  require_column(acquire.max_requests.size(), count, "max_requests");
  require_column(acquire.max_requests_in_queue.size(), count, "max_requests_in_queue");
  require_column(acquire.may_wait.size(), count, "may_wait");
  const size_t key_bytes = key_bytes_sum(acquire.keys);
  const size_t column_words = 3 * words_for(count * sizeof(uint32_t)) + words_for(count);
  append_frame(out, id, keys_words(key_bytes, count) + column_words, [&](auto frame) {
    auto to = frame.initAcquire();
    to.setDetails(acquire.details);
    to.setFlags(acquire.all_may_wait ? schema::FRAME_MAY_WAIT : 0);
    to.setWaitLimitMs(acquire.wait_limit_ms);
    set_keys(to, acquire.keys, key_bytes);
    if (!acquire.costs.empty()) set_column(to.initCosts(size32(acquire.costs)), acquire.costs);
    if (!acquire.max_requests.empty()) {
      set_column(to.initMaxRequests(size32(acquire.max_requests)), acquire.max_requests);
    }
    if (!acquire.max_requests_in_queue.empty()) {
      set_column(to.initMaxRequestsInQueue(size32(acquire.max_requests_in_queue)),
                 acquire.max_requests_in_queue);
    }
    if (acquire.may_wait.empty()) return;
    auto flags = to.initEntryFlags(static_cast<unsigned>(count));
    for (unsigned i = 0; i < count; ++i) {
      flags.set(i, acquire.may_wait[i] != 0 ? schema::ENTRY_MAY_WAIT : 0);
    }
  });
}

void encode(uint64_t id, const Release& release, std::vector<uint64_t>& out) {
  const size_t count = release.keys.size();
  require_column(release.costs.size(), count, "costs");
  const size_t key_bytes = key_bytes_sum(release.keys);
  const size_t list_words = keys_words(key_bytes, count) + words_for(count * sizeof(uint32_t));
  append_frame(out, id, list_words, [&](auto frame) {
    auto to = frame.initRelease();
    set_keys(to, release.keys, key_bytes);
    if (!release.costs.empty()) set_column(to.initCosts(size32(release.costs)), release.costs);
  });
}

void encode(uint64_t id, const Withdraw& withdraw, std::vector<uint64_t>& out) {
  append_frame(out, id, words_for(withdraw.entries.size() * sizeof(uint32_t)), [&](auto frame) {
    auto to = frame.initWithdraw();
    to.setTarget(withdraw.target);
    if (!withdraw.entries.empty()) {
      set_column(to.initEntries(size32(withdraw.entries)), withdraw.entries);
    }
  });
}

void encode(uint64_t id, const Inspect& inspect, std::vector<uint64_t>& out) {
  append_frame(out, id, words_for(inspect.key.size()), [&](auto frame) {
    auto to = frame.initInspect();
    auto key = to.initKey(static_cast<unsigned>(inspect.key.size()));
    std::copy(inspect.key.begin(), inspect.key.end(), key.begin());
    to.setCursor(inspect.cursor);
    to.setLimit(inspect.limit);
  });
}

void encode(uint64_t id, const Ping&, std::vector<uint64_t>& out) {
  append_frame(out, id, 0, [](auto frame) { frame.setPing(); });
}

}  // namespace sluicegate
