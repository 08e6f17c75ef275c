// The outcome that a change of a subject's quota would have: the answers to --dry-run, as text and
// as JSON.
// Shape:  "now:" and the present quota, "then:" and the future one; JSON as in docs/rest.md.
#pragma once

#include <string>

#include "sluicegate/client.hpp"

namespace sluice::cli {

enum class QuotaChange : uint8_t { set, remove, reset };

struct DryRun {
  QuotaChange change = QuotaChange::set;
  sluicegate::SubjectState present{};
  sluicegate::Quota quota{};  // set: the new one
};

std::string dry_run_text(const DryRun& run);
std::string dry_run_json(const DryRun& run);

}  // namespace sluice::cli
