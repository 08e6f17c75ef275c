#include "cli/state_export.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "base/time.hpp"
#include "cli/native_server.hpp"
#include "cli/part_check.hpp"
#include "cli/state_files.hpp"
#include "cli/state_words.hpp"
#include "limiter/meter.hpp"
#include "policy/quota_text.hpp"
#include "quota/compiled_quota.hpp"
#include "server/stored_file.hpp"
#include "state/meter_words.hpp"
#include "state/part_kind.hpp"
#include "state/part_reader.hpp"
#include "store/info.hpp"
#include "store/state_reader.hpp"
#include "store/value_or_throw.hpp"
#include "text/json.hpp"
#include "text/number.hpp"

namespace sluice::cli {
namespace {

using state::EndedReservation;
using state::GoneReservation;
using state::GoneSubject;
using state::Hash;
using state::ReservationRecord;
using state::StoredSubject;
using text::Json;

// Hashes, of which any bits will do.
struct HashOfHash {
  size_t operator()(const Hash& hash) const noexcept { return hash.low ^ hash.high; }
};

void print(const Json& line) {
  const std::string text = text::one_line(line) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    throw std::runtime_error("the output cannot be written");
  }
}

// ---- reading -----------------------------------------------------------------------------------

// The times and resets of the newest parts.
struct LastCut {
  limiter::Moment now;
  std::vector<uint64_t> reset_all_orders;  // by shard

  void add(const state::PartHeader& header) {
    now.ns = std::max(now.ns, header.latest().ns);
    now.wall_ns = std::max(now.wall_ns, header.latest().wall_ns);
    now.order = std::max(now.order, header.latest().order);
    reset_all_orders.resize(std::max<size_t>(reset_all_orders.size(), header.shard + size_t{1}));
    uint64_t& order = reset_all_orders[header.shard];
    order = std::max(order, header.reset_all_order);
  }
};

// The records that count for a server: those that were written with the number of shards of the
// newest part.
class Records {
 public:
  explicit Records(const std::string& file)
      : reader_(value_or_throw(store::StateReader::open(file))) {}

  store::StateReader& reader() noexcept { return reader_; }

  template <typename Take>
  void for_each(state::PartKind kind, Take take) {
    reader_.begin_again();
    skipped_parts_ = 0;
    std::optional<uint16_t> shards;
    while (const auto part = value_or_throw(reader_.next_part())) {
      if (!state::is_known_kind(part->kind)) ++skipped_parts_;
      if (part->kind != static_cast<uint8_t>(kind)) continue;
      state::PartReader records = open(*part);
      if (!shards) shards = records.header().shards;
      if (records.header().shards != *shards) return;
      last_.add(records.header());
      while (const auto record = records.next()) take(*record, records.header());
      if (records.damage()) throw damaged(*part, *records.damage());
    }
    value_or_throw(reader_.expect_unchanged());
  }

  uint64_t skipped_parts() const noexcept { return skipped_parts_; }
  // Of the parts that were read, with records or without.
  const LastCut& last() const noexcept { return last_; }

 private:
  std::runtime_error damaged(const store::StoredPart& part, state::PartDamage damage) {
    return std::runtime_error(
        fmt::format("{}: part {}: {}; `sluicegate state recover` makes a sound file of it",
                    printable(reader_.database().path()), part.number, state::damage_text(damage)));
  }
  state::PartReader open(const store::StoredPart& part) {
    auto records = state::PartReader::open(part.bytes);
    if (!records) throw damaged(part, records.error());
    return *records;
  }

  store::StateReader reader_;
  LastCut last_;
  uint64_t skipped_parts_ = 0;
};

// Of which thing a record is the newest one: asked newest first.
class NewestReservations {
 public:
  bool is_newest(uint64_t id, bool is_part, uint16_t shard) {
    // A home and its parts have the same id, and different routes never meet in one set.
    const uint64_t thing = is_part ? uint64_t{shard} + 1 : 0;
    return seen_.insert({.low = id, .high = thing}).second;
  }

