#include "cli/state_upkeep.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstdio>

#include "cli/native_server.hpp"
#include "cli/remove_on_signal.hpp"
#include "cli/state_files.hpp"
#include "cli/state_words.hpp"
#include "store/compact.hpp"
#include "store/file_place.hpp"
#include "store/unfinished_file.hpp"

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

}  // namespace sluice::cli
