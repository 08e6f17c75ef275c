#include "server/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace sluice::server {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = spdlog::stdout_logger_mt("sluicegate");
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ",%v})", spdlog::pattern_time_type::utc));
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

void log(spdlog::level::level_enum level, const char* level_name, const std::string& message,
         const LogFields& fields) {
  LogFields line{{"level", level_name}, {"message", message}};
  line.update(fields);
  // The formatter writes the opening brace, the time and the closing brace.
  const std::string text = line.dump(-1, ' ', false, LogFields::error_handler_t::replace);
  logger().log(level, "{}", std::string_view(text).substr(1, text.size() - 2));
}

}  // namespace

void log_info(const std::string& message, const LogFields& fields) {
  log(spdlog::level::info, "INFO", message, fields);
}

void log_warning(const std::string& message, const LogFields& fields) {
  log(spdlog::level::warn, "WARN", message, fields);
}

void log_error(const std::string& message, const LogFields& fields) {
  log(spdlog::level::err, "ERROR", message, fields);
}

}  // namespace sluice::server
