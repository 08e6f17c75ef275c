// Measures what it costs a shard to write its state: one record at a time, and to read it again.
// Method: subjects with three sliding limits, their words in one array, as in
// quota/meter_memory.hpp, in a random order that is drawn beforehand; little used, all in the
// newest sub-window, or "all": some in each. A batch of 1,024 records becomes a part, and the next
// one uses its memory again; nothing is fetched ahead. One item is one record, of so many `bytes`.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "limiter/meter.hpp"
#include "state/part_builder.hpp"
#include "state/part_reader.hpp"

namespace sluice::state {
namespace {

constexpr size_t batch_records = 1'024;
constexpr limiter::Moment start{
    .ns = 30 * base::ns_per_day, .wall_ns = 20'000 * base::ns_per_day, .order = 2'000'000'000};

class Subjects {
 public:
  Subjects(size_t count, bool uses_all) : now_(start), uses_all_(uses_all) {
    for (const int64_t period_ms : {60'000, 60'000, 3'600'000}) {
      limiter::MeterShape shape = limiter::compile({.name = "l",
                                                    .metric = api::Metric::tokens,
                                                    .kind = api::LimitKind::sliding,
                                                    .amount = limits::amount_max,
                                                    .period_ms = period_ms});
      shape.head_word = static_cast<uint16_t>(heads_each_);
      shape.ring_word = static_cast<uint16_t>(rings_each_);
      heads_each_ += limiter::head_words(shape);
      rings_each_ += limiter::ring_words(shape);
      shapes_.push_back(shape);
    }
    heads_.resize(count * heads_each_);
    rings_.resize(count * rings_each_);
    for (size_t at = 0; at < count; ++at) {
      names_.push_back("tenant-" + std::to_string(1'000'000 + at));
      begin(at);
      order_.push_back(static_cast<uint32_t>(at));
    }
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(1));
  }

  size_t count() const { return order_.size(); }
  SubjectRecord record(size_t drawn) {
    const size_t at = order_[drawn];
    return {.name = names_[at], .quota_class = 7, .shapes = shapes_, .words = words(at)};
  }
  std::span<const limiter::MeterShape> shapes() const { return shapes_; }
  const limiter::Moment& now() const { return now_; }

 private:
  limiter::Words words(size_t at) {
    return {.heads = heads_.data() + at * heads_each_, .rings = rings_.data() + at * rings_each_};
  }
  void begin(size_t at) {
    limiter::Moment now = start;
    for (const limiter::MeterShape& shape : shapes_) limiter::Meter(shape, words(at)).begin(now);
    for (uint32_t step = 0; step < (uses_all_ ? 16U * 60 : 1U); ++step) {
      now.ns += 4 * base::ns_per_s;
      ++now.order;
      for (const limiter::MeterShape& shape : shapes_) {
        limiter::Meter meter(shape, words(at));
        meter.roll(now);
        meter.charge(500 + step, step % 16 == 0, now);
      }
    }
    now_ = now;
  }

  limiter::Moment now_;
  bool uses_all_;
  uint32_t heads_each_ = 0;
  uint32_t rings_each_ = 0;
  std::vector<limiter::MeterShape> shapes_;
  std::vector<uint64_t> heads_;
  std::vector<uint64_t> rings_;
  std::vector<std::string> names_;
  std::vector<uint32_t> order_;
};

PartHeader header_at(const limiter::Moment& now) {
  return {.epoch = 1,
          .time = {.state_ns = now.ns},
          .calendar_wall_ns = now.wall_ns,
          .order = now.order};
}

void count_records(benchmark::State& state, const PartBuilder& builder) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * batch_records));
  state.counters["bytes"] = static_cast<double>(builder.used_bytes()) / batch_records;
}

template <typename Append>
void write_batches(benchmark::State& state, const limiter::Moment& now, Append append) {
  PartBuilder builder({.subjects_max = batch_records, .reservations_max = batch_records});
  StateSink& sink = builder;
  for (auto _ : state) {
    builder.clear();
    for (size_t at = 0; at < batch_records; ++at) append(sink);
    builder.finish(header_at(now));
    benchmark::DoNotOptimize(builder.parts().data());
  }
  if (!PartReader::open(builder.parts()[0])) state.SkipWithError("cannot be read");
  count_records(state, builder);
}

// Subjects, and whether all their sub-windows are used.
void write_subjects(benchmark::State& state) {
  Subjects subjects(static_cast<size_t>(state.range(0)), state.range(1) != 0);
  size_t at = 0;
  write_batches(state, subjects.now(), [&](StateSink& sink) {
    sink.append(subjects.record(at));
    if (++at == subjects.count()) at = 0;
  });
}
BENCHMARK(write_subjects)
    ->ArgNames({"subjects", "all"})
    ->Args({1'000, 0})
    ->Args({1'000, 1})
    ->Args({1'000'000, 0})
    ->Args({100'000, 1});

// Of two subjects, without a client's id.
void write_reservations(benchmark::State& state) {
  ReservationRecord reservation{.id = 0x1'2345'6789,
                                .lifetime_ms = 60'000,
                                .due_ms = start.ns / base::ns_per_ms,
                                .amounts = {.input_tokens = 700, .output_tokens = 300},
                                .charged_ns = start.ns,
                                .order = start.order,
                                .subjects_count = 2};
  for (uint8_t at = 0; at < 2; ++at) {
    reservation.subjects[at] = {.where = ReservedSubject::Where::here,
                                .key = {.name = {.low = at, .high = 5}, .route = at}};
  }
  write_batches(state, start, [&](StateSink& sink) {
    ++reservation.id;
    sink.append(reservation);
  });
}
BENCHMARK(write_reservations);

// With the checksum, and every word of every meter.
void read_subjects(benchmark::State& state) {
  Subjects subjects(batch_records, state.range(0) != 0);
  PartBuilder builder({.subjects_max = batch_records});
  for (size_t at = 0; at < batch_records; ++at) builder.append(subjects.record(at));
  builder.finish(header_at(subjects.now()));
  std::vector<uint64_t> heads(64);
  std::vector<uint64_t> rings(128);
  bool is_sound = true;
  for (auto _ : state) {
    auto reader = PartReader::open(builder.parts()[0]);
    while (const auto record = reader->next()) {
      is_sound &= unpack_meters(std::get<StoredSubject>(*record).meters, subjects.shapes(),
                                subjects.now(), {.heads = heads.data(), .rings = rings.data()});
    }
    is_sound &= !reader->damage();
  }
  if (!is_sound) state.SkipWithError("damaged");
  count_records(state, builder);
}
BENCHMARK(read_subjects)->ArgName("all")->Arg(0)->Arg(1);

}  // namespace
}  // namespace sluice::state

BENCHMARK_MAIN();
