#include "settle_keeper.hpp"

#include <utility>

#include "batch.hpp"
#include "io_thread.hpp"
#include "kept_frame.hpp"
#include "lane_set.hpp"

namespace sluicegate {

SettleKeeper::SettleKeeper(Parts parts)
    : parts_{std::move(parts)},
      emptied_{parts_.platform},
      book_{parts_.options.kept_settles_max,
            Backoff{parts_.options, parts_.platform.random_seed()}} {}

// Whatever changes the book may make something due, or leave nothing.
template <typename Change>
auto SettleKeeper::change(Change change) {
  const std::lock_guard lock{mutex_};
  struct Noted {
    SettleKeeper& keeper;
    ~Noted() {
      if (keeper.book_.counts().kept == 0) keeper.emptied_.notify_all();
      if (keeper.book_.due() == Clock::time_point::max()) return;
      keeper.is_idle_ = false;
      keeper.parts_.io.signal();
    }
  } const noted{*this};
  return change(book_);
}

bool SettleKeeper::keep(KeptSettle settle) {
  const auto now = parts_.platform.now();
  return change([&](KeptSettles& book) { return book.add_failed(std::move(settle), now); });
}

bool SettleKeeper::send(KeptSettle settle) {
  return change([&](KeptSettles& book) { return book.add_fresh(std::move(settle)); });
}

void SettleKeeper::count_lost() {
  change([](KeptSettles& book) { book.count_lost(); });
}

void SettleKeeper::count_recorded() {
  change([](KeptSettles& book) { book.count_recorded(); });
}

SettleCounts SettleKeeper::counts() {
  const std::lock_guard lock{mutex_};
  return book_.counts();
}

void SettleKeeper::drain() {
  change([](KeptSettles& book) { book.hurry(); });
  const auto deadline = parts_.platform.now() + parts_.options.settle_timeout;
  std::unique_lock lock{mutex_};
  emptied_.wait_until(lock, deadline, [this] { return book_.counts().kept == 0; });
}

void SettleKeeper::close() {
  is_closed_ = true;
  change([](KeptSettles& book) { book.close(); });
}

// ------------------------------------------------------------------------------------ attempts

SettleKeeper::Clock::time_point SettleKeeper::repeat_due() {
  if (is_idle_) return Clock::time_point::max();
  std::vector<KeptSettle> due;
  {
    const std::lock_guard lock{mutex_};
    due = book_.take_due(parts_.platform.now());
  }
  using Stage = KeptSettle::Stage;
  std::map<std::pair<uint32_t, Stage>, std::vector<KeptSettle>> by_lane;
  for (KeptSettle& settle : due) {
    const uint32_t lane = parts_.lane_of(settle);
    if (settle.is_alone) {
      send_on(lane, {&settle, 1});
    } else {
      by_lane[{lane, settle.stage}].push_back(std::move(settle));
    }
  }
  for (const auto& [place, settles] : by_lane) send_on(place.first, settles);
  const std::lock_guard lock{mutex_};
  if (book_.counts().kept == 0) emptied_.notify_all();  // the others were dropped
  const auto next = book_.due();
  is_idle_ = next == Clock::time_point::max();
  return next;
}

// All of one stage, in as many frames as they need.
void SettleKeeper::send_on(uint32_t lane, std::span<const KeptSettle> settles) {
  const auto deadline = parts_.platform.now() + parts_.options.call_timeout;
  for (const Cut& cut : cut_entries(settles, KeptFrame::entry_bytes, KeptFrame::text_bytes_of)) {
    const auto part = settles.subspan(cut.first, cut.count);
    parts_.lanes[lane].add_own(std::make_unique<KeptFrame>(
        *this, std::vector<KeptSettle>{part.begin(), part.end()}, cut.key_bytes, deadline));
  }
}

void SettleKeeper::answered(std::span<const KeptSettle> settles, const QuotaAnswers& answers,
                            uint64_t instance_id) {
  const auto now = parts_.platform.now();
  change([&](KeptSettles& book) {
    for (size_t i = 0; i < settles.size(); ++i) {
      book.answered(settles[i], answers.codes[i], now, instance_id);
    }
  });
}

void SettleKeeper::unanswered(std::span<const KeptSettle> settles) {
  const auto now = parts_.platform.now();
  change([&](KeptSettles& book) { book.unanswered(settles, now); });
}

void SettleKeeper::unsent(std::span<const KeptSettle> settles) {
  const auto now = parts_.platform.now();
  change([&](KeptSettles& book) { book.unsent(settles, now); });
}

void SettleKeeper::refused(std::span<const KeptSettle> settles) {
  const auto now = parts_.platform.now();
  change([&](KeptSettles& book) { book.refused(settles, now); });
}

}  // namespace sluicegate
