#include "quota/compiled_quota.hpp"

#include <algorithm>
#include <functional>

#include "base/splitmix.hpp"

namespace sluice::quota {
namespace {

size_t hash_of(const api::Quota& quota) noexcept {
  size_t hash = quota.limits.size();
  const auto mix = [&hash](size_t value) { hash = (hash ^ value) * base::splitmix64_step; };
  for (const api::Limit& limit : quota.limits) {
    mix(std::hash<std::string_view>{}(limit.name));
    mix(limit.amount);
    mix(static_cast<size_t>(limit.period_ms));
  }
  return hash;
}

std::unique_ptr<CompiledQuota> compile(const api::Quota& quota) {
  auto made = std::make_unique<CompiledQuota>();
  made->quota = quota;
  for (const api::Limit& limit : quota.limits) {
    limiter::MeterShape shape = limiter::compile(limit);
    shape.id = limit_id(limit.name);
    shape.head_word = static_cast<uint16_t>(made->head_words);
    made->head_words += limiter::head_words(shape);
    shape.ring_word = static_cast<uint16_t>(made->ring_words);
    made->ring_words += limiter::ring_words(shape);
    made->limits_anything |= limit.ceiling != api::Ceiling::unlimited;
    made->shapes.push_back(shape);
  }
  made->limits_count = static_cast<uint32_t>(made->shapes.size());
  made->slides = std::all_of(made->shapes.begin(), made->shapes.end(),
                             [](const limiter::MeterShape& shape) { return shape.slides; });
  return made;
}

// Whether the limit ever denies a share for good: a reservation takes one slot.
bool rules_out_any(const limiter::MeterShape& shape) noexcept {
  if (shape.ceiling == api::Ceiling::unlimited) return false;
  const bool has_slots = shape.kind == api::LimitKind::concurrency && shape.amount > 0;
  return shape.ceiling == api::Ceiling::block || !has_slots;
}

// Whether `one` rules out whatever `other` does.
bool rules_out_as_much(const limiter::MeterShape& one, const limiter::MeterShape& other) noexcept {
  if (one.metric != other.metric || one.count_cached != other.count_cached) return false;
  if (one.ceiling != api::Ceiling::number) return one.ceiling == api::Ceiling::block;
  return other.ceiling == api::Ceiling::number && one.amount <= other.amount;
}

}  // namespace

// By the hash's upper bits: the tables themselves use the others.
CompiledQuotas::Table& CompiledQuotas::table_of(size_t hash) noexcept {
  static_assert(tables_count == 256);
  return tables_[hash >> 56];
}

const CompiledQuota* CompiledQuotas::hold(const api::Quota& quota) {
  const size_t hash = hash_of(quota);
  Table& table = table_of(hash);
  const auto [begin, end] = table.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (at->second->quota != quota) continue;
    ++at->second->references;
    return at->second.get();
  }
  const auto made = table.emplace(hash, compile(quota));
  made->second->references = 1;
  return made->second.get();
}

void CompiledQuotas::drop_reference(const CompiledQuota* of) noexcept {
  if (--of->references > 0) return;
  const size_t hash = hash_of(of->quota);
  Table& table = table_of(hash);
  const auto [begin, end] = table.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (at->second.get() != of) continue;
    table.erase(at);
    return;
  }
}

size_t CompiledQuotas::count() const noexcept {
  size_t count = 0;
  for (const Table& table : tables_) count += table.size();
  return count;
}

void BookCompiledQuotas::begin(uint32_t places) {
  for (std::unique_ptr<Piece>& piece : pieces_) {
    if (piece != nullptr) earlier_.push_back(std::move(piece));
  }
  pieces_.clear();
  pieces_.resize((places + piece_places - 1) / piece_places);
}

const CompiledQuota* BookCompiledQuotas::of(uint32_t place, const api::Quota& quota) {
  std::unique_ptr<Piece>& piece = pieces_[place / piece_places];
  if (piece == nullptr) piece = std::make_unique<Piece>();
  const CompiledQuota*& found = (*piece)[place % piece_places];
  if (found == nullptr) found = classes_.hold(quota);
  return found;
}

void BookCompiledQuotas::free_earlier_slice() noexcept {
  if (earlier_.empty()) return;
  for (const CompiledQuota* const held : *earlier_.back()) {
    if (held != nullptr) classes_.drop_reference(held);
  }
  earlier_.pop_back();
}

uint32_t limit_id(std::string_view name) noexcept {
  uint32_t hash = 2'166'136'261;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16'777'619;
  return hash;
}

bool continues(const limiter::MeterShape& before, const limiter::MeterShape& now) noexcept {
  return before.id == now.id && before.metric == now.metric && before.kind == now.kind &&
         before.unit == now.unit && before.period_ns == now.period_ns && before.zone == now.zone &&
         before.count_cached == now.count_cached;
}

bool rules_out_more(const CompiledQuota* before, const CompiledQuota& now) noexcept {
  return std::any_of(now.shapes.begin(), now.shapes.end(), [&](const limiter::MeterShape& shape) {
    if (!rules_out_any(shape)) return false;
    if (before == nullptr) return true;
    return std::none_of(
        before->shapes.begin(), before->shapes.end(),
        [&](const limiter::MeterShape& other) { return rules_out_as_much(other, shape); });
  });
}

}  // namespace sluice::quota
