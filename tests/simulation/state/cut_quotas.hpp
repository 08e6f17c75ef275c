// A worker's quotas, which take a copy of what they answer at the instant of each cut.
// Lives:  owned by the worker, in place of the store; `copies` and `io` outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "../passing_quotas.hpp"

namespace sluice::simulation {

class CutQuotas final : public PassingQuotas {
 public:
  using OnCut = std::function<void(quota::QuotaDecider& store, uint64_t epoch)>;

  CutQuotas(std::unique_ptr<quota::QuotaDecider> store, OnCut on_cut)
      : PassingQuotas(std::move(store)), on_cut_(std::move(on_cut)) {}

  void begin_cut(state::StateSink& sink, const quota::CutStart& start) noexcept override {
    on_cut_(store(), start.epoch);
    PassingQuotas::begin_cut(sink, start);
  }

 private:
  const OnCut on_cut_;
};

}  // namespace sluice::simulation
