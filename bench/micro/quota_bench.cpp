// Measures pairs of reserve and settle in the store alone, in batches of 256: the ceiling of the
// server's rate; and what it costs to keep the state for the next start.
// Method: every subject has three sliding limits (requests, tokens, tokens per day), all so high
// that the store admits every reservation. Each step decides a batch of reserves, then settles the
// batch reserved 64 batches ago with less, as with so many frames in flight. Subjects are drawn
// beforehand, uniformly. One item is one pair.
// beside_a_store_that_keeps_nothing has two stores, which run alternately for 100 ms of the
// thread's time each. The one that keeps its state begins a cut each time, always with a lap under
// way, and hands over its records between the batches as a worker does, to nobody. `ratio` is the
// median of its rates by those of the other one just before and after.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "quota/quota_store.hpp"
#include "state/part_builder.hpp"

namespace sluice::quota {
namespace {

constexpr size_t batch_calls = 256;
constexpr size_t drawn_batches = 4'096;
constexpr size_t batches_open = 64;
constexpr int64_t slice_ns = 100 * base::ns_per_ms;

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

// The names of all subjects, and of those that calls name, drawn beforehand.
class DrawnNames {
 public:
  DrawnNames(size_t subjects, size_t of_one_call) : of_one_call_(of_one_call) {
    for (size_t index = 0; index < subjects; ++index) {
      all_.push_back("{tag-" + std::to_string(index / of_one_call) + "}model-" +
                     std::to_string(index));
    }
    std::mt19937_64 random(1);
    for (size_t call = 0; call < batch_calls * drawn_batches; ++call) {
      const size_t first = random() % (subjects / of_one_call) * of_one_call;
      for (size_t place = 0; place < of_one_call; ++place) {
        text_ += all_[first + place];
        ends_.push_back(static_cast<uint32_t>(text_.size()));
      }
    }
  }

  size_t of_one_call() const { return of_one_call_; }
  const std::vector<std::string>& all() const { return all_; }
  // Adjacent in memory, as in a frame.
  std::string_view drawn(size_t batch, size_t name) const {
    const size_t at = batch % drawn_batches * batch_calls * of_one_call_ + name;
    return std::string_view(text_).substr(ends_[at], ends_[at + 1] - ends_[at]);
  }

 private:
  const size_t of_one_call_;
  std::vector<std::string> all_;
  std::string text_;
  std::vector<uint32_t> ends_{0};
};

// A store, and the batches of its pairs.
class Pairs {
 public:
  Pairs(const DrawnNames& names, bool keeps_state)
      : names_(names),
        options_{.subjects_max = static_cast<uint32_t>(names.all().size()),
                 .reservations_max = 1'000'000,
                 .waiters_max = 64,
                 .name_seed = 1,
                 .id_seed = 1,
                 .keeps_state = keeps_state},
        store_(options_) {
    store_.adopt(book_, {});
    // Reserves for every subject once, so that the measured part creates none.
    const size_t subjects = names.all().size();
    for (size_t first = 0; first < subjects; first += batch_calls * names.of_one_call()) {
      run([&](size_t name) -> std::string_view { return names.all()[(first + name) % subjects]; });
    }
  }

  void run_drawn() {
    run([&](size_t name) { return names_.drawn(batches_, name); });
  }

  QuotaStore& store() { return store_; }
  const Options& options() const { return options_; }
  bool has_failed() const { return has_failed_; }

 private:
  template <typename NameOf>
  void run(const NameOf& name_of) {
    const size_t of_one_call = names_.of_one_call();
    reserves_.clear();
    for (size_t call = 0; call < batch_calls; ++call) {
      reserves_.calls.push_back({.given_bits = api::given::input_tokens | api::given::output_tokens,
                                 .subjects_count = static_cast<uint8_t>(of_one_call),
                                 .first_subject = static_cast<uint32_t>(reserves_.subjects.size()),
                                 .lifetime_ms = 60'000,
                                 .amounts = {.input_tokens = 900, .output_tokens = 500}});
      for (size_t place = 0; place < of_one_call; ++place) {
        reserves_.subjects.push_back(name_of(call * of_one_call + place));
      }
    }
    const base::Now now{.monotonic_ns = now_ns_, .wall_ns = now_ns_};
    reserves_.make_answers();
    store_.decide(reserves_, now);
    api::QuotaBatch& settles = to_settle_[batches_++ % batches_open];
    settles.make_answers();
    store_.decide(settles, now);
    for (const api::QuotaAnswer& answer : settles.answers) {
      has_failed_ |= answer.code != api::QuotaCode::ok;
    }
    settles.clear();
    for (const api::QuotaAnswer& answer : reserves_.answers) {
      settles.calls.push_back({.op = api::QuotaOp::settle,
                               .given_bits = api::given::input_tokens | api::given::output_tokens,
                               .amounts = {.input_tokens = 880, .output_tokens = 312},
                               .reservation = answer.reservation});
    }
    store_.run_due(now);
    now_ns_ += 50'000;
  }

