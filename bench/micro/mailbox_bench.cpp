// Measures the cost of sending entries to another shard and receiving the answers, without a second
// CPU: the rings and mailboxes of both shards run on one thread, so no cache line moves between
// caches and no thread sleeps. wake_bench and `bench/ladder shards` measure that part.
// Method: shard 0 asks for keys of 15 bytes that all belong to shard 1, in one request; shard 1
// approves them without a table. Reports items: pointers through a ring, entries of a message.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "bench/micro/keys.hpp"
#include "route/entry_router.hpp"
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
  Origin(Mesh& mesh, size_t entries_count, Form form)
      : mailboxes_(mesh, 0), router_(mailboxes_, turn_, SplitOptions{}, 0), form_(form) {
    const micro::Keys keys(16 + entries_count * 4);
    for (size_t index = 0; index < keys.count() && sizes_.size() < entries_count; ++index) {
      if (mailboxes_.shard_of(keys[index]) != 1) continue;
      text_ += keys[index];
      sizes_.push_back(micro::key_bytes_typical);
    }
    ASSERT(sizes_.size() == entries_count);
  }

  void ask() {
    const KeyColumn keys{.text = text_, .sizes = sizes_};
    ASSERT(router_.find_room(keys, form_));
    if (form_ == Form::plain) {
      router_.add({.id = ++id_}, keys);
    } else {
      const char* key = text_.data();
      const auto count = static_cast<uint32_t>(sizes_.size());
      for (api::Entry& entry : turn_.add({.id = ++id_}, count)) {
        entry = {.key_data = std::exchange(key, key + micro::key_bytes_typical),
                 .key_bytes = micro::key_bytes_typical,
                 .flags = api::flag::wants_details};
      }
      router_.send_last();
    }
    turn_.clear();
    mailboxes_.flush();
  }

  void take_answers() { mailboxes_.receive(*this); }

  void on_message(api::ShardId, ShardMessage&) {}

  void on_returned(api::ShardId target, ShardMessage& message) {
    SplitBook& book = router_.book();
    for (const Part& part : message.parts()) {
      if (!book.keep(target, part, message)) continue;
      for (const api::Verdict verdict : book.answers(part, message).verdicts) {
        approved_ += verdict == api::Verdict::approved;
      }
      book.close(part.split);
    }
  }

  uint64_t approved() const { return approved_; }

 private:
  Mailboxes mailboxes_;
  Turn turn_;
  EntryRouter router_;
  const Form form_;
  std::string text_;
  std::vector<uint16_t> sizes_;
  uint64_t id_ = 0;
  uint64_t approved_ = 0;
};

class Owner {
 public:
  explicit Owner(Mesh& mesh) : mailboxes_(mesh, 1) {}

  void answer() { mailboxes_.receive(*this); }

  void on_message(api::ShardId, ShardMessage& message) {
    std::ranges::fill(message.verdicts(0, message.entries_count()), api::Verdict::approved);
  }

  void on_returned(api::ShardId, ShardMessage&) {}

 private:
  Mailboxes mailboxes_;
};

void other_shard_entries(benchmark::State& state, Form form) {
  const auto entries_count = static_cast<size_t>(state.range(0));
  Mesh mesh({.shards = 2, .routing_seed = 6});
  Origin origin(mesh, entries_count, form);
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
BENCHMARK_CAPTURE(other_shard_entries, plain, Form::plain)->Arg(1)->Arg(64)->Arg(1'024);
BENCHMARK_CAPTURE(other_shard_entries, detailed, Form::detailed)->Arg(1)->Arg(64)->Arg(1'024);

// What an idle turn costs: nobody has sent anything.
void idle_receive(benchmark::State& state) {
  Mesh mesh({.shards = static_cast<uint32_t>(state.range(0))});
  Owner owner(mesh);
  for (auto _ : state) owner.answer();
}
BENCHMARK(idle_receive)->Arg(2)->Arg(64);

}  // namespace
}  // namespace sluice::route

BENCHMARK_MAIN();
