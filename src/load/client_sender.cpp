#include "load/client_sender.hpp"

#include <sys/epoll.h>

#include <bit>
#include <chrono>
#include <string>
#include <variant>

#include "load/clocks.hpp"
#include "load/frame_set.hpp"

namespace sluice::load {
namespace {

// Answers come in any order: with so many more rows than the window, a late answer hardly ever
// blocks a newer frame.
constexpr uint32_t rows_per_window = 4;

}  // namespace

ClientSender::ClientSender(sluicegate::Connection& connection, Stream& stream,
                           const HandleTable* handles, const Options& options)
    : connection_{connection},
      stream_{stream},
      handles_{handles},
      window_{options.window},
      batch_{options.batch},
      with_costs_{denied_by_cost(options)},
      text_{handles == nullptr ? options.batch : 0, options.key_bytes},
      handle_column_(handles == nullptr ? 0 : options.batch),
      costs_(with_costs_ ? options.batch : 0),
      rows_(std::bit_ceil(size_t{rows_per_window} * options.window)),
      outcomes_(rows_.size() * options.batch) {}

uint32_t ClientSender::epoll_events() const noexcept {
  return EPOLLIN;
}

uint32_t ClientSender::ask(uint64_t from_ns) {
  if (in_flight_ == window_ || stream_.frames_count() == 0) return 0;
  if (row_of(last_id_ + 1).id != 0) return 0;
  const size_t frame = stream_.next_frame();
  const auto planned = stream_.frame(frame);
  last_id_ =
      handles_ == nullptr ? send_keys(planned) : send_handles(stream_.begin_of(frame), planned);
  const auto entries = static_cast<uint32_t>(planned.size());
  row_of(last_id_) = {.id = last_id_, .from_ns = from_ns, .entries = entries};
  ++in_flight_;
  stream_.note_asked();
  return entries;
}

uint64_t ClientSender::send_keys(std::span<const PlannedEntry> planned) {
  for (size_t i = 0; i < planned.size(); ++i) text_.write(i, planned[i].key);
  return connection_.send(
      sluicegate::Acquire{.keys = text_.keys(planned.size()), .costs = fill_costs(planned)});
}

uint64_t ClientSender::send_handles(size_t begin, std::span<const PlannedEntry> planned) {
  for (size_t i = 0; i < planned.size(); ++i) {
    handle_column_[i] = handles_->of_question(begin + i);
  }
  return connection_.send(sluicegate::AcquireByHandle{
      .handles = std::span{handle_column_}.first(planned.size()), .costs = fill_costs(planned)});
}

std::span<const uint32_t> ClientSender::fill_costs(std::span<const PlannedEntry> planned) {
  if (!with_costs_) return {};
  for (size_t i = 0; i < planned.size(); ++i) costs_[i] = cost_of(planned[i]);
  return std::span{costs_}.first(planned.size());
}

bool ClientSender::flush() {
  connection_.flush();
  return true;
}

void ClientSender::take_answers(Counters& counters) {
  while (in_flight_ > 0) {
    const auto answer = connection_.receive(std::chrono::milliseconds{0});
    if (!answer) return;
    take(*answer, counters);
  }
}

std::span<sluicegate::Verdict> ClientSender::outcomes_of(const Row& row) noexcept {
  const auto index = static_cast<size_t>(&row - rows_.data());
  return std::span{outcomes_}.subspan(index * batch_, row.entries);
}

void ClientSender::take(const sluicegate::Answer& answer, Counters& counters) {
  if (std::holds_alternative<sluicegate::GoAway>(answer)) {
    throw sluicegate::ConnectionLost("the server shuts down");
  }
  const auto* refusal = std::get_if<sluicegate::Refusal>(&answer);
  if (refusal != nullptr && refusal->id == 0) {
    throw sluicegate::Refused(refusal->code, std::string{refusal->text});
  }
  const uint64_t id = id_of(answer);
  Row& row = row_of(id);
  if (id == 0 || row.id != id) {
    throw sluicegate::ProtocolError("the server answered a frame that is not in flight");
  }
  if (refusal != nullptr) {
    counters.verdicts.add_refusal(refusal->text);
  } else if (const auto* verdicts = std::get_if<sluicegate::Verdicts>(&answer)) {
    deliver(*verdicts, row, counters);
  } else {
    throw sluicegate::ProtocolError("the server sent an answer that was not asked for");
  }
  counters.latency.add(now_ns() - row.from_ns);
  row.id = 0;
  --in_flight_;
  stream_.note_answered();
}

void ClientSender::deliver(const sluicegate::Verdicts& answer, Row& row, Counters& counters) {
  if (answer.verdicts.size() != row.entries) {
    throw sluicegate::ProtocolError("the server answered another number of entries");
  }
  const auto outcomes = outcomes_of(row);
  answer.verdicts.copy_to(outcomes);
  counters.verdicts.add(outcomes);
}

}  // namespace sluice::load
