// Measures the cost of sending entries to another shard and receiving the answers, without a second
// CPU: the rings and mailboxes of both shards run on one thread, so no cache line moves between
// caches and no thread sleeps. wake_bench and `bench/ladder shards` measure that part.
// Method: shard 0 asks for keys of 15 bytes that all belong to shard 1, in one request; shard 1
// approves them without a table. Reports items: pointers through a ring, entries of a message.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/micro/keys.hpp"
#include "route/mailboxes.hpp"

namespace sluice::route {
namespace {

void ring(benchmark::State& state) {
  constexpr uint32_t items_count = 8;
  Ring<int> ring(items_count);
  std::array<int, items_count> things{};
  for (auto _ : state) {
    for (int& thing : things) ring.push(&thing);
    const uint64_t tail = ring.tail();
    for (int* popped = ring.pop(tail); popped != nullptr; popped = ring.pop(tail)) {
      benchmark::DoNotOptimize(popped);
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * items_count));
}
BENCHMARK(ring);

// The shard that has the connection, and decides nothing itself.
class Origin {
 public:
  // The other shard owns about half of the keys.
  Origin(Mesh& mesh, size_t entries_count)
      : mailboxes_(mesh, 0, SplitOptions{}), keys_(16 + entries_count * 4) {
    for (size_t index = 0; index < keys_.count() && names_.size() < entries_count; ++index) {
      if (mailboxes_.owner_of(keys_[index]).shard == 1) names_.push_back(keys_[index]);
    }
    ASSERT(names_.size() == entries_count);
  }

  void ask() {
    const size_t key_bytes = names_.size() * micro::key_bytes_typical;
    const auto count = static_cast<uint32_t>(names_.size());
    ASSERT(mailboxes_.has_turn_room(turn_, count, key_bytes));
    const auto entries = turn_.add({.id = ++id_}, count, key_bytes);
    for (size_t place = 0; place < entries.size(); ++place) {
      entries[place] = {.key_data = names_[place].data(), .key_bytes = micro::key_bytes_typical};
    }
    mailboxes_.split(turn_);
    for (const Request& request : std::as_const(turn_).requests()) {
      mailboxes_.keep_decided(request, turn_);
    }
    turn_.clear();
    mailboxes_.flush();
  }

  void take_answers() { mailboxes_.receive(*this); }

  void on_message(api::ShardId, ShardMessage&) {}

  void on_returned(api::ShardId, ShardMessage& message) {
    SplitBook& book = mailboxes_.book();
    for (size_t index = 0; index < message.entries.size(); ++index) {
      const uint32_t slot = message.slots[index];
      const SplitBook::Index split = book.split_of(slot);
      if (!book.settle(slot, message.verdicts[index], message.details[index])) {
        continue;
      }
      for (const api::Verdict verdict : book.parts(split).verdicts) {
        approved_ += verdict == api::Verdict::approved;
      }
      book.close(split);
    }
  }

  uint64_t approved() const { return approved_; }

 private:
  Mailboxes mailboxes_;
  const micro::Keys keys_;
  Turn turn_;
  std::vector<std::string_view> names_;
  uint64_t id_ = 0;
  uint64_t approved_ = 0;
};

class Owner {
 public:
  explicit Owner(Mesh& mesh) : mailboxes_(mesh, 1, SplitOptions{}) {}

  void answer() { mailboxes_.receive(*this); }

  void on_message(api::ShardId, ShardMessage& message) {
    message.make_answers();
    std::ranges::fill(message.verdicts, api::Verdict::approved);
  }

  void on_returned(api::ShardId, ShardMessage&) {}

 private:
  Mailboxes mailboxes_;
};

void other_shard_entries(benchmark::State& state) {
  const auto entries_count = static_cast<size_t>(state.range(0));
  Mesh mesh({.shards = 2, .routing_seed = 6});
  Origin origin(mesh, entries_count);
  Owner owner(mesh);
  for (auto _ : state) {
    origin.ask();
    owner.answer();
    origin.take_answers();
  }
  const size_t entries_sent = state.iterations() * entries_count;
  if (origin.approved() != entries_sent) state.SkipWithError("an entry was lost");
  state.SetItemsProcessed(static_cast<int64_t>(entries_sent));
}
BENCHMARK(other_shard_entries)->Arg(1)->Arg(64)->Arg(1'024);

}  // namespace
}  // namespace sluice::route

BENCHMARK_MAIN();
