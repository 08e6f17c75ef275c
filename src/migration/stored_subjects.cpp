#include "migration/stored_subjects.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <variant>

#include "policy/quota_text.hpp"
#include "quota/quota_store.hpp"
#include "server/stored_content.hpp"
#include "state/part_reader.hpp"
#include "state/state_sink.hpp"
#include "store/state_reader.hpp"
#include "store/value_or_throw.hpp"

namespace sluice::migration {
namespace {

constexpr uint32_t records_at_once = 1'000;

// ---- how large a store the file needs ------------------------------------------------------

struct Sizes {
  uint64_t subjects = 0;
  uint64_t reservations = 0;
  uint64_t name_bytes = 1;

  void add(std::string_view subject) {
    ++subjects;
    name_bytes = std::max<uint64_t>(name_bytes, subject.size());
  }
  void add(const policy::QuotaRules& rules) {
    for (const policy::QuotaRule& rule : rules.rules) add(rule.subject);
  }
};

// Records that are superseded are counted, too.
void count_records(state::PartReader& part, Sizes& sizes) {
  while (const auto record = part.next()) {
    if (const auto* const subject = std::get_if<state::StoredSubject>(&*record)) {
      sizes.add(subject->name);
    } else if (std::holds_alternative<state::ReservationRecord>(*record) ||
               std::holds_alternative<state::EndedReservation>(*record)) {
      ++sizes.reservations;
    }
  }
}

// Damage is for StoredContent to report.
Sizes sizes_of(store::StateReader& reader) {
  Sizes sizes;
  reader.begin_again();
  reader.only_kind(state::PartKind::quotas);
  while (const auto part = value_or_throw(reader.next_part())) {
    auto records = state::PartReader::open(part->bytes);
    if (records) count_records(*records, sizes);
  }
  for (const store::StoredQuota& put : value_or_throw(reader.run_time_quotas())) {
    sizes.add(put.name);
  }
  return sizes;
}

quota::Options options_for(const Sizes& sizes, const server::StateSeeds& seeds) {
  constexpr uint64_t subjects_max = 100'000'000;
  return {
      .routing_seed = seeds.routing_seed,
      .subjects_max = static_cast<uint32_t>(std::clamp<uint64_t>(sizes.subjects, 1, subjects_max)),
      .reservations_max = static_cast<uint32_t>(
          std::clamp<uint64_t>(sizes.reservations, 1, limits::reservations_max)),
      .waiters_max = 1,
      .name_bytes_max = static_cast<uint32_t>(sizes.name_bytes),
      .name_seed = seeds.name_seed,
      .id_seed = 1,
      .keeps_state = true};
}

// ---- what the store has --------------------------------------------------------------------

class SubjectSink final : public state::StateSink {
 public:
  SubjectSink(const limiter::Moment& now, StoredSubjects& found) : now_(now), found_(found) {}

  void append(const state::SubjectRecord& subject) noexcept override {
    if (subject.quota_class == 0) return;
    found_.subjects.push_back({.name = std::string(subject.name),
                               .quota = classes_.at(subject.quota_class),
                               .meters = SubjectMeters(subject.shapes, subject.words, now_)});
  }
  void append(const state::ReservationRecord& reservation) noexcept override {
    const bool is_open = reservation.state == api::ReservationState::open;
    ++(is_open ? found_.open_reservations : found_.remembered_reservations);
  }
  void append(const state::EndedReservation& /*ended*/) noexcept override {
    ++found_.remembered_reservations;
  }
  void append(const state::GoneSubject& /*gone*/) noexcept override {}
  void append(const state::GoneReservation& /*gone*/) noexcept override {}
  void add_class(uint64_t id, std::string_view quota) noexcept override {
    classes_[id] = policy::parse_quota(quota).quota;
  }
  void change_quota(const state::QuotaChange& /*change*/) noexcept override {}

 private:
  const limiter::Moment now_;
  StoredSubjects& found_;
  std::unordered_map<uint64_t, api::Quota> classes_;
};

void restore(const std::string& path, const server::StoredContent& content,
             store::StateReader& reader, quota::QuotaStore& store, base::Now now) {
  if (content.shards_count() == 0) return;
  const quota::Restored restored = content.restore(reader, store, now);
  const bool has_all = restored.subjects_left_out + restored.reservations_left_out == 0;
  if (!has_all) throw std::runtime_error(path + ": it has more than one process can hold");
}

void run_all_due(quota::QuotaStore& store, base::Now now) {
  do {
    store.run_due(now);
  } while (store.next_due_ns() <= now.monotonic_ns);
}

// A subject takes its quota of another book when it is next used, or shown.
void refresh_all(quota::QuotaStore& store, base::Now now) {
  api::QuotaBatch batch;
  uint64_t cursor = 0;
  do {
    batch.clear();
    batch.calls.push_back(
        {.op = api::QuotaOp::page, .limit = limits::subjects_page_max, .cursor = cursor});
    batch.make_answers();
    store.decide(batch, now);
    cursor = batch.answers[0].next_cursor;
  } while (cursor != 0);
}

void take_all(quota::QuotaStore& store, base::Now now, StoredSubjects& found) {
  SubjectSink sink({.ns = now.monotonic_ns, .wall_ns = now.wall_ns, .order = UINT64_MAX}, found);
  store.write_all();
  store.begin_cut(sink, {.epoch = 1, .begins_lap = true});
  while (store.hand_over(records_at_once)) {
  }
}

}  // namespace

StoredSubjects read_stored_subjects(const std::string& path, policy::QuotaBook* book,
                                    const std::function<state::MachineTime()>& clock) {
  store::StateReader reader = value_or_throw(store::StateReader::open(path));
  const server::StoredContent content(path, reader);
  const state::MachineTime present = clock();
  const state::StateStart start = state::start_state_clock(content.last_time(), present, 0);
  const base::Now now{.monotonic_ns = start.state_ns, .wall_ns = present.wall_ns};
  StoredSubjects found;
  found.now = corrected({.state_ns = now.monotonic_ns, .wall_ns = now.wall_ns});
  found.clock_warning = state::clock_warning(start);
  Sizes sizes = sizes_of(reader);
  if (book != nullptr) sizes.add(book->rules());
  quota::QuotaStore store(options_for(sizes, content.seeds().value_or(server::StateSeeds{})));
  restore(path, content, reader, store, now);
  if (book != nullptr) store.adopt(*book, now);  // which makes the subjects that it names
  run_all_due(store, now);
  refresh_all(store, now);
  take_all(store, now, found);
  std::ranges::sort(found.subjects, {}, &StoredSubject::name);
  return found;
}

}  // namespace sluice::migration
