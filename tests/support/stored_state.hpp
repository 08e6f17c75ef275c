// Cuts that own their bytes, and the whole content of a state file to compare with.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/state_reader.hpp"
#include "store/state_store.hpp"

namespace sluice::test {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class OwnedCut {
 public:
  OwnedCut(uint64_t epoch, uint32_t shard) : epoch_(epoch), shard_(shard) {}

  OwnedCut& part(uint8_t kind, std::string bytes) {
    parts_.push_back({.kind = kind, .bytes = as_bytes(keep(std::move(bytes)))});
    return *this;
  }
  OwnedCut& quota_class(uint64_t id, std::string quota) {
    classes_.push_back({.id = id, .quota = keep(std::move(quota))});
    return *this;
  }
  OwnedCut& put(std::string name, std::string quota, int64_t put_at) {
    const std::string_view kept = keep(std::move(name));
    changes_.push_back({.name = kept, .quota = keep(std::move(quota)), .put_at = put_at});
    return *this;
  }
  OwnedCut& remove(std::string name) {
    changes_.push_back({.name = keep(std::move(name)), .quota = std::nullopt});
    return *this;
  }
  OwnedCut& needed_from(uint64_t epoch) {
    needed_from_ = epoch;
    return *this;
  }

  OwnedCut& windows_needed_from(uint64_t epoch) {
    windows_needed_from_ = epoch;
    return *this;
  }

  store::ShardCut view() const {
    return {.epoch = epoch_,
            .shard = shard_,
            .parts = parts_,
            .records_count = parts_.size(),
            .quota_classes = classes_,
            .quota_changes = changes_,
            .needed_from_epoch = needed_from_,
            .windows_needed_from_epoch = windows_needed_from_};
  }

 private:
  std::string_view keep(std::string text) {
    return *texts_.emplace_back(std::make_shared<const std::string>(std::move(text)));
  }

  uint64_t epoch_;
  uint32_t shard_;
  uint64_t needed_from_ = 0;
  uint64_t windows_needed_from_ = 0;
  std::vector<std::shared_ptr<const std::string>> texts_;  // a copy of the cut shares them
  std::vector<store::Part> parts_;
  std::vector<store::QuotaClass> classes_;
  std::vector<store::QuotaChange> changes_;
};

// One cut as a whole batch.
inline store::Result<void> commit_one(store::StateStore& store, const OwnedCut& cut,
                                      uint64_t delete_before_epoch = 0) {
  const store::ShardCut view = cut.view();
  return store.commit(
      {.epoch = view.epoch, .cuts = {&view, 1}, .delete_before_epoch = delete_before_epoch});
}

struct OwnedPart {
  uint64_t epoch = 0;
  uint32_t shard = 0;
  uint8_t kind = 0;
  std::string bytes;
  bool operator==(const OwnedPart&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const OwnedPart& part) {
  return out << "{epoch " << part.epoch << ", shard " << part.shard << ", kind " << int{part.kind}
             << ", " << part.bytes.substr(0, 40) << " (" << part.bytes.size() << " bytes)}";
}

struct Content {
  std::vector<OwnedPart> parts;  // the newest first
  std::vector<store::StoredQuota> quotas;
  std::vector<store::StoredClass> classes;
  std::vector<store::StoredMeta> meta;
  bool operator==(const Content&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Content& content) {
  out << "parts";
  for (const OwnedPart& part : content.parts) out << ' ' << part;
  out << ", quotas";
  for (const auto& quota : content.quotas) out << ' ' << quota.name << '=' << quota.quota;
  out << ", classes";
  for (const auto& quota : content.classes) out << ' ' << quota.id << '=' << quota.quota;
  out << ", meta";
  for (const auto& value : content.meta) out << ' ' << value.key << '=' << value.value;
  return out;
}

inline std::vector<OwnedPart> read_parts(store::StateReader& reader) {
  std::vector<OwnedPart> parts;
  while (true) {
    const auto part = reader.next_part();
    EXPECT_TRUE(part) << part.error().text;
    if (!part || !*part) return parts;
    parts.push_back({(*part)->epoch, (*part)->shard, (*part)->kind, as_text((*part)->bytes)});
  }
}

inline Content read_content(const std::string& path, const char* vfs = nullptr) {
  auto reader = store::StateReader::open(path, vfs);
  EXPECT_TRUE(reader) << reader.error().text;
  if (!reader) return {};
  return {.parts = read_parts(*reader),
          .quotas = reader->run_time_quotas().value(),
          .classes = reader->quota_classes().value(),
          .meta = reader->meta().value()};
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace sluice::test