 private:
  std::unordered_set<Hash, HashOfHash> seen_;
};

// ---- usage -------------------------------------------------------------------------------------

// The quotas of classes, compiled once.
class Quotas {
 public:
  explicit Quotas(const std::vector<store::StoredClass>& classes) {
    for (const store::StoredClass& each : classes) {
      const policy::ParsedQuota parsed = policy::parse_quota(each.quota);
      const bool is_sound = state::quota_class_of(each.quota) == each.id;
      if (is_sound && parsed.complaints.empty()) by_id_[each.id] = compiled_.hold(parsed.quota);
    }
  }
  // Null: it is lost, or this machine cannot use it.
  const quota::CompiledQuota* find(uint64_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
  }

 private:
  quota::CompiledQuotas compiled_;
  std::unordered_map<uint64_t, const quota::CompiledQuota*> by_id_;
};

Json limit_usage(const api::Limit& limit, uint64_t used, uint64_t reserved, int64_t reset_ms) {
  Json json = policy::limit_json(limit);
  json["used"] = used;
  json["reserved"] = reserved;
  json["remaining"] = limit.ceiling == api::Ceiling::unlimited ? Json()
                      : limit.ceiling == api::Ceiling::block
                          ? Json(0)
                          : Json(limit.amount - std::min(limit.amount, used));
  json["reset_ms"] = reset_ms;
  return json;
}

// null: the usage is not of this quota.
Json usage_json(const StoredSubject& subject, const quota::CompiledQuota& quota,
                const LastCut& last, bool must_reset, uint32_t open_count) {
  std::vector<uint64_t> heads(quota.head_words);
  std::vector<uint64_t> rings(quota.ring_words);
  const limiter::Words words{.heads = heads.data(), .rings = rings.data()};
  if (!state::unpack_meters(subject.meters, quota.shapes, last.now, words)) return nullptr;
  Json limits = Json::array();
  for (size_t at = 0; at < quota.shapes.size(); ++at) {
    limiter::Meter meter(quota.shapes[at], words);
    meter.roll(last.now);
    if (must_reset) meter.reset(last.now);
    const bool is_slots = quota.shapes[at].kind == api::LimitKind::concurrency;
    limits.push_back(
        limit_usage(quota.quota.limits[at], is_slots ? open_count : meter.used(),
                    is_slots ? open_count : meter.open(),
                    is_slots ? 0 : base::ceil_ms(meter.empty_at_ns(last.now) - last.now.ns)));
  }
  return limits;
}

// ---- the lines ---------------------------------------------------------------------------------

class Export {
 public:
  explicit Export(const std::string& file) : records_(file) {}

  void run() {
    print_file();
    print_quotas();
    name_seed_ = name_seed();
    find_reservations();
    print_subjects();
    print_reservations();
    print_windows();
    print({{"type", "summary"},
           {"run_time_quotas", quotas_count_},
           {"subjects", subjects_count_},
           {"reservations", reservations_count_},
           {"ends", ends_count_},
           {"windows", windows_count_},
           {"skipped_parts", records_.skipped_parts()}});
  }

 private:
  // What a reservation that lives says about a subject.
  struct Named {
    std::string name;  // empty: the subject has no record
    uint32_t open_count = 0;
  };

  void print_file() {
    const store::Info info = value_or_throw(store::read_info(records_.reader(), cut_wall_ns));
    Json line = {{"type", "file"}};
    line.update(export_json(info));
    print(line);
  }

  void print_quotas() {
    for (const store::StoredQuota& each : value_or_throw(records_.reader().run_time_quotas())) {
      const text::ParsedJson quota = text::parse_json(each.quota);
      print({{"type", "run_time_quota"},
             {"name", each.name},
             {"put_at", time_text(each.put_at * base::ns_per_ms)},
             {"quota", quota.complaint.empty() ? quota.value : Json()}});
      ++quotas_count_;
    }
  }

