#include "cli/state_files.hpp"

#include <spdlog/fmt/fmt.h>

#include <filesystem>
#include <system_error>

#include "cli/native_server.hpp"

namespace sluice::cli {

void require_state_file(const std::string& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  const char* cause = nullptr;
  switch (status.type()) {
    case std::filesystem::file_type::regular:
    case std::filesystem::file_type::none:
      return;
    case std::filesystem::file_type::not_found:
      cause = "there is no such file";
      break;
    case std::filesystem::file_type::directory:
      cause = "it is a folder";
      break;
    default:
      cause = "it is no regular file";
  }
  throw std::runtime_error(
      fmt::format("{}: {}; name the file that the server has as --state", printable(file), cause));
}

}  // namespace sluice::cli
