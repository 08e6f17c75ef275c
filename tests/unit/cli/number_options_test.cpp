// Goal: each option of a subcommand that takes a number takes its bounds, and refuses what is one
//       beyond with a text that names them. Method: the commands as main adds them; an option
//       without a row of the table turns the first test red, as does a row without an option.
#include "cli/number_options.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "cli/between.hpp"
#include "cli/commands.hpp"

namespace sluice::cli {
namespace {

// These are numbers of CPUs, which the start compares with those of the machine.
const std::set<std::string> numbers_of_cpus{"--server-cpu", "--client-cpu"};

struct Commands {
  CLI::App app{"", "sluicegate"};
  Run run;

  Commands() { add_commands(app, run); }

  // Subcommands have subcommands of their own.
  std::vector<CLI::App*> all() {
    std::vector<CLI::App*> found{&app};
    for (size_t i = 0; i < found.size(); ++i) {
      for (CLI::App* each : found[i]->get_subcommands([](CLI::App*) { return true; })) {
        found.push_back(each);
      }
    }
    return found;
  }
};

// Calls use(command, option) for each option that takes a number.
template <typename Use>
void for_each_number(Commands& commands, Use use) {
  for (CLI::App* command : commands.all()) {
    for (CLI::Option* option : command->get_options()) {
      const bool takes_number = option->get_type_name() == "N";
      if (!takes_number || numbers_of_cpus.contains(option->get_name())) continue;
      use(command->get_name(), *option);
    }
  }
}

// "": the option takes the text.
std::string complaint(CLI::Option& option, const std::string& text) {
  option.clear();
  option.add_result(text);
  try {
    option.run_callback();
    return "";
  } catch (const CLI::ValidationError& error) {
    return error.what();
  }
}

std::string text_of(uint64_t number) {
  return std::to_string(number);
}

// With so many digits that the next double has another text.
std::string text_of(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

std::vector<std::string> beyond(const NumberOption& row) {
  const std::string below = row.min == 0 ? "-1" : text_of(row.min - 1);
  return {below, text_of(row.max + 1), std::string(30, '9')};
}

std::vector<std::string> beyond(const RealOption& row) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {text_of(std::nextafter(row.min, -infinity)), text_of(std::nextafter(row.max, infinity)),
          "inf", "nan"};
}

template <typename Number>
void check_bounds(CLI::Option& option, const OptionBounds<Number>& row) {
  EXPECT_EQ(complaint(option, text_of(row.min)), "");
  EXPECT_EQ(complaint(option, text_of(row.max)), "");
  for (const std::string& text : beyond(row)) {
    EXPECT_EQ(complaint(option, text),
              option.get_name() + ": must be " + bounds_text(row) + ", not " + text);
  }
}

// A text of help that ends with bounds has those of the row. False: it ends without.
template <typename Number>
bool check_help(CLI::Option& option, const OptionBounds<Number>& row) {
  std::smatch found;
  const std::string help = option.get_description();
  static const std::regex bounds{R"(; ([0-9.]+ to [0-9.]+)$)"};
  if (!std::regex_search(help, found, bounds)) return false;
  EXPECT_EQ(found[1].str(), bounds_text(row));
  return true;
}

template <typename Check>
void check_each(Check check) {
  Commands commands;
  for_each_number(commands, [&](const std::string& command, CLI::Option& option) {
    SCOPED_TRACE(command + " " + option.get_name());
    const std::string name = option.get_name();
    if (const auto* row = find_option<uint64_t>(number_options, command, name)) {
      check(option, *row);
    } else if (const auto* real = find_option<double>(real_options, command, name)) {
      check(option, *real);
    } else {
      ADD_FAILURE() << "it has no row";
    }
  });
}

TEST(NumberOptions, take_their_bounds_and_refuse_one_beyond) {
  check_each([](CLI::Option& option, const auto& row) { check_bounds(option, row); });
}

TEST(NumberOptions, have_their_bounds_in_the_help) {
  size_t checked = 0;
  check_each([&](CLI::Option& option, const auto& row) {
    if (check_help(option, row)) ++checked;
  });
  EXPECT_GT(checked, 20U);
}

TEST(NumberOptions, are_those_of_the_table) {
  std::set<const void*> used;
  Commands commands;
  for_each_number(commands, [&](const std::string& command, CLI::Option& option) {
    used.insert(find_option<uint64_t>(number_options, command, option.get_name()));
    used.insert(find_option<double>(real_options, command, option.get_name()));
  });
  for (const auto& row : number_options) EXPECT_TRUE(used.contains(&row)) << row.name;
  for (const auto& row : real_options) EXPECT_TRUE(used.contains(&row)) << row.name;
}

// check-config explains what a server with the same flags does.
TEST(NumberOptions, of_check_config_have_the_bounds_of_the_flags) {
  Commands commands;
  CLI::App* command = commands.app.get_subcommand("check-config");
  const auto* window = find_option<uint64_t>(number_options, "check-config", "--window-millis");
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->max, static_cast<uint64_t>(limits::default_window_ms_max));
  EXPECT_EQ(complaint(*command->get_option("--window-millis"), text_of(window->max)), "");
}

}  // namespace
}  // namespace sluice::cli