  uint64_t name_seed() {
    for (const store::StoredMeta& each : value_or_throw(records_.reader().meta())) {
      const auto seed = text::parse_whole<uint64_t>(each.value);
      if (each.key == server::name_seed_key && seed) return *seed;
    }
    return 0;  // there is no part yet, else a server would refuse the file
  }

  // Their subjects, and how many slots they hold.
  void find_reservations() {
    NewestReservations newest;
    records_.for_each(state::PartKind::quotas,
                      [&](const state::StoredRecord& record, const state::PartHeader& header) {
                        if (!is_newest(newest, record, header)) return;
                        const auto* const reservation = std::get_if<ReservationRecord>(&record);
                        if (reservation == nullptr) return;
                        for (uint8_t place = 0; place < reservation->subjects_count; ++place) {
                          const state::ReservedSubject& subject = reservation->subjects[place];
                          if (subject.where != state::ReservedSubject::Where::here) continue;
                          Named& named = named_[subject.key.name];
                          if (reservation->state == api::ReservationState::open) ++named.open_count;
                        }
                      });
  }

  // False also for what is no record of a reservation.
  static bool is_newest(NewestReservations& newest, const state::StoredRecord& record,
                        const state::PartHeader& header) {
    if (const auto* const made = std::get_if<ReservationRecord>(&record)) {
      return newest.is_newest(made->id, made->is_part, header.shard);
    }
    if (const auto* const end = std::get_if<EndedReservation>(&record)) {
      return newest.is_newest(end->id, false, header.shard);
    }
    if (const auto* const gone = std::get_if<GoneReservation>(&record)) {
      return newest.is_newest(gone->id, gone->is_part, header.shard);
    }
    return false;
  }

  // Of one epoch, the record of a subject came after that of a forgotten one with its name.
  void print_subjects() {
    const Quotas quotas(value_or_throw(records_.reader().quota_classes()));
    std::unordered_set<Hash, HashOfHash> seen;
    std::vector<Hash> gone_in_epoch;
    uint64_t epoch = 0;
    records_.for_each(state::PartKind::quotas,
                      [&](const state::StoredRecord& record, const state::PartHeader& header) {
                        if (std::exchange(epoch, header.epoch) != header.epoch) {
                          seen.insert(gone_in_epoch.begin(), gone_in_epoch.end());
                          gone_in_epoch.clear();
                        }
                        if (const auto* const gone = std::get_if<GoneSubject>(&record)) {
                          gone_in_epoch.push_back(gone->key.name);
                        }
                        const auto* const subject = std::get_if<StoredSubject>(&record);
                        if (subject == nullptr) return;
                        const Hash hash = state::hash_of_name(subject->name, name_seed_);
                        if (seen.insert(hash).second)
                          print_subject(*subject, hash, quotas, header.shard);
                      });
  }

  void print_subject(const StoredSubject& subject, const Hash& hash, const Quotas& quotas,
                     uint16_t shard) {
    const auto named = named_.find(hash);
    if (named != named_.end()) named->second.name = subject.name;
    const uint32_t open_count = named == named_.end() ? 0 : named->second.open_count;
    const quota::CompiledQuota* const quota = quotas.find(subject.quota_class);
    Json limits;
    if (subject.quota_class == 0) limits = Json::array();
    if (quota != nullptr) {
      const bool must_reset = subject.reset_order < records_.last().reset_all_orders[shard];
      limits = usage_json(subject, *quota, records_.last(), must_reset, open_count);
    }
    print({{"type", "subject"},
           {"name", std::string(subject.name)},
           {"open_reservations", open_count},
           {"limits", std::move(limits)}});
    ++subjects_count_;
  }

  void print_reservations() {
    NewestReservations newest;
    records_.for_each(state::PartKind::quotas,
                      [&](const state::StoredRecord& record, const state::PartHeader& header) {
                        if (!is_newest(newest, record, header)) return;
                        if (const auto* const made = std::get_if<ReservationRecord>(&record)) {
                          print_reservation(*made, header.shard);
                        } else if (const auto* const end = std::get_if<EndedReservation>(&record)) {
                          print_end(*end);
                        }
                      });
  }

