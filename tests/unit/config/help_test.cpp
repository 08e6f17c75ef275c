// --help teaches: every flag stands in its group with bounds, default and variable, in a width that
// a terminal shows. Method: the text of the server's own flags.
#include "config/help.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "config/flags.hpp"

namespace sluice::config {
namespace {

class HelpText : public ::testing::Test {
 protected:
  HelpText() { add_server_flags(app_, config_); }
  Config config_;
  CLI::App app_{"", "sluicegate"};
};

TEST_F(HelpText, shows_bounds_default_and_variable) {
  EXPECT_NE(app_.help().find("  -m, --max-requests N              permits per key and window\n"
                             "                                    [1 to 1000000000, default 100; "
                             "env MAX_REQUESTS]\n"),
            std::string::npos)
      << app_.help();
}

TEST_F(HelpText, shows_the_defaults_that_depend_on_the_machine) {
  for (const char* text :
       {"[1 to 256, default: usable CPUs; env SHARDS]", "default true; env PIN]"}) {
    EXPECT_NE(app_.help().find(text), std::string::npos) << text << "\n" << app_.help();
  }
}

TEST_F(HelpText, names_the_variable_of_every_flag) {
  for (const CLI::Option* option : app_.get_options()) {
    if (option == app_.get_help_ptr() || option == app_.get_version_ptr()) continue;
    const std::string variable = environment_name(option->get_lnames().front());
    EXPECT_NE(app_.help().find("env " + variable + "]"), std::string::npos) << variable;
  }
}

TEST_F(HelpText, has_groups_in_a_fixed_order) {
  size_t last = 0;
  for (const char* group :
       {"Limits of a key", "Listening:", "Running:", "Bounds of", "Time-outs:"}) {
    const size_t found = app_.help().find(std::string("\n") + group);
    ASSERT_NE(found, std::string::npos) << group;
    EXPECT_GT(found, last) << group;
    last = found;
  }
}

TEST_F(HelpText, lists_the_words_that_a_flag_knows) {
  for (const char* text : {"--io auto|uring|epoll", "--log-level DEBUG|INFO|WARN|ERROR",
                           "--log-format json|text|system-default"}) {
    EXPECT_NE(app_.help().find(text), std::string::npos) << text << "\n" << app_.help();
  }
}

TEST_F(HelpText, says_once_how_times_are_written) {
  const std::string note = "A time may have a unit: 500us, 250ms, 10s";
  const size_t found = app_.help().find(note);
  ASSERT_NE(found, std::string::npos);
  EXPECT_EQ(app_.help().find(note, found + 1), std::string::npos);
  CLI::App* command = app_.add_subcommand("acquire", "asks once");
  EXPECT_EQ(command->help().find(note), std::string::npos);
  int timeout_ms = 1;
  command->add_option("--timeout-millis", timeout_ms, "longest wait");
  EXPECT_NE(command->help().find(note), std::string::npos);
}

TEST_F(HelpText, fits_into_a_hundred_columns) {
  std::istringstream lines(app_.help());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST_F(HelpText, leaves_one_empty_line_between_groups) {
  EXPECT_EQ(app_.help().find("\n\n\n"), std::string::npos);
}

TEST_F(HelpText, names_a_subcommand_in_full_and_shows_its_defaults) {
  int cost = 1;
  CLI::App* command = app_.add_subcommand("acquire", "asks once");
  command->add_option("--cost", cost, "permits")->capture_default_str();
  EXPECT_NE(command->help().find("[default 1]"), std::string::npos);
  EXPECT_EQ(HelpFormatter().make_hint(*command),
            "Usage: sluicegate acquire [OPTIONS]\nAll flags: sluicegate acquire --help\n");
}

}  // namespace
}  // namespace sluice::config
