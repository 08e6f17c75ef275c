// Measures the cost of Cap'n Proto: decoding Acquire frames and encoding Verdicts frames in memory.
// Together with shard_bench this is rung R1.
// Method: frames as our own client writes them, with keys of 15 bytes; 16 of them in rotation, so
// that the next one is not yet in the L1 cache when it is large. Decoding validates every column
// but does not read keys. Reports items (entries) per second.
#include <benchmark/benchmark.h>

#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "bench/micro/keys.hpp"
#include "sluicegate/frames.hpp"
#include "wire/capnp_codec.hpp"

namespace sluice::wire {
namespace {

constexpr size_t frames_count = 16;

std::vector<std::vector<uint64_t>> acquire_frames(size_t entries_count) {
  const micro::Keys keys(frames_count * entries_count);
  std::vector<std::vector<uint64_t>> frames(frames_count);
  std::vector<std::string_view> names(entries_count);
  for (size_t frame = 0; frame < frames_count; ++frame) {
    for (size_t place = 0; place < entries_count; ++place) {
      names[place] = keys[frame * entries_count + place];
    }
    sluicegate::encode(frame + 1, sluicegate::Acquire{.keys = names}, frames[frame]);
  }
  return frames;
}

void decode_acquire(benchmark::State& state) {
  const auto entries_count = static_cast<size_t>(state.range(0));
  const auto frames = acquire_frames(entries_count);
  size_t turn = 0;
  size_t entries_seen = 0;
  for (auto _ : state) {
    auto request = decode(std::as_bytes(std::span{frames[turn++ % frames_count]}));
    benchmark::DoNotOptimize(request);
    const auto* acquire = request ? std::get_if<AcquireRequest>(&request->body) : nullptr;
    entries_seen += acquire != nullptr ? acquire->key_sizes.size() : 0;
  }
  const size_t entries_sent = state.iterations() * entries_count;
  if (entries_seen != entries_sent) state.SkipWithError("not decoded");
  state.SetItemsProcessed(static_cast<int64_t>(entries_sent));
}
BENCHMARK(decode_acquire)->Arg(1)->Arg(16)->Arg(256)->Arg(4'096);

void encode(benchmark::State& state, const std::vector<api::Verdict>& verdicts) {
  const size_t bytes_max = verdicts_bytes_max(static_cast<uint32_t>(verdicts.size()), 0);
  std::vector<uint64_t> words(bytes_max / sizeof(uint64_t) + 1);
  uint64_t id = 0;
  size_t bytes = 0;
  for (auto _ : state) {
    bytes = encode_verdicts(++id, verdicts, {}, 0, std::as_writable_bytes(std::span{words}));
    benchmark::DoNotOptimize(words.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * verdicts.size()));
  state.counters["frame_bytes"] = static_cast<double>(bytes);
}

// One byte on the wire for all verdicts.
void encode_all_agree(benchmark::State& state) {
  const auto entries_count = static_cast<size_t>(state.range(0));
  encode(state, std::vector(entries_count, api::Verdict::approved));
}
BENCHMARK(encode_all_agree)->Arg(1)->Arg(16)->Arg(256)->Arg(4'096);

// Only the last verdict differs, which the encoder finds at the end.
void encode_mixed(benchmark::State& state) {
  std::vector verdicts(static_cast<size_t>(state.range(0)), api::Verdict::approved);
  verdicts.back() = api::Verdict::denied;
  encode(state, verdicts);
}
BENCHMARK(encode_mixed)->Arg(16)->Arg(256)->Arg(4'096);

}  // namespace
}  // namespace sluice::wire

BENCHMARK_MAIN();
