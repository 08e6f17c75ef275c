// Measures pairs of reserve and settle in the store alone, in batches of 256: the ceiling of the
// server's rate.
// Method: every subject has three sliding limits (requests, tokens, tokens per day), all so high
// that the store admits every reservation. Each step decides a batch of reserves, then settles the
// batch reserved 64 batches ago with less, as with so many frames in flight. Subjects are drawn
// beforehand, uniformly. One item is one pair.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "quota/quota_store.hpp"

namespace sluice::quota {
namespace {

constexpr size_t batch_calls = 256;
constexpr size_t drawn_batches = 4'096;
constexpr size_t batches_open = 64;

api::Quota three_limits() {
  return {.limits = {{.name = "rpm",
                      .metric = api::Metric::requests,
                      .amount = 1'000'000'000'000,
                      .period_ms = 60'000},
                     {.name = "tpm",
                      .metric = api::Metric::tokens,
                      .amount = 1'000'000'000'000'000,
                      .period_ms = 60'000},
                     {.name = "tph",
                      .metric = api::Metric::tokens,
                      .amount = 1'000'000'000'000'000,
                      .period_ms = 3'600'000}}};
}

std::vector<std::string> names(size_t count, size_t of_one_tag) {
  std::vector<std::string> made;
  for (size_t index = 0; index < count; ++index) {
    made.push_back("{tag-" + std::to_string(index / of_one_tag) + "}model-" +
                   std::to_string(index));
  }
  return made;
}

void reserve_and_settle(benchmark::State& state) {
  const auto subjects = static_cast<size_t>(state.range(0));
  const auto of_one_call = static_cast<size_t>(state.range(1));
  QuotaStore store({.subjects_max = static_cast<uint32_t>(subjects),
                    .reservations_max = 1'000'000,
                    .waiters_max = 64,
                    .name_seed = 1,
                    .id_seed = 1});
  policy::QuotaBook book(
      {.rules = {{.subject = "^\\{tag-", .is_regex = true, .quota = three_limits()}},
       .unknown_quota = {}});
  store.adopt(book, {});
  const std::vector<std::string> of_all = names(subjects, of_one_call);
  std::mt19937_64 random(1);
  // Names adjacent, as in a frame.
  std::string text;
  std::vector<uint32_t> ends{0};
  for (size_t call = 0; call < batch_calls * drawn_batches; ++call) {
    const size_t first = random() % (subjects / of_one_call) * of_one_call;
    for (size_t place = 0; place < of_one_call; ++place) {
      text += of_all[first + place];
      ends.push_back(static_cast<uint32_t>(text.size()));
    }
  }
  api::QuotaBatch reserves;
  std::vector<api::QuotaBatch> to_settle(batches_open);
  size_t batches = 0;
  int64_t now_ns = 1'000'000'000;
  const auto run = [&](const auto& name_of) {
    reserves.clear();
    for (size_t call = 0; call < batch_calls; ++call) {
      reserves.calls.push_back({.given_bits = api::given::input_tokens | api::given::output_tokens,
                                .subjects_count = static_cast<uint8_t>(of_one_call),
                                .first_subject = static_cast<uint32_t>(reserves.subjects.size()),
                                .lifetime_ms = 60'000,
                                .amounts = {.input_tokens = 900, .output_tokens = 500}});
      for (size_t place = 0; place < of_one_call; ++place) {
        reserves.subjects.push_back(name_of(call * of_one_call + place));
      }
    }
    reserves.make_answers();
    store.decide(reserves, {.monotonic_ns = now_ns, .wall_ns = now_ns});
    api::QuotaBatch& settles = to_settle[batches++ % batches_open];
    settles.make_answers();
    store.decide(settles, {.monotonic_ns = now_ns, .wall_ns = now_ns});
    for (const api::QuotaAnswer& answer : settles.answers) {
      if (answer.code != api::QuotaCode::ok) state.SkipWithError("not settled");
    }
    settles.clear();
    for (const api::QuotaAnswer& answer : reserves.answers) {
      settles.calls.push_back({.op = api::QuotaOp::settle,
                               .given_bits = api::given::input_tokens | api::given::output_tokens,
                               .amounts = {.input_tokens = 880, .output_tokens = 312},
                               .reservation = answer.reservation});
    }
    store.run_due({.monotonic_ns = now_ns, .wall_ns = now_ns});
    now_ns += 50'000;
  };
  // Reserves for every subject once, so that the measured part creates none.
  for (size_t first = 0; first < subjects; first += batch_calls * of_one_call) {
    run([&](size_t name) -> std::string_view { return of_all[(first + name) % subjects]; });
  }
  size_t batch = 0;
  for (auto _ : state) {
    const uint32_t* end = ends.data() + batch++ % drawn_batches * batch_calls * of_one_call;
    run([&text, end](size_t name) {
      return std::string_view(text).substr(end[name], end[name + 1] - end[name]);
    });
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * batch_calls);
}

BENCHMARK(reserve_and_settle)
    ->ArgNames({"subjects", "of_one_call"})
    ->Args({1, 1})
    ->Args({1'000'000, 1})
    ->Args({3, 3})
    ->Args({300'000, 3});

}  // namespace
}  // namespace sluice::quota

BENCHMARK_MAIN();
