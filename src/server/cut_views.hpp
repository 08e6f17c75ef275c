// What a shard has made of a cut, as the store takes it.
// Flow:   take() the quotas, add() further parts -> the members of a store::ShardCut.
// Lives:  views of the builder's memory, until that is cleared; its own is used again for the next
//         cut.
#pragma once

#include <span>
#include <vector>

#include "state/part_builder.hpp"
#include "state/part_kind.hpp"
#include "store/state_store.hpp"

namespace sluice::server {

class CutViews {
 public:
  // Begins anew, with what a finished builder has.
  void take(const state::PartBuilder& quotas);
  void add(state::PartKind kind, std::span<const state::PartBytes> parts);

  std::span<const store::Part> parts() const noexcept { return parts_; }
  std::span<const store::QuotaClass> quota_classes() const noexcept { return classes_; }
  std::span<const store::QuotaChange> quota_changes() const noexcept { return quota_changes_; }

 private:
  std::vector<store::Part> parts_;
  std::vector<store::QuotaClass> classes_;
  std::vector<store::QuotaChange> quota_changes_;
};

}  // namespace sluice::server
