// Why a verdict is no approval, and what helps: a sentence for people.
#pragma once

#include <string>
#include <string_view>

#include "sluicegate/verdict.hpp"

namespace sluice::cli {

// Empty for `approved` and `queued`. `may_wait`: the request was to wait when denied.
std::string verdict_sentence(sluicegate::Verdict verdict, std::string_view key, bool may_wait);

}  // namespace sluice::cli