  Json subjects_json(const ReservationRecord& reservation) const {
    Json subjects = Json::array();
    for (const state::ReservedSubject& subject : reservation.named()) {
      if (subject.where != state::ReservedSubject::Where::here) continue;
      const auto named = named_.find(subject.key.name);
      if (named != named_.end() && !named->second.name.empty()) {
        subjects.push_back(named->second.name);
      }
    }
    return subjects;
  }

  static void add_amounts(Json& line, const api::Amounts& amounts) {
    line["requests"] = amounts.requests;
    line["input_tokens"] = amounts.input_tokens;
    line["output_tokens"] = amounts.output_tokens;
    line["cost"] = amounts.cost;
  }

  Json ms_until(int64_t due_ms) const {
    if (due_ms == 0) return nullptr;  // of a part: its home has it
    return std::max<int64_t>(due_ms - base::floor_ms(records_.last().now.ns), 0);
  }

  void print_reservation(const ReservationRecord& made, uint16_t shard) {
    Json line = {{"type", "reservation"},
                 {"reservation", text::hex_id(made.id)},
                 {"part_of_shard", made.is_part ? Json(shard) : Json()},
                 {"state", api::state_name(made.state)},
                 {"code", api::code_name(made.admission)},
                 {"owner", made.owner.empty() ? Json() : Json(std::string(made.owner))},
                 {"subjects", subjects_json(made)}};
    add_amounts(line, made.amounts);
    line["lifetime_ms"] = made.lifetime_ms;
    line["expires_in_ms"] = ms_until(made.due_ms);
    line["connection_bound"] = made.is_connection_bound;
    print(line);
    ++reservations_count_;
  }

  void print_end(const EndedReservation& end) {
    Json line = {{"type", "end"},
                 {"reservation", text::hex_id(end.id)},
                 {"state", api::state_name(end.state)},
                 {"code", api::code_name(end.admission)},
                 {"late", end.late}};
    add_amounts(line, end.amounts);
    line["forgotten_in_ms"] = ms_until(end.forgotten_ms);
    print(line);
    ++ends_count_;
  }

  // Of keys that a server would not forget at once.
  void print_windows() {
    std::unordered_set<std::string> seen;
    records_.for_each(state::PartKind::windows, [&](const state::StoredRecord& record,
                                                    const state::PartHeader& /*header*/) {
      const auto* const window = std::get_if<state::WindowRecord>(&record);
      if (window == nullptr || !seen.emplace(window->key).second) return;
      const int64_t now_ms = base::floor_ms(records_.last().now.ns);
      if (now_ms < window->end_ms + limits::idle_windows * window->policy.window_ms) {
        print_window(*window);
      }
    });
  }

  void print_window(const state::WindowRecord& window) {
    print({{"type", "window"},
           {"key", std::string(window.key)},
           {"approved", window.approved},
           {"denied", window.denied},
           {"max_requests", window.policy.max_requests},
           {"max_requests_in_queue", window.policy.max_requests_in_queue},
           {"window_ms", window.policy.window_ms},
           {"reset_ms", ms_until(window.end_ms)},
           {"set_by_request", window.policy != window.rules_policy}});
    ++windows_count_;
  }

  Records records_;
  uint64_t name_seed_ = 0;
  std::unordered_map<Hash, Named, HashOfHash> named_;
  uint64_t quotas_count_ = 0;
  uint64_t subjects_count_ = 0;
  uint64_t reservations_count_ = 0;
  uint64_t ends_count_ = 0;
  uint64_t windows_count_ = 0;
};

}  // namespace

int export_state(const std::string& file) {
  require_state_file(file);
  Export(file).run();
  return 0;
}

}  // namespace sluice::cli
