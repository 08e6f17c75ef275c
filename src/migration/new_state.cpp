#include "migration/new_state.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "migration/subject_meters.hpp"
#include "quota/compiled_quota.hpp"
#include "quota/quota_class.hpp"
#include "server/cut_views.hpp"
#include "state/part_builder.hpp"
#include "store/file_lock.hpp"
#include "store/file_place.hpp"
#include "store/new_state.hpp"
#include "store/value_or_throw.hpp"

namespace sluice::migration {
namespace {

constexpr uint64_t first_epoch = 1;

[[noreturn]] void refuse(const tl::unexpected<store::Failure>& failure) {
  throw std::runtime_error(failure.value().text);
}

// ---- the content ---------------------------------------------------------------------------

uint32_t longest_name(const std::vector<IncomingSubject>& subjects) noexcept {
  size_t bytes = 0;
  for (const IncomingSubject& subject : subjects) bytes = std::max(bytes, subject.name.size());
  return static_cast<uint32_t>(bytes);
}

// The cut that a server's only shard would make of these subjects.
class NewCut {
 public:
  NewCut(const std::vector<IncomingSubject>& subjects, const NewStateOptions& options)
      : options_(options),
        now_(new_state_moment(options.now.wall_ns)),
        builder_({.subjects_max = static_cast<uint32_t>(subjects.size()),
                  .name_bytes_max = longest_name(subjects),
                  .reservations_max = 0}) {
    for (const IncomingSubject& subject : subjects) add(subject);
    finish();
  }

  store::ShardCut view() const noexcept {
    return {.epoch = first_epoch,
            .shard = 0,
            .parts = views_.parts(),
            .records_count = builder_.records_count(),
            .quota_classes = views_.quota_classes(),
            .quota_changes = views_.quota_changes(),
            .needed_from_epoch = first_epoch};
  }

 private:
  void add(const IncomingSubject& subject) {
    const std::string quota = quota::quota_text(subject.quota);
    if (options_.puts_quotas) {
      builder_.change_quota(
          {.name = subject.name, .quota = quota, .wall_ms = base::floor_ms(options_.now.wall_ns)});
    }
    if (!subject.usage.has_any()) return;
    const quota::CompiledQuota* const compiled = compiled_.hold(subject.quota);
    SubjectMeters meters(compiled->shapes, limiter::Moment{});
    charge(meters, subject.usage, now_);
    const uint64_t id = quota::class_id(quota);
    if (classes_written_.insert(id).second) builder_.add_class(id, quota);
    builder_.append(state::SubjectRecord{.name = subject.name,
                                         .quota_class = id,
                                         .shapes = meters.shapes(),
                                         .words = meters.words()});
    compiled_.drop_reference(compiled);
  }

  void finish() {
    builder_.finish({.epoch = first_epoch,
                     .shard = 0,
                     .shards = 1,
                     .time = {.state_ns = now_.state_ns, .machine = options_.now},
                     .calendar_wall_ns = now_.wall_ns,
                     .order = static_cast<uint64_t>(now_.state_ns)});
    views_.take(builder_);
  }

  const NewStateOptions& options_;
  const StateMoment now_;
  quota::CompiledQuotas compiled_;
  state::PartBuilder builder_;
  std::unordered_set<uint64_t> classes_written_;
  server::CutViews views_;
};

// ---- the file ------------------------------------------------------------------------------

void fill(store::NewState& file, const NewCut& cut, const server::StateSeeds& seeds) {
  value_or_throw(file.add(server::meta_of(seeds, 1)));
  const store::ShardCut view = cut.view();
  value_or_throw(file.add({.epoch = view.epoch, .cuts = {&view, 1}}));
  value_or_throw(file.finish());
}

}  // namespace

void check_new_state_place(const std::string& path) {
  const std::string real = store::real_path(path);
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(real, ignored))) {
    refuse(store::fail(store::FailureKind::exists, path));
  }
  value_or_throw(store::expect_no_log(real));
}

void write_new_state(const std::vector<IncomingSubject>& subjects, const NewStateOptions& options) {
  const std::string path = store::real_path(options.path);
  value_or_throw(store::expect_no_log(path));
  store::NewState file = value_or_throw(store::NewState::make(path));
  fill(file, NewCut(subjects, options), options.seeds);
  // A server that starts meanwhile with this path makes its own file, or waits for the lock.
  const store::FileLock lock = value_or_throw(store::FileLock::take(path));
  value_or_throw(file.publish());
}

}  // namespace sluice::migration
