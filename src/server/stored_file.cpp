#include "server/stored_file.hpp"

#include <stdexcept>

#include "store/value_or_throw.hpp"

namespace sluice::server {
namespace {

// What fails names the flag that the file is from.
template <typename Action>
auto with_flag(Action action) {
  try {
    return action();
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("--state ") + error.what());
  }
}

store::StateReader open(const std::string& path) {
  return value_or_throw(store::StateReader::open(path));
}

StoredContent read_content(const std::string& path) {
  store::StateReader reader = open(path);
  return {path, reader};
}

}  // namespace

StoredFile::StoredFile(const std::string& path)
    : path_(path), content_(with_flag([&] { return read_content(path); })) {}

quota::Restored StoredFile::restore(quota::QuotaDecider& quotas, base::Now now) const {
  return with_flag([&] {
    store::StateReader reader = open(path_);
    return content_.restore(reader, quotas, now);
  });
}

RestoredWindows StoredFile::restore(shard::KeyDecider& keys, const OwnKeys& own,
                                    base::Now now) const {
  return with_flag([&] {
    store::StateReader reader = open(path_);
    return content_.restore(reader, keys, own, now);
  });
}

}  // namespace sluice::server
