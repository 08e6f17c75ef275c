#include "tests/support/source_folder.hpp"

namespace sluice::test {

std::filesystem::path source_folder() {
  return SLUICE_SOURCE_FOLDER;
}

}  // namespace sluice::test
