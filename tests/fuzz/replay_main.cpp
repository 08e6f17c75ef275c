// Runs a fuzz target's body once over every file of its corpus, where no libFuzzer is: so each test
// run repeats what fuzzing has found.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// An exact-sized copy on the heap, so that a sanitizer sees a read past its end.
void replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> content(std::istreambuf_iterator<char>(file), {});
  const std::vector<uint8_t> bytes(content.begin(), content.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int arguments_count, char** arguments) {
  if (arguments_count < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY...\n", arguments[0]);
    return 2;
  }
  size_t files_count = 0;
  for (int index = 1; index < arguments_count; ++index) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[index])) {
      if (!entry.is_regular_file()) continue;
      replay(entry.path());
      ++files_count;
    }
  }
  std::printf("%zu corpus files replayed\n", files_count);
  return files_count == 0 ? 1 : 0;
}
