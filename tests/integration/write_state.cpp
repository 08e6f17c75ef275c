// Writes a state file as a server does, for the tests of `sluicegate state`:
//   write_state FILE EPOCHS        commits that many epochs, and dies without closing the file
//   write_state FILE EPOCHS hold   prints "ready" then, and goes on committing until stdin ends
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "io/clock.hpp"
#include "store/state_file.hpp"
#include "tests/support/sample_state.hpp"

namespace {

using sluice::store::Result;

void require(const Result<void>& done) {
  if (done) return;
  std::fprintf(stderr, "%s\n", done.error().text.c_str());
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto opened = sluice::store::StateFile::open({.path = argv[1]});
  if (!opened) require(tl::unexpected(opened.error()));
  sluice::store::StateFile& file = **opened;
  file.set_meta(sluice::test::sample_meta);
  const uint64_t count = std::strtoull(argv[2], nullptr, 10);
  uint64_t epoch = file.last_epoch();
  const auto commit = [&] {
    require(sluice::test::commit_sample(file, ++epoch, sluice::io::read_clock().wall_ns));
    require(file.tidy());
  };
  for (uint64_t i = 0; i < count; ++i) commit();
  if (argc == 3) std::_Exit(0);
  std::puts("ready");
  std::fflush(stdout);
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) commit();
  });
  char end = 0;
  while (::read(STDIN_FILENO, &end, 1) > 0) {
  }
  writer.request_stop();
}
