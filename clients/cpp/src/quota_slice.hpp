// Parts of batches about quotas. Part of Client.
// Shape:  codes and reservations go to the caller's columns, at the places that Slice has.
#pragma once

#include "job.hpp"

namespace sluicegate {

// A batch's columns of answers.
struct QuotaColumns {
  std::vector<QuotaCode> codes;
  std::vector<uint64_t> reservations;   // empty for a batch that makes none
  std::vector<int64_t> retry_after_ms;  // likewise
};

class QuotaSlice : public Slice {
 public:
  QuotaSlice(OnFailure policy, Waiter& waiter, uint32_t first, std::span<const uint32_t> places,
             size_t count, QuotaColumns& columns)
      : Slice{policy, waiter, first, places, count}, columns_{columns} {}

  void take(const Answer& answer, Finished& finished) override;

 private:
  QuotaColumns& columns_;
};

class ReserveSlice final : public QuotaSlice {
 public:
  ReserveSlice(OnFailure policy, Waiter& waiter, uint32_t first, std::span<const uint32_t> places,
               std::span<const ReserveEntry> entries, size_t text_bytes,
               const ReserveOptions& shared, QuotaColumns& columns)
      : QuotaSlice{policy, waiter, first, places, entries.size(), columns},
        entries_{entries},
        text_bytes_{text_bytes},
        shared_{shared} {}

  static constexpr size_t entry_bytes = 2 + 4 + 3 * 8;
  static constexpr bool makes_reservations = true;

  bool encode(std::vector<uint64_t>& out) override;
  size_t frame_bytes() const override {
    return head_bytes + list_bytes(text_bytes_) + (entry_bytes + 8) * count() + 256;
  }

 private:
  std::span<const ReserveEntry> entries_;
  size_t text_bytes_;
  const ReserveOptions& shared_;
};

class SettleSlice final : public QuotaSlice {
 public:
  SettleSlice(OnFailure policy, Waiter& waiter, uint32_t first, std::span<const uint32_t> places,
              std::span<const SettleEntry> entries, QuotaColumns& columns)
      : QuotaSlice{policy, waiter, first, places, entries.size(), columns}, entries_{entries} {}

  static constexpr size_t entry_bytes = 4 + 5 * 8;
  static constexpr bool makes_reservations = false;

  bool encode(std::vector<uint64_t>& out) override;
  size_t frame_bytes() const override { return head_bytes + (entry_bytes + 8) * count(); }

 private:
  std::span<const SettleEntry> entries_;
};

// Appends a Settle frame of these.
void encode_settles(uint64_t id, std::span<const SettleEntry> entries, std::vector<uint64_t>& out);

uint8_t flags_of(const ConsumeOptions& options) noexcept;
uint8_t flags_of(const ReserveOptions& options) noexcept;

}  // namespace sluicegate
