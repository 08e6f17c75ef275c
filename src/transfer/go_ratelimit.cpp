#include "transfer/go_ratelimit.hpp"

#include <string_view>

#include "transfer/file_bytes.hpp"

namespace sluice::transfer {

Complained<GoRatelimitFormat> go_ratelimit_format(const std::string& path) {
  constexpr std::string_view magic{"SQLite format 3\0", 16};
  const Complained<std::string> begin = read_begin(path, magic.size());
  if (!begin) return tl::unexpected(begin.error());
  return *begin == magic ? GoRatelimitFormat::sqlite : GoRatelimitFormat::yaml;
}

Complained<GoRatelimitFile> read_go_ratelimit(const std::string& path) {
  const Complained<GoRatelimitFormat> format = go_ratelimit_format(path);
  if (!format) return tl::unexpected(format.error());
  return *format == GoRatelimitFormat::sqlite ? read_go_ratelimit_sqlite(path)
                                              : read_go_ratelimit_yaml(path);
}

}  // namespace sluice::transfer
