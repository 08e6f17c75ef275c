#include "refusal_reason.hpp"

#include <algorithm>

#include "property/quota_model.hpp"

namespace sluice::simulation {
namespace {

const api::QuotaCall& call_of(const CallName& name) {
  return name.first->calls[name.second];
}

bool gives_all_amounts(const CallName& name) {
  return (call_of(name).given_bits & api::given::output_tokens) != 0;
}

uint64_t share_of(const api::LimitReport& limit, const CallName& name) {
  const bool is_concurrency = limit.kind == api::LimitKind::concurrency;
  if (is_concurrency && call_of(name).op == api::QuotaOp::record) return 0;
  return quota::model_share({.name = {}, .metric = limit.metric, .kind = limit.kind},
                            call_of(name).amounts, 0);
}

std::vector<CallName> holds_of(std::string_view subject, const std::vector<CallName>& holds,
                               api::ShardId shard) {
  std::vector<CallName> found;
  std::ranges::copy_if(holds, std::back_inserter(found), [&](const CallName& hold) {
    return std::ranges::count(subjects_at(hold, shard), subject) > 0;
  });
  return found;
}

bool has_room(const api::LimitReport& limit, const CallName& call,
              const std::vector<CallName>& holds) {
  if (limit.ceiling == api::Ceiling::unlimited) return true;
  if (limit.ceiling == api::Ceiling::block) return false;
  uint64_t used = limit.used;
  for (const CallName& hold : holds) used -= std::min(used, share_of(limit, hold));
  return used + share_of(limit, call) <= limit.amount;
}

api::QuotaBatch usage_of(quota::QuotaDecider& store, std::string_view subject, api::ShardId shard,
                         base::Now now) {
  api::QuotaBatch batch;
  batch.calls = {{.op = api::QuotaOp::usage, .subjects_count = 1, .shard = shard}};
  batch.subjects = {subject};
  batch.make_answers();
  store.decide(batch, now, shard);
  return batch;
}

}  // namespace

std::vector<std::string_view> subjects_at(const CallName& call, api::ShardId shard) {
  const auto& [batch, index] = call;
  std::vector<std::string_view> found;
  for (uint8_t place = 0; place < call_of(call).subjects_count; ++place) {
    const bool is_here = batch->spread.empty() || batch->spread[index].shards[place] == shard;
    if (is_here) found.push_back(batch->subjects[call_of(call).first_subject + place]);
  }
  return found;
}

LacksRoom lacks_room(quota::QuotaDecider& store, const CallName& call,
                     const std::vector<CallName>& holds, api::ShardId shard, base::Now now) {
  if (!gives_all_amounts(call)) return LacksRoom::unknown;
  LacksRoom found = LacksRoom::no;
  for (const std::string_view subject : subjects_at(call, shard)) {
    const std::vector<CallName> own_holds = holds_of(subject, holds, shard);
    if (!std::ranges::all_of(own_holds, gives_all_amounts)) {
      found = LacksRoom::unknown;
      continue;
    }
    const api::QuotaBatch usage = usage_of(store, subject, shard, now);
    for (const api::LimitReport& limit : usage.limits) {
      if (!has_room(limit, call, own_holds)) return LacksRoom::yes;
    }
  }
  return found;
}

bool share_subject(const CallName& call, const std::vector<CallName>& others, api::ShardId shard) {
  return std::ranges::any_of(subjects_at(call, shard), [&](std::string_view subject) {
    return !holds_of(subject, others, shard).empty();
  });
}

bool leaves_room(quota::QuotaDecider& store, const CallName& call,
                 const std::vector<CallName>& others, api::ShardId shard, base::Now now) {
  if (!gives_all_amounts(call)) return true;
  for (const std::string_view subject : subjects_at(call, shard)) {
    std::vector<CallName> claims = holds_of(subject, others, shard);
    std::erase_if(claims, [](const CallName& claim) { return !gives_all_amounts(claim); });
    if (claims.empty()) continue;
    const api::QuotaBatch usage = usage_of(store, subject, shard, now);
    for (const api::LimitReport& limit : usage.limits) {
      if (limit.ceiling != api::Ceiling::number || share_of(limit, call) == 0) continue;
      uint64_t used = limit.used;
      for (const CallName& claim : claims) used += share_of(limit, claim);
      if (used > limit.amount) return false;
    }
  }
  return true;
}

}  // namespace sluice::simulation
