#include "server/stored_file.hpp"

#include <stdexcept>
#include <utility>

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
  store::Result<store::StateReader> reader = store::StateReader::open(path);
  if (!reader) throw std::runtime_error(reader.error().text);
  return std::move(*reader);
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
