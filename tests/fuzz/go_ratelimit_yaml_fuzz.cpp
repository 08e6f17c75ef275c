// Whatever a YAML file has, it is read or has complaints, each with a place. What was read is the
// same when it is written in both formats and read again.
#include "fuzz/go_ratelimit_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  static const fuzz::Files files;
  files.write_input(data, size);
  fuzz::check(files, transfer::read_go_ratelimit_yaml(files.input()));
  return 0;
}
