// Measures the cost of Cap'n Proto: decoding Acquire frames and encoding Verdicts frames in memory.
// Together with shard_bench this is rung R1.
// Method: frames as our own client writes them, with keys of 15 bytes; 16 of them in rotation, so
// that the next one is not yet in the L1 cache when it is large. Decoding validates every column
// but does not read keys. Reports items (entries) per second.
#include <benchmark/benchmark.h>

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/limits.hpp"
#include "bench/micro/keys.hpp"
#include "sluicegate/frames.hpp"
#include "wire/capnp_codec.hpp"
#include "wire/lane_codec.hpp"

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

// ------------------------------------------------------------------------- between two nodes

// A message of plain entries becomes a frame, as on every lane: two bulk copies.
void encode_forward_plain(benchmark::State& state) {
  const auto entries_count = static_cast<size_t>(state.range(0));
  const micro::Keys keys(entries_count);
  std::string text;
  std::vector<uint16_t> sizes;
  for (size_t place = 0; place < entries_count; ++place) {
    text += keys[place];
    sizes.push_back(static_cast<uint16_t>(keys[place].size()));
  }
  const std::vector<ForwardRun> runs{{.text = text, .key_sizes = sizes}};
  const FrameBounds bounds{limits::frame_bytes_max, limits::frame_entries_max};
  std::vector<uint64_t> words(limits::frame_bytes_max / sizeof(uint64_t));
  uint64_t id = 0;
  for (auto _ : state) {
    const ForwardCut cut = cut_forward(runs, 0, bounds);
    if (cut.entries_count != entries_count) state.SkipWithError("cut");
    encode_forward(++id, runs, cut, std::as_writable_bytes(std::span{words}));
    benchmark::DoNotOptimize(words.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * entries_count));
}
BENCHMARK(encode_forward_plain)->Arg(1)->Arg(1'024);

// Entries as those of REST: all want their details, and an id.
void encode_forward_detailed(benchmark::State& state) {
  const auto entries_count = static_cast<size_t>(state.range(0));
  const micro::Keys keys(entries_count);
  std::vector<api::Entry> entries(entries_count);
  for (size_t place = 0; place < entries_count; ++place) {
    entries[place].key_data = keys[place].data();
    entries[place].key_bytes = static_cast<uint16_t>(keys[place].size());
    entries[place].flags = api::flag::wants_details | api::flag::shows_id;
  }
  const std::vector<ForwardRun> runs{{.entries = entries}};
  const FrameBounds bounds{limits::frame_bytes_max, limits::frame_entries_max};
  std::vector<uint64_t> words(limits::frame_bytes_max / sizeof(uint64_t));
  uint64_t id = 0;
  for (auto _ : state) {
    encode_forward(++id, runs, cut_forward(runs, 0, bounds),
                   std::as_writable_bytes(std::span{words}));
    benchmark::DoNotOptimize(words.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * entries_count));
}
BENCHMARK(encode_forward_detailed)->Arg(1)->Arg(1'024);

void decode_forward_plain(benchmark::State& state) {
  const auto entries_count = static_cast<size_t>(state.range(0));
  const micro::Keys keys(frames_count * entries_count);
  std::vector<std::vector<uint64_t>> frames;
  for (size_t frame = 0; frame < frames_count; ++frame) {
    std::string text;
    std::vector<uint16_t> sizes;
    for (size_t place = 0; place < entries_count; ++place) {
      const std::string_view key = keys[frame * entries_count + place];
      text += key;
      sizes.push_back(static_cast<uint16_t>(key.size()));
    }
    const std::vector<ForwardRun> runs{{.text = text, .key_sizes = sizes}};
    const ForwardCut cut =
        cut_forward(runs, 0, {limits::frame_bytes_max, limits::frame_entries_max});
    frames.emplace_back(cut.frame_bytes / sizeof(uint64_t));
    encode_forward(frame + 1, runs, cut, std::as_writable_bytes(std::span{frames.back()}));
  }
  size_t turn = 0;
  size_t entries_seen = 0;
  for (auto _ : state) {
    auto request = decode(std::as_bytes(std::span{frames[turn++ % frames_count]}));
    benchmark::DoNotOptimize(request);
    const auto* forward = request ? std::get_if<ForwardRequest>(&request->body) : nullptr;
    entries_seen += forward != nullptr ? forward->key_sizes.size() : 0;
  }
  const size_t entries_sent = state.iterations() * entries_count;
  if (entries_seen != entries_sent) state.SkipWithError("not decoded");
  state.SetItemsProcessed(static_cast<int64_t>(entries_sent));
}
BENCHMARK(decode_forward_plain)->Arg(1)->Arg(1'024);

// The answer, read into the message: `bits` of details.
void decode_verdicts_frame(benchmark::State& state, uint8_t bits) {
  const auto entries_count = static_cast<size_t>(state.range(0));
  std::vector verdicts(entries_count, api::Verdict::approved);
  verdicts.back() = entries_count > 1 ? api::Verdict::denied : api::Verdict::approved;
  std::vector<api::Detail> details(entries_count);
  std::vector<uint64_t> words(
      verdicts_bytes_max(static_cast<uint32_t>(entries_count), bits) / sizeof(uint64_t) + 1);
  const size_t bytes =
      encode_verdicts(1, verdicts, details, bits, std::as_writable_bytes(std::span{words}));
  const Frame frame = std::as_bytes(std::span{words}).first(bytes);
  for (auto _ : state) {
    const auto answer = decode_owner_frame(frame);
    const auto* read = answer ? std::get_if<VerdictsFrame>(&answer->body) : nullptr;
    if (read == nullptr) {
      state.SkipWithError("not decoded");
      break;
    }
    read->copy_to(verdicts);
    read->copy_to(details);
    benchmark::DoNotOptimize(verdicts.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * entries_count));
}
void decode_verdicts_plain(benchmark::State& state) {
  decode_verdicts_frame(state, 0);
}
BENCHMARK(decode_verdicts_plain)->Arg(1)->Arg(1'024);
void decode_verdicts_detailed(benchmark::State& state) {
  decode_verdicts_frame(state, detail_bit::all);
}
BENCHMARK(decode_verdicts_detailed)->Arg(1)->Arg(1'024);

}  // namespace
}  // namespace sluice::wire

BENCHMARK_MAIN();
