#include "sim_sink.hpp"

#include <algorithm>
#include <utility>

#include "pick.hpp"

namespace sluice::simulation {

using Outcome = store::EpochCommitter::Outcome;

SimSink::SimSink(io::Random& random, SimStore& store, uint32_t shards, Hooks hooks)
    : random_(random),
      store_(store),
      hooks_(std::move(hooks)),
      committer_(store, statistics_, hooks_.clock),
      collector_(shards),
      slowest_ns_(pick<int64_t, 4>(random, {0, 5, 300, 15'000}) * base::ns_per_ms) {}

bool SimSink::hand_over(const store::ShardCut& cut) noexcept {
  if (!collector_.add(cut)) return true;
  const auto drawn = [&] { return random_.between(0, slowest_ns_ / 2); };
  begins_ns_ = hooks_.clock().monotonic_ns + drawn();
  ends_ns_ = begins_ns_ + drawn();
  return true;
}

int64_t SimSink::due_ns() const {
  const int64_t due_ns = committer_.due_ns(collector_.is_complete());
  return collector_.is_complete() ? std::max(due_ns, ends_ns_) : due_ns;
}

void SimSink::step() {
  if (hooks_.clock().monotonic_ns < due_ns()) return;
  const bool has_batch = collector_.is_complete();
  const store::Batch batch = has_batch ? collector_.batch() : store::Batch{};
  const store::WriterStatus before = statistics_.status.load();
  const Outcome outcome = committer_.step(has_batch ? &batch : nullptr);
  if (outcome == Outcome::committed) release();
  if (outcome == Outcome::committed || statistics_.status.load() != before) hooks_.wake();
}

void SimSink::release() {
  statistics_.released_epoch.store(collector_.epoch());
  collector_.clear();
}

void SimSink::crash() {
  if (!collector_.is_complete() || hooks_.clock().monotonic_ns < begins_ns_) return;
  store_.crash_within(collector_.batch());
}

}  // namespace sluice::simulation
