// The parts of a decision as functions of their own, so that `bench/instructions` can count their
// instructions: callgrind collects only while a function named measured_* runs.
// Method: `decision_path NAME` prepares the function's input, calls it once, checks the result, and
// prints how many decisions it made (of a turn with nothing to do: how many turns); without NAME it
// does so for every function.
// Nothing here depends on time, address or chance, so the counts are the same in every run.
#include <cstdio>
#include <exception>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bench/micro/idle_turn.hpp"
#include "bench/micro/keys.hpp"
#include "shard/key_shard.hpp"
#include "sluicegate/frames.hpp"
#include "wire/capnp_codec.hpp"

namespace sluice {
namespace {

constexpr size_t batch_entries = 256;
constexpr uint32_t key_permits = 1'000'000'000;
constexpr uint32_t denied_cost = key_permits / 2 + 1;  // fits once into a window
constexpr size_t codec_entries = 16'384;               // in frames of one size
// After so many entries at once a shard samples like a busy one.
constexpr size_t busy_entries = 1'000'000;

struct Questions {
  std::vector<api::Entry> entries;
  std::vector<api::Verdict> verdicts;
  std::vector<api::Detail> details;
  std::vector<api::WaiterId> waiters;
};

using Frames = std::vector<std::vector<uint64_t>>;

}  // namespace

// noipa: neither inlined nor cloned, so that the name stays.
extern "C" {

[[gnu::noipa]] void measured_decide(shard::KeyShard& shard, Questions& questions) {
  const std::span entries = questions.entries;
  for (size_t first = 0; first < entries.size(); first += batch_entries) {
    const size_t count = std::min(batch_entries, entries.size() - first);
    shard.decide(entries.subspan(first, count),
                 {.verdicts = std::span{questions.verdicts}.subspan(first, count),
                  .details = std::span{questions.details}.subspan(first, count),
                  .waiters = std::span{questions.waiters}.subspan(first, count)},
                 {.monotonic_ns = 1'000'000'000, .wall_ns = 0});
  }
}

[[gnu::noipa]] void measured_decide_by_handle(shard::KeyShard& shard,
                                              std::span<const api::Handle> handles,
                                              std::span<api::Verdict> verdicts) {
  for (size_t first = 0; first < handles.size(); first += batch_entries) {
    const size_t count = std::min(batch_entries, handles.size() - first);
    shard.decide(handles.subspan(first, count), verdicts.subspan(first, count),
                 {.monotonic_ns = 1'000'000'000, .wall_ns = 0});
  }
}

[[gnu::noipa]] size_t measured_decode(const Frames& frames) {
  size_t entries_count = 0;
  for (const std::vector<uint64_t>& frame : frames) {
    const auto request = wire::decode(std::as_bytes(std::span{frame}));
    const auto* acquire = request ? std::get_if<wire::AcquireRequest>(&request->body) : nullptr;
    if (acquire != nullptr) entries_count += acquire->key_sizes.size();
  }
  return entries_count;
}

[[gnu::noipa]] size_t measured_encode(std::span<const api::Verdict> verdicts, size_t frames_count,
                                      std::span<uint64_t> words) {
  size_t bytes = 0;
  for (size_t frame = 0; frame < frames_count; ++frame) {
    bytes += wire::encode_verdicts(frame, verdicts, {}, 0, std::as_writable_bytes(words));
  }
  return bytes;
}

}  // extern "C"

namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

Questions ask_once_each(const micro::Keys& keys, uint32_t cost) {
  Questions questions{.entries = std::vector<api::Entry>(keys.count()),
                      .verdicts = std::vector<api::Verdict>(keys.count()),
                      .details = std::vector<api::Detail>(keys.count()),
                      .waiters = std::vector<api::WaiterId>(keys.count())};
  for (size_t index = 0; index < keys.count(); ++index) {
    questions.entries[index] = {.key_data = keys.data(index),
                                .cost = cost,
                                .key_bytes = static_cast<uint16_t>(keys.key_bytes())};
  }
  return questions;
}

// The shard has every key and is busy before the measured part begins.
size_t decide(size_t keys_count, uint32_t cost, api::Verdict expected) {
  const micro::Keys keys(keys_count);
  shard::KeyShard shard({.keys_max = static_cast<uint32_t>(keys_count + keys_count / 5),
                         .policy = {.window_ms = 3'600'000, .max_requests = key_permits},
                         .hash_secret = micro::hash_secret()});
  Questions questions = ask_once_each(keys, cost);
  for (size_t asked = 0; asked < busy_entries; asked += keys_count) {
    shard.decide(questions.entries,
                 {.verdicts = questions.verdicts,
                  .details = questions.details,
                  .waiters = questions.waiters},
                 {.monotonic_ns = 1'000'000'000, .wall_ns = 0});
  }
  measured_decide(shard, questions);
  for (const api::Verdict verdict : questions.verdicts) require(verdict == expected, "a verdict");
  return keys_count;
}

// Every key has its handle slot and the shard is busy before the measured part begins.
size_t decide_by_handle(size_t keys_count) {
  const micro::Keys keys(keys_count);
  shard::KeyShard shard({.keys_max = static_cast<uint32_t>(keys_count + keys_count / 5),
                         .handles_max = static_cast<uint32_t>(keys_count),
                         .policy = {.window_ms = 3'600'000, .max_requests = key_permits},
                         .hash_secret = micro::hash_secret()});
  std::vector<api::Handle> handles(keys_count);
  std::vector<api::Verdict> verdicts(keys_count);
  for (size_t index = 0; index < keys_count; ++index) handles[index] = shard.intern(keys[index]);
  for (size_t asked = 0; asked < busy_entries; asked += keys_count) {
    shard.decide(handles, verdicts, {.monotonic_ns = 1'000'000'000, .wall_ns = 0});
  }
  measured_decide_by_handle(shard, handles, verdicts);
  for (const api::Verdict verdict : verdicts)
    require(verdict == api::Verdict::approved, "a verdict");
  return keys_count;
}

size_t decode(size_t batch) {
  const micro::Keys keys(codec_entries);
  Frames frames(codec_entries / batch);
  std::vector<std::string_view> names(batch);
  for (size_t frame = 0; frame < frames.size(); ++frame) {
    for (size_t place = 0; place < batch; ++place) names[place] = keys[frame * batch + place];
    sluicegate::encode(frame + 1, sluicegate::Acquire{.keys = names}, frames[frame]);
  }
  require(measured_decode(frames) == codec_entries, "a frame was not decoded");
  return codec_entries;
}

size_t encode(size_t batch, api::Verdict last) {
  std::vector verdicts(batch, api::Verdict::approved);
  verdicts.back() = last;
  const size_t bytes_max = wire::verdicts_bytes_max(static_cast<uint32_t>(batch), 0);
  std::vector<uint64_t> words(bytes_max / sizeof(uint64_t) + 1);
  require(measured_encode(verdicts, codec_entries / batch, words) > 0, "nothing was encoded");
  return codec_entries;
}

struct Part {
  const char* name;
  std::function<size_t()> run;  // returns the decisions, or turns
};

const std::vector<Part>& parts() {
  using api::Verdict;
  static const std::vector<Part> all{
      {"decide_10k_approved", [] { return decide(10'000, 1, Verdict::approved); }},
      {"decide_10k_denied", [] { return decide(10'000, denied_cost, Verdict::denied); }},
      {"decide_100k_approved", [] { return decide(100'000, 1, Verdict::approved); }},
      {"decide_100k_denied", [] { return decide(100'000, denied_cost, Verdict::denied); }},
      {"decide_by_handle_10k", [] { return decide_by_handle(10'000); }},
      {"decode_256", [] { return decode(256); }},
      {"decode_1", [] { return decode(1); }},
      {"encode_agree_256", [] { return encode(256, Verdict::approved); }},
      {"encode_mixed_256", [] { return encode(256, Verdict::denied); }},
      {"encode_1", [] { return encode(1, Verdict::approved); }},
      {"idle_turn_2_shards", [] { return micro::idle_turns(2); }},
      {"idle_turn_64_shards", [] { return micro::idle_turns(64); }},
  };
  return all;
}

int run(std::string_view chosen) {
  bool found = false;
  for (const Part& part : parts()) {
    if (!chosen.empty() && chosen != part.name) continue;
    found = true;
    std::printf("%s %zu\n", part.name, part.run());
  }
  require(found, "no part has this name; without a name all of them are run");
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    return sluice::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "Error: %s\n", error.what());
    return 2;
  }
}
