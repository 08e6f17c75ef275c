// Why a verdict is no approval, and what helps: a sentence for people.
#pragma once

#include <string>

#include "sluicegate/verdict.hpp"

namespace sluice::cli {

// Empty for `approved` and `queued`. `may_wait`: the request was to wait when denied.
std::string verdict_sentence(sluicegate::Verdict verdict, bool may_wait);

// 1: the limit refuses; 2: the server, which decides nothing.
int exit_code(sluicegate::Verdict verdict) noexcept;

}  // namespace sluice::cli
