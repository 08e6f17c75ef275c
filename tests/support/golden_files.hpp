// The golden files of proto/golden: the `capnp` tool's bytes of a message, and its meaning.
// Shape:  NAME.bin is a frame; NAME.json holds note, root and either message or error and id
//         (tools/golden).
// Lives:  read once per program; frames are 8-byte aligned.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/source_folder.hpp"

namespace sluice::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// A copy of bytes that begins at a multiple of eight, as a connection's input does.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::string_view bytes)
      : words_((bytes.size() + 7) / 8), bytes_count_(bytes.size()) {
    if (!bytes.empty()) std::memcpy(words_.data(), bytes.data(), bytes.size());
  }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words_)).first(bytes_count_);
  }

 private:
  std::vector<uint64_t> words_;
  size_t bytes_count_;
};

struct Golden {
  std::string name;
  AlignedBytes frame;
  nlohmann::json json;

  std::span<const std::byte> bytes() const { return frame.bytes(); }
  bool is_refused() const { return json.contains("error"); }
  std::string error() const { return json.at("error"); }
};

inline const std::filesystem::path& golden_directory() {
  static const std::filesystem::path directory = source_folder() / "proto" / "golden";
  return directory;
}

inline std::vector<Golden> read_golden_frames(const std::string& root) {
  std::vector<Golden> frames;
  for (const auto& entry : std::filesystem::directory_iterator(golden_directory())) {
    if (entry.path().extension() != ".bin") continue;
    auto json = nlohmann::json::parse(
        read_file(std::filesystem::path(entry.path()).replace_extension(".json")));
    if (json.at("root") != root) continue;
    frames.push_back(
        {entry.path().stem().string(), AlignedBytes(read_file(entry.path())), std::move(json)});
  }
  if (frames.empty()) throw std::runtime_error("no golden frames of " + root);
  std::sort(frames.begin(), frames.end(),
            [](const Golden& left, const Golden& right) { return left.name < right.name; });
  return frames;
}

// All frames of `root` ("ClientFrame" or "ServerFrame"), by name.
inline const std::vector<Golden>& golden_frames(const std::string& root) {
  static const std::vector<Golden> client_frames = read_golden_frames("ClientFrame");
  static const std::vector<Golden> server_frames = read_golden_frames("ServerFrame");
  return root == "ClientFrame" ? client_frames : server_frames;
}

inline const Golden& golden_frame(const std::string& root, const std::string& name) {
  for (const Golden& golden : golden_frames(root)) {
    if (golden.name == name) return golden;
  }
  throw std::runtime_error("no golden frame " + name);
}

}  // namespace sluice::test
