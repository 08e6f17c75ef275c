#include "cli/commands.hpp"

#include "cli/about_command.hpp"
#include "cli/acquire_command.hpp"
#include "cli/bench_command.hpp"
#include "cli/check_config_command.hpp"
#include "cli/completion_command.hpp"
#include "cli/consume_command.hpp"
#include "cli/debug_command.hpp"
#include "cli/export_command.hpp"
#include "cli/import_command.hpp"
#include "cli/ping_command.hpp"
#include "cli/quota_command.hpp"
#include "cli/release_command.hpp"
#include "cli/reserve_command.hpp"
#include "cli/reset_command.hpp"
#include "cli/settle_command.hpp"
#include "cli/state_command.hpp"
#include "cli/top_command.hpp"
#include "cli/usage_command.hpp"

namespace sluice::cli {

void add_commands(CLI::App& app, Run& run) {
  add_acquire_command(app, run);
  add_release_command(app, run);
  add_reset_command(app, run);
  add_reserve_command(app, run);
  add_settle_command(app, run);
  add_consume_command(app, run);
  add_quota_command(app, run);
  add_usage_command(app, run);
  add_debug_command(app, run);
  add_ping_command(app, run);
  add_bench_command(app, run);
  add_top_command(app, run);
  add_check_config_command(app, run);
  add_state_command(app, run);
  add_import_command(app, run);
  add_export_command(app, run);
  add_completion_command(app, run);
  add_about_commands(app, run);
}

}  // namespace sluice::cli
