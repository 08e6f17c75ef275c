// What Go's pflag accepts has to reach CLI11 in a form that it understands, and what pflag refuses
// has to be refused. Method: an App with a few flags; the normalised arguments are compared.
#include "config/pflag.hpp"

#include <gtest/gtest.h>

namespace sluice::config {
namespace {

using Words = std::vector<std::string>;

class Pflag : public ::testing::Test {
 protected:
  Pflag() {
    app_.add_flag("-r,--rate", rate_);
    app_.add_flag("-q,--quiet", quiet_);
    app_.add_option("-m,--max-requests", max_requests_);
    app_.add_option("--name", name_);
    CLI::App* command = app_.add_subcommand("acquire");
    command->add_option("key", key_);
    command->add_option("--cost", cost_);
  }

  Words normalised(const Words& arguments) { return normalise(app_, arguments); }

  std::string refusal(const Words& arguments) {
    try {
      normalise(app_, arguments);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app_{"about", "sluicegate"};
  bool rate_ = true;
  bool quiet_ = false;
  int max_requests_ = 0;
  int cost_ = 0;
  std::string name_;
  std::string key_;
};

TEST_F(Pflag, passes_a_value_behind_an_equals_sign) {
  EXPECT_EQ(normalised({"--max-requests=7"}), (Words{"--max-requests", "7"}));
}

TEST_F(Pflag, passes_a_value_of_its_own_word) {
  EXPECT_EQ(normalised({"--max-requests", "7"}), (Words{"--max-requests", "7"}));
}

TEST_F(Pflag, splits_a_short_flag_from_its_value) {
  for (const Words& form : {Words{"-m7"}, Words{"-m=7"}, Words{"-m", "7"}}) {
    EXPECT_EQ(normalised(form), (Words{"--max-requests", "7"})) << form.front();
  }
}

TEST_F(Pflag, splits_flags_that_share_a_dash) {
  EXPECT_EQ(normalised({"-rqm7"}), (Words{"--rate=true", "--quiet=true", "--max-requests", "7"}));
}

TEST_F(Pflag, gives_a_switch_in_a_cluster_its_word) {
  EXPECT_EQ(normalised({"-qr=F"}), (Words{"--quiet=true", "--rate=false"}));
}

TEST_F(Pflag, takes_an_equals_sign_alone_for_the_value) {
  EXPECT_EQ(normalised({"-m="}), (Words{"--max-requests", "="}));
}

TEST_F(Pflag, takes_a_word_like_a_flag_for_a_value) {
  EXPECT_EQ(normalised({"--max-requests", "-5"}), (Words{"--max-requests", "-5"}));
  EXPECT_EQ(normalised({"--name", "--rate"}), (Words{"--name", "--rate"}));
}

TEST_F(Pflag, keeps_an_empty_value) {
  EXPECT_EQ(normalised({"--name=", "-r"}), (Words{"--name", "", "--rate=true"}));
}

TEST_F(Pflag, keeps_an_equals_sign_inside_a_value) {
  EXPECT_EQ(normalised({"--name=a=b"}), (Words{"--name", "a=b"}));
}

TEST_F(Pflag, knows_every_word_of_a_switch) {
  for (const char* word : {"1", "t", "T", "TRUE", "true", "True"}) {
    EXPECT_EQ(normalised({std::string("--rate=") + word}), Words{"--rate=true"}) << word;
    EXPECT_EQ(normalised({std::string("-r=") + word}), Words{"--rate=true"}) << word;
  }
  for (const char* word : {"0", "f", "F", "FALSE", "false", "False"}) {
    EXPECT_EQ(normalised({std::string("--rate=") + word}), Words{"--rate=false"}) << word;
    EXPECT_EQ(normalised({std::string("-r=") + word}), Words{"--rate=false"}) << word;
  }
}

TEST_F(Pflag, refuses_other_words_of_a_switch) {
  for (const char* word : {"", "yes", "no", "on", "off", "tRUE", "2", "-1", " true"}) {
    EXPECT_EQ(refusal({std::string("--rate=") + word}),
              "invalid argument \"" + std::string(word) +
                  "\" for \"-r, --rate\" flag: a switch is true or false");
  }
}

TEST_F(Pflag, refuses_a_word_behind_a_switch) {
  EXPECT_EQ(refusal({"--rate", "false"}),
            "unexpected argument \"false\" (a switch takes its value with '=': --rate=false)");
  EXPECT_EQ(refusal({"-r", "x"}), "unexpected argument \"x\"");
}

TEST_F(Pflag, refuses_any_positional_argument) {
  EXPECT_EQ(refusal({"7"}), "unexpected argument \"7\"");
  EXPECT_EQ(refusal({"-"}), "unexpected argument \"-\"");
  EXPECT_EQ(refusal({"--", "--rate"}), "unexpected argument \"--rate\"");
}

TEST_F(Pflag, accepts_a_terminator_with_nothing_behind) {
  EXPECT_EQ(normalised({"-r", "--"}), Words{"--rate=true"});
}

TEST_F(Pflag, refuses_unknown_flags) {
  EXPECT_EQ(refusal({"--zzzz"}), "unknown flag: --zzzz");
  EXPECT_EQ(refusal({"--zzzz=1"}), "unknown flag: --zzzz");
  EXPECT_EQ(refusal({"-rx"}), "unknown shorthand flag: 'x' in -rx");
  EXPECT_EQ(refusal({"---rate"}), "bad flag syntax: ---rate");
  EXPECT_EQ(refusal({"--rat"}), "unknown flag: --rat; did you mean --rate?");
  EXPECT_EQ(refusal({"--maxrequest=1"}),
            "unknown flag: --maxrequest; did you mean --max-requests?");
  EXPECT_EQ(refusal({"--=1"}), "bad flag syntax: --=1");
}

TEST_F(Pflag, names_the_nearest_command) {
  EXPECT_EQ(refusal({"aquire", "user-1"}), "unexpected argument \"aquire\"; did you mean acquire?");
  EXPECT_EQ(refusal({"acqurie"}), "unexpected argument \"acqurie\"; did you mean acquire?");
  EXPECT_EQ(refusal({"ping"}), "unexpected argument \"ping\"");
}

TEST_F(Pflag, takes_a_time_with_a_unit) {
  app_.add_option("--drain-millis", cost_);
  EXPECT_EQ(normalised({"--drain-millis=2s"}), (Words{"--drain-millis", "2000"}));
  EXPECT_NE(refusal({"--drain-millis", "2x"}).find("a time such as"), std::string::npos);
}

TEST_F(Pflag, refuses_a_flag_without_its_value) {
  EXPECT_EQ(refusal({"--max-requests"}), "flag needs an argument: --max-requests");
  EXPECT_EQ(refusal({"-rm"}), "flag needs an argument: 'm' in -rm");
}

TEST_F(Pflag, lets_help_stand_alone) {
  EXPECT_EQ(normalised({"-m", "0", "--help", "-r"}), Words{"--help"});
  EXPECT_EQ(normalised({"-rh"}), Words{"--help"});
  EXPECT_EQ(normalised({"--help=false", "-r"}), Words{"--rate=true"});
  EXPECT_EQ(refusal({"--help", "--zzzz"}), "unknown flag: --zzzz");
}

TEST_F(Pflag, descends_into_a_subcommand) {
  EXPECT_EQ(normalised({"-r", "acquire", "user-1", "--cost=2", "--", "-x"}),
            (Words{"--rate=true", "acquire", "user-1", "--cost", "2", "--", "-x"}));
  EXPECT_EQ(normalised({"acquire", "--help"}), (Words{"acquire", "--help"}));
  EXPECT_EQ(refusal({"acquire", "--max-requests=1"}), "unknown flag: --max-requests");
}

TEST(Integer, reads_the_forms_of_go) {
  const std::pair<const char*, int64_t> cases[] = {
      {"0", 0},
      {"7", 7},
      {"+7", 7},
      {"-7", -7},
      {"1_000_000", 1'000'000},
      {"0x1F", 31},
      {"0Xff", 255},
      {"0b101", 5},
      {"0B1", 1},
      {"0o17", 15},
      {"0O7", 7},
      {"017", 15},
      {"0_17", 15},
      {"0x_f", 15},
      {"-0x10", -16},
      {"00", 0},
      {"9223372036854775807", INT64_MAX},
      {"-9223372036854775808", INT64_MIN},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(parse_integer(text), value) << text;
}

TEST(Integer, refuses_the_forms_that_go_refuses) {
  for (const char* text : {"", "-", "+", "--7", "abc", "7x", "1.0", "1e3", " 7", "7 ", "_7", "7_",
                           "1__0", "0x", "0b2", "08", "0xg", "\u0663"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(Integer, stays_at_the_end_of_its_range) {
  EXPECT_EQ(parse_integer("9223372036854775808"), INT64_MAX);
  EXPECT_EQ(parse_integer("99999999999999999999999"), INT64_MAX);
  EXPECT_EQ(parse_integer("-9223372036854775809"), INT64_MIN);
  EXPECT_EQ(parse_integer("99999999999999999999999x"), std::nullopt);
}

}  // namespace
}  // namespace sluice::config
