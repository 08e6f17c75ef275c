// Sends requests through the client library, as a caller does.
// Flow:   entry -> its key's name, or its handle -> Connection::send -> ... -> receive -> the
//         verdict of every entry in the place that its caller reads.
// Shape:  each entry is produced on its own during the run. A frame in flight has a row of such
//         places; its id selects the row.
// Errors: see sender.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "load/handle_table.hpp"
#include "load/key_text.hpp"
#include "load/options.hpp"
#include "load/sender.hpp"
#include "load/stream.hpp"

namespace sluice::load {

class ClientSender final : public Sender {
 public:
  // Without `handles` the sender asks by key.
  ClientSender(sluicegate::Connection& connection, Stream& stream, const HandleTable* handles,
               const Options& options);

  uint32_t ask(uint64_t from_ns) override;
  bool held_back() const noexcept override { return false; }
  bool flush() override;
  void take_answers(Counters& counters) override;
  bool has_answers() const override { return in_flight_ > 0 && connection_.has_answer(); }

  uint32_t frames_in_flight() const noexcept override { return in_flight_; }
  sluicegate::Traffic traffic() const noexcept override { return connection_.traffic(); }
  int native_handle() const noexcept override { return connection_.native_handle(); }
  uint32_t epoll_events() const noexcept override;

 private:
  struct Row {
    uint64_t id = 0;  // 0: no frame
    uint64_t from_ns = 0;
    uint32_t entries = 0;
  };

  uint64_t send_keys(std::span<const PlannedEntry> planned);
  uint64_t send_handles(size_t begin, std::span<const PlannedEntry> planned);
  std::span<const uint32_t> fill_costs(std::span<const PlannedEntry> planned);
  Row& row_of(uint64_t id) noexcept { return rows_[id & (rows_.size() - 1)]; }
  std::span<sluicegate::Verdict> outcomes_of(const Row& row) noexcept;
  void take(const sluicegate::Answer& answer, Counters& counters);
  void deliver(const sluicegate::Verdicts& answer, Row& row, Counters& counters);

  sluicegate::Connection& connection_;
  Stream& stream_;
  const HandleTable* handles_;
  uint32_t window_;
  uint32_t batch_;
  bool with_costs_;
  uint32_t in_flight_ = 0;
  uint64_t last_id_ = 0;

  KeyText text_;
  std::vector<uint32_t> handle_column_;
  std::vector<uint32_t> costs_;
  std::vector<Row> rows_;  // a power of two, more than the window
  std::vector<sluicegate::Verdict> outcomes_;
};

}  // namespace sluice::load
