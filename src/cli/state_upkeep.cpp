#include "cli/state_upkeep.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdio>

#include "cli/native_server.hpp"
#include "cli/remove_on_signal.hpp"
#include "cli/state_files.hpp"
#include "cli/state_recovery.hpp"
#include "cli/state_words.hpp"
#include "log/time.hpp"
#include "store/compact.hpp"
#include "store/file_place.hpp"
#include "store/unfinished_file.hpp"
#include "store/value_or_throw.hpp"

namespace sluice::cli {

int compact_state(const std::string& file) {
  require_state_file(file);
  const RemoveOnSignal removal(store::UnfinishedFile::path_of(store::real_path(file)));
  const store::Compaction done = value_or_throw(store::compact(file));
  std::puts(fmt::format("{}: {} before, {} now", printable(file), size_text(done.bytes_before),
                        size_text(done.bytes_after))
                .c_str());
  return 0;
}

int recover_state(const std::string& from, const std::string& to) {
  require_state_file(from);
  RecoveryReport done;
  {
    const RemoveOnSignal removal(store::UnfinishedFile::path_of(store::real_path(to)));
    done = StateRecovery(from, to).run();
  }
  for (const std::string& loss : done.losses) {
    std::fputs(fmt::format("{}: lost: {}\n", printable(from), loss).c_str(), stderr);
  }
  std::puts(fmt::format("{}: {} parts recovered, {}, {} run-time quotas, last commit {}",
                        printable(to), done.made.parts_count, epochs_text(done.made),
                        done.made.run_time_quotas_count, commit_text(done.made, log::now().wall_ns))
                .c_str());
  return done.losses.empty() ? 0 : 1;
}

}  // namespace sluice::cli
