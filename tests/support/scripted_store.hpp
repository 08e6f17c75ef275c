// A store in memory whose calls fail as the test says.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "store/state_store.hpp"

namespace sluice::test {

class ScriptedStore final : public store::StateStore {
 public:
  // The results of the next calls; without any, they succeed.
  std::deque<std::optional<store::FailureKind>> commits;
  std::deque<std::optional<store::FailureKind>> tidies;
  std::deque<std::optional<store::FailureKind>> reopens;
  std::deque<std::optional<store::FailureKind>> closes;

  struct Committed {
    uint64_t epoch = 0;
    size_t cuts_count = 0;
    uint64_t delete_before_epoch = 0;
    uint64_t delete_windows_before_epoch = 0;
    bool operator==(const Committed&) const = default;
  };
  std::vector<Committed> committed;
  std::vector<std::string> calls;

  store::Result<void> commit(const store::Batch& batch) override {
    calls.emplace_back("commit");
    store::Result<void> done = next(commits);
    if (done)
      committed.push_back({batch.epoch, batch.cuts.size(), batch.delete_before_epoch,
                           batch.delete_windows_before_epoch});
    return done;
  }
  store::Result<void> tidy() override {
    calls.emplace_back("tidy");
    return next(tidies);
  }
  store::Result<void> reopen() override {
    calls.emplace_back("reopen");
    return next(reopens);
  }
  store::Result<void> close() override {
    calls.emplace_back("close");
    return next(closes);
  }
  store::StoreSize size() const noexcept override {
    return {.file_bytes = 1'000 * committed.size(), .log_bytes = 100 * committed.size()};
  }

 private:
  static store::Result<void> next(std::deque<std::optional<store::FailureKind>>& results) {
    if (results.empty()) return {};
    const auto result = results.front();
    results.pop_front();
    if (!result) return {};
    return store::fail(*result, "the store");
  }
};

}  // namespace sluice::test
