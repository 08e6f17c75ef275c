#include "config/help.hpp"

#include <iomanip>
#include <sstream>

#include "config/pflag.hpp"

namespace sluice::config {

std::string HelpFormatter::make_short_help(const CLI::App& app) const {
  return make_usage(&app, app.get_display_name(true)) + make_positionals(&app) +
         make_groups(&app, CLI::AppFormatMode::Normal);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  if (is_positional) return Formatter::make_option(option, is_positional);
  // Flags without a short form stand below the long names of those with one.
  std::string name = (option->get_snames().empty() ? "    " : "") + flag_title(*option);
  if (!is_switch(*option)) name += " " + option->get_type_name();
  std::ostringstream line;
  CLI::detail::format_help(line, name, option->get_description(), get_column_width());
  return line.str();
}

}  // namespace sluice::config
