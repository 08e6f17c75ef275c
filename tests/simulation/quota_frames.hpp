// Native frames about quotas, as a client builds them (frames.hpp).
// Units:  as on the wire.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/quota.hpp"
#include "frames.hpp"

namespace sluice::simulation {

struct ReserveEntry {
  std::vector<std::string> subjects;
  api::Amounts amounts;
  std::string client_id;
};

struct ReserveFrame {
  uint64_t id = 0;
  std::vector<ReserveEntry> entries{};
  uint8_t flags = 0;
  uint32_t wait_limit_ms = 0;
  uint32_t lifetime_ms = 0;
  bool checks = false;
};

struct Settled {
  uint64_t reservation = 0;
  uint64_t requests = 0;
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  uint64_t cached = 0;
};

struct SettleFrame {
  uint64_t id = 0;
  std::vector<Settled> settled{};
};

void fill_reserve(schema::ClientFrame::Builder frame, const ReserveFrame& asked);
void fill_record(schema::ClientFrame::Builder frame, const ReserveFrame& asked);
void fill_consume(schema::ClientFrame::Builder frame, const ReserveFrame& asked);
void fill_settle(schema::ClientFrame::Builder frame, const SettleFrame& asked);
void fill_quota(schema::Quota::Builder quota, const api::Quota& from);
void fill_names(schema::Usage::Builder usage, const std::vector<std::string>& subjects);
kj::ArrayPtr<const kj::byte> data_of(const std::string& text);

template <typename List, typename Number>
void fill_numbers(List list, const std::vector<Number>& numbers) {
  for (uint32_t i = 0; i < numbers.size(); ++i) list.set(i, numbers[i]);
}

}  // namespace sluice::simulation
