// Files for the readers that are fuzzed, in memory where the system has such a folder.
#pragma once

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/assert.hpp"
#include "transfer/go_ratelimit.hpp"

namespace sluice::fuzz {

class Files {
 public:
  Files() {
    std::string name = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    name += "/sluicegate_fuzz.XXXXXX";
    ASSERT(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~Files() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  std::string input() const { return folder_ + "/input"; }
  std::string output() const { return folder_ + "/output"; }

  void write_input(const uint8_t* data, size_t size) const { write(input(), data, size); }
  void write_log(const uint8_t* data, size_t size) const { write(input() + "-wal", data, size); }
  void remove_log() const { std::filesystem::remove(input() + "-wal"); }

 private:
  static void write(const std::string& path, const uint8_t* data, size_t size) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  }

  std::string folder_;
};

using Read = transfer::Complained<transfer::GoRatelimitFile> (*)(const std::string&);
using Write = transfer::Complained<void> (*)(const std::string&, const transfer::GoRatelimitFile&);

inline void check_again(const Files& files, const transfer::GoRatelimitFile& file, Write write,
                        Read read) {
  if (!write(files.output(), file)) {
    ASSERT(write == &transfer::write_go_ratelimit_yaml);  // not every name can be YAML
    return;
  }
  const auto again = read(files.output());
  std::filesystem::remove(files.output());
  ASSERT(again);
  ASSERT(*again == file);
}

inline void check(const Files& files, const transfer::Complained<transfer::GoRatelimitFile>& file) {
  if (!file) {
    ASSERT(!file.error().empty());
    ASSERT(file.error().size() <= transfer::go_ratelimit_complaints_max + 1);
    for (const transfer::Complaint& complaint : file.error()) ASSERT(!complaint.text.empty());
    return;
  }
  check_again(files, *file, &transfer::write_go_ratelimit_yaml, &transfer::read_go_ratelimit_yaml);
  check_again(files, *file, &transfer::write_go_ratelimit_sqlite,
              &transfer::read_go_ratelimit_sqlite);
}

}  // namespace sluice::fuzz
