// Whatever a database has, it is read or has complaints, and stays as it is. What was read is the
// same when it is written in both formats and read again.
// Shape:  the input is a database, which begins with an 'S'; or another byte, a database and its
//         FILE-wal, and the byte is the share of the database in both, in 256ths.
#include "fuzz/go_ratelimit_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  static const fuzz::Files files;
  const bool has_log = size > 1 && data[0] != 'S';
  size_t bytes = size;
  if (has_log) {
    bytes = (size - 1) * data[0] / 256;
    ++data;
    files.write_log(data + bytes, size - 1 - bytes);
  }
  files.write_input(data, bytes);
  fuzz::check(files, transfer::read_go_ratelimit_sqlite(files.input()));
  files.remove_log();
  return 0;
}
