// What a change of a subject's quota would do: the answers to --dry-run, as text and as JSON.
// Shape:  "now:", what holds, "then:", what would; JSON as REST tells it: docs/rest.md.
#pragma once

#include <string>

#include "sluicegate/client.hpp"

namespace sluice::cli {

enum class QuotaChange : uint8_t { set, remove, reset };

struct DryRun {
  QuotaChange change = QuotaChange::set;
  sluicegate::SubjectState present{};
  sluicegate::Quota quota{};  // set: what would hold
};

std::string dry_run_text(const DryRun& run);
std::string dry_run_json(const DryRun& run);

}  // namespace sluice::cli
