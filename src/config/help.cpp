#include "config/help.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "config/pflag.hpp"
#include "config/time_flag.hpp"

namespace sluice::config {

namespace {

// CLI11 leaves two empty lines between groups.
std::string with_single_gaps(std::string text) {
  return CLI::detail::find_and_replace(std::move(text), "\n\n\n", "\n\n");
}

std::string full_name(const CLI::App& app) {
  if (app.get_parent() == nullptr) return app.get_name();
  return full_name(*app.get_parent()) + " " + app.get_name();
}

}  // namespace

// A positional argument that is not shown leaves its brackets.
std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  return CLI::detail::find_and_replace(Formatter::make_usage(app, std::move(name)), " []", "");
}

std::string HelpFormatter::make_hint(const CLI::App& app) const {
  const std::string name = full_name(app);
  return make_usage(&app, name) + "All flags: " + name + " --help\n";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  return with_single_gaps(Formatter::make_help(app, std::move(name), mode));
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  const auto takes_time = [](const CLI::Option* option) { return is_time_flag(*option); };
  const std::string footer = Formatter::make_footer(app);
  // The server's own help has commands in between: its description says it.
  if (app->get_parent() == nullptr) return footer;
  if (std::ranges::none_of(app->get_options(), takes_time)) return footer;
  return std::string{time_note} + (footer.empty() ? "" : "\n" + footer);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  if (is_positional) return Formatter::make_option(option, is_positional);
  // Flags without a short form stand below the long names of those with one.
  std::string name = (option->get_snames().empty() ? "    " : "") + flag_title(*option);
  if (!is_switch(*option)) name += " " + option->get_type_name();
  std::string text = option->get_description();
  if (!option->get_default_str().empty()) {
    text += "\n[default " + option->get_default_str() + "]";
  }
  std::ostringstream line;
  CLI::detail::format_help(line, name, text, get_column_width());
  return line.str();
}

}  // namespace sluice::config
