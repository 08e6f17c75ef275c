// Columns of a frame's entries. Part of Client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluicegate/frames.hpp"

namespace sluicegate {

// A column that stays empty while all its values are the default.
template <typename T>
class Column {
 public:
  void begin() noexcept { values_.clear(); }
  void add(size_t entry, T value, T absent) {
    if (values_.empty()) {
      if (value == absent) return;
      values_.assign(entry, absent);
    }
    values_.push_back(value);
  }
  operator std::span<const T>() const noexcept { return values_; }

 private:
  std::vector<T> values_;
};

// The amounts of Settle and Record.
struct UsedColumns {
  Column<uint32_t> requests;
  Column<uint64_t> input_tokens, cached_input_tokens, output_tokens, costs;

  void begin() noexcept {
    requests.begin();
    for (auto* column : {&input_tokens, &cached_input_tokens, &output_tokens, &costs}) {
      column->begin();
    }
  }
  void add(size_t entry, const Used& used) {
    requests.add(entry, used.requests.value_or(keep), keep);
    input_tokens.add(entry, used.input_tokens.value_or(unset), unset);
    cached_input_tokens.add(entry, used.cached_input_tokens, 0);
    output_tokens.add(entry, used.output_tokens.value_or(unset), unset);
    costs.add(entry, used.cost.value_or(unset), unset);
  }
};

}  // namespace sluicegate