  const DrawnNames& names_;
  const Options options_;
  policy::QuotaBook book_{
      {.rules = {{.subject = "^\\{tag-", .is_regex = true, .quota = three_limits()}},
       .unknown_quota = {}}};
  QuotaStore store_;
  api::QuotaBatch reserves_;
  std::vector<api::QuotaBatch> to_settle_{batches_open};
  size_t batches_ = 0;
  int64_t now_ns_ = 1'000'000'000;
  bool has_failed_ = false;
};

void reserve_and_settle(benchmark::State& state) {
  const DrawnNames names(static_cast<size_t>(state.range(0)), static_cast<size_t>(state.range(1)));
  Pairs pairs(names, false);
  for (auto _ : state) pairs.run_drawn();
  if (pairs.has_failed()) state.SkipWithError("not settled");
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * batch_calls);
}

BENCHMARK(reserve_and_settle)
    ->ArgNames({"subjects", "of_one_call"})
    ->Args({1, 1})
    ->Args({1'000'000, 1})
    ->Args({3, 3})
    ->Args({300'000, 3});

// ------------------------------------------------------------------------------ keeping the state

// Of this thread.
int64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * base::ns_per_s + time.tv_nsec;
}

// Makes cuts of a store, as a worker does.
class Cuts {
 public:
  explicit Cuts(Pairs& pairs)
      : store_(pairs.store()),
        builder_({.subjects_max = pairs.options().subjects_max,
                  .name_bytes_max = pairs.options().name_bytes_max,
                  .reservations_max = pairs.options().reservations_max}) {}

  void begin() {
    if (is_under_way_) return;  // more records than a slice has time for
    is_under_way_ = true;
    store_.begin_cut(builder_, {.epoch = ++epoch_, .begins_lap = true});
  }
  void go_on() {
    if (!is_under_way_) return;
    is_under_way_ = store_.hand_over(2 * batch_calls / 4);
    if (is_under_way_) return;
    builder_.finish({.epoch = epoch_, .order = store_.cut_facts().order});
    ++count_;
    records_ += builder_.records_count();
    bytes_ += builder_.used_bytes();
    builder_.clear();
  }

  void report(benchmark::State& state) const {
    state.counters["records_per_cut"] =
        static_cast<double>(records_ / std::max<uint64_t>(count_, 1));
    state.counters["record_bytes"] = static_cast<double>(bytes_) / static_cast<double>(records_);
  }

 private:
  QuotaStore& store_;
  state::PartBuilder builder_;
  uint64_t epoch_ = 0;
  bool is_under_way_ = false;
  uint64_t count_ = 0;
  uint64_t records_ = 0;
  uint64_t bytes_ = 0;
};

// Returns the batches of a slice by its nanoseconds.
template <typename GoOn>
double run_slice(Pairs& pairs, const GoOn& go_on) {
  const int64_t begin = cpu_ns();
  int64_t now = begin;
  double batches = 0;
  for (; now - begin < slice_ns; now = cpu_ns()) {
    for (int batch = 0; batch < 16; ++batch) {
      pairs.run_drawn();
      go_on();
    }
    batches += 16;
  }
  return batches / static_cast<double>(now - begin);
}

void beside_a_store_that_keeps_nothing(benchmark::State& state) {
  const DrawnNames names(static_cast<size_t>(state.range(0)), 1);
  Pairs kept(names, true);
  Pairs other(names, false);
  Cuts cuts(kept);
  std::vector<double> ratios;
  double rates = 0;
  double before = run_slice(other, [] {});
  for (auto _ : state) {
    cuts.begin();
    const double rate = run_slice(kept, [&cuts] { cuts.go_on(); });
    const double after = run_slice(other, [] {});
    ratios.push_back(2 * rate / (before + after));
    before = after;
    rates += rate;
  }
  if (kept.has_failed() || other.has_failed()) state.SkipWithError("not settled");
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  state.counters["ratio"] = *middle;
  state.counters["pairs_per_second"] = rates / static_cast<double>(ratios.size()) * batch_calls *
                                       static_cast<double>(base::ns_per_s);
  cuts.report(state);
}

BENCHMARK(beside_a_store_that_keeps_nothing)
    ->ArgName("subjects")
    ->Arg(10'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(60);

}  // namespace
}  // namespace sluice::quota

BENCHMARK_MAIN();
