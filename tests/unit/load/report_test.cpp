// Goal: the summary warns of everything that makes a run's figures doubtful.
// Method: results by example.
#include "load/report.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "load/counters.hpp"

namespace sluice::load {
namespace {

using sluicegate::Verdict;

struct BenchRun {
  Options options;
  Counters counters;
  Result result{.seconds = 10, .shards = 1, .server_cpu_s = 5};

  BenchRun() { counters.verdicts.add(std::vector(100, Verdict::approved)); }

  bool contains(const std::string& text) {
    result.counters = &counters;
    return summary(options, result).find(text) != std::string::npos;
  }
};

TEST(Summary, of_a_good_run_warns_of_nothing) {
  BenchRun run;
  for (const char* text : {"ERRORS", "WARNING", "bottleneck", "unknown"}) {
    EXPECT_FALSE(run.contains(text)) << text;
  }
}

TEST(Summary, names_the_client_when_it_was_the_bottleneck) {
  BenchRun run;
  run.result.client_cpu_s = 9.9;
  EXPECT_TRUE(run.contains("The client was the bottleneck"));
  run.result.server_cpu_s = 9.9;
  EXPECT_FALSE(run.contains("bottleneck")) << "both are busy";
  run.result.shards = 2;
  EXPECT_TRUE(run.contains("bottleneck")) << "a shard of the server idles";
}

TEST(Summary, counts_refused_and_unanswered_frames) {
  BenchRun run;
  run.counters.verdicts.add_refusal("no room");
  EXPECT_TRUE(run.contains("ERRORS        1 frames refused: no room\n"));
  run.result.unanswered_frames = 3;
  EXPECT_TRUE(run.contains("ERRORS        3 frames unanswered\n"));
}

TEST(Summary, reports_the_page_faults_of_a_known_server) {
  BenchRun run;
  EXPECT_FALSE(run.contains("page faults"));
  run.result.server_page_faults = PageFaults{.minor = 12, .major = 3};
  EXPECT_TRUE(run.contains("page faults   12 minor, 3 major"));
}

TEST(Summary, warns_when_the_denied_share_was_not_met) {
  BenchRun run;
  run.options.denied_share = 0.25;
  EXPECT_TRUE(run.contains("25.0 % asked to be denied, 0.0 % met"));
  run.counters.verdicts.add(std::vector(33, Verdict::denied));
  EXPECT_FALSE(run.contains("asked to be denied"));
}

}  // namespace
}  // namespace sluice::load
