// The server's flags as one table: names, bounds, field, help, and who notices the flag.
// Flow:   flags.cpp reads command line and environment by it; --help, the tests of bounds
//         (flags_test.cpp) and of effects (tests/integration/flags_have_effect_test.py) follow it.
// Shape:  in the order of --help. A flag's default is that of its field, unless the row has a text
//         for it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/limits.hpp"
#include "config/config.hpp"

namespace sluice::config {

// ------------------------------------------------------------------------- kinds of values

struct NumberFlag {
  std::variant<uint16_t Config::*, uint32_t Config::*> field;
  int64_t min;
  int64_t max;
};

struct SwitchFlag {
  bool Config::*field;
};

// As it is given.
struct TextFlag {
  std::string Config::*field;
  std::string_view type;  // as --help calls it
};

struct AddressFlag {
  std::string Config::*field;
};

// All given values together.
struct ListFlag {
  std::string Config::*field;
  std::string_view type;
};

// A word that the flag knows, in any case.
template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};

template <typename Value, typename Known = Value>
struct ChoiceFlag {
  Value Config::*field;
  std::span<const Choice<Known>> choices;
};

using IoFlag = ChoiceFlag<base::IoBackend>;
using LogFormatFlag = ChoiceFlag<log::Format>;
using LogLevelFlag = ChoiceFlag<log::Level>;
using PeerFailureFlag = ChoiceFlag<base::PeerFailure>;
using ServerTypeFlag = ChoiceFlag<std::string, const char*>;

// ------------------------------------------------------------------------------- the rows

// Where a flag's effect is to be seen: on a listener or in its dialect, or of the process
// (threads, log, start). Flags of connections have an effect over HTTP/2 of its own, since there
// streams wait, end and are counted beside the connection.
enum class Seen : uint8_t {
  process,
  rest,
  native,
  both,
  rest_connections,  // over HTTP/1.1 and HTTP/2
  connections,       // these, and native ones
};

enum class FlagGroup : uint8_t { keys, listening, running, fleet, state, log, bounds, times };

inline constexpr std::array<const char*, 8> group_titles{
    "Limits of a key without its own",
    "Listening",
    "Running",
    "Several instances with common limits",
    "What survives a restart (docs/state.md)",
    "Log (to stdout; system-default: to stderr)",
    "Bounds of the whole process (beyond them: a clear refusal)",
    "Time-outs"};

struct Flag {
  FlagGroup group;
  std::string_view names;  // in CLI11's notation
  std::variant<NumberFlag, SwitchFlag, TextFlag, AddressFlag, ListFlag, IoFlag, LogFormatFlag,
               LogLevelFlag, PeerFailureFlag, ServerTypeFlag>
      value;
  Seen seen;
  std::string_view help;
  std::string_view default_text = {};  // empty: made of the field's

  // "max-requests"
  constexpr std::string_view name() const noexcept { return names.substr(names.find("--") + 2); }
  // 'm'; 0: none
  constexpr char short_name() const noexcept { return names[1] == '-' ? '\0' : names[1]; }
};

inline constexpr std::array<Choice<base::IoBackend>, 3> backends{
    {{"auto", base::IoBackend::automatic},
     {"uring", base::IoBackend::uring},
     {"epoll", base::IoBackend::epoll}}};

inline constexpr std::array<Choice<log::Format>, 3> log_formats{
    {{"json", log::Format::json},
     {"text", log::Format::text},
     {"system-default", log::Format::system_default}}};

consteval Choice<log::Level> choice_of(log::Level level) {
  return {log::level_name(level), level};
}

inline constexpr std::array<Choice<log::Level>, 4> log_levels{
    choice_of(log::Level::debug), choice_of(log::Level::info), choice_of(log::Level::warning),
    choice_of(log::Level::error)};

inline constexpr std::array<Choice<base::PeerFailure>, 4> peer_failures{
    {{"error", base::PeerFailure::error},
     {"closed", base::PeerFailure::closed},
     {"local", base::PeerFailure::local},
     {"open", base::PeerFailure::open}}};

inline constexpr std::array<Choice<const char*>, 3> server_types{
    {{"echo", "echo"}, {"echo-http2", "echo-http2"}, {"fast", "fast"}}};

inline constexpr std::array<Flag, 41> flag_table{{
    {FlagGroup::keys, "-m,--max-requests",
     NumberFlag{&Config::max_requests, 1, limits::permits_max}, Seen::both,
     "permits per key and window"},
    {FlagGroup::keys, "--max-requests-in-queue",
     NumberFlag{&Config::max_requests_in_queue, 0, limits::queue_max}, Seen::both,
     "requests that may wait in a key's queue; 0: none"},
    {FlagGroup::keys, "-w,--window-millis",
     NumberFlag{&Config::window_ms, limits::window_ms_min, limits::default_window_ms_max},
     Seen::both, "length of a window, in milliseconds"},
    {FlagGroup::keys, "--max-wait-millis", NumberFlag{&Config::max_wait_ms, 0, limits::wait_ms_max},
     Seen::connections, "longest wait; a longer one is denied; 0: no limit"},
    {FlagGroup::keys, "-r,--requests-can-set-rate", SwitchFlag{&Config::requests_can_set_rate},
     Seen::both, "requests may bring their own maxRequests"},
    {FlagGroup::keys, "--requests-can-mod-queue", SwitchFlag{&Config::requests_can_mod_queue},
     Seen::both, "requests may bring their own maxRequestsInQueue"},
    {FlagGroup::keys, "--requests-can-set-window", SwitchFlag{&Config::requests_can_set_window},
     Seen::both, "requests may bring their own windowMillis"},
    {FlagGroup::keys, "-c,--config-file", TextFlag{&Config::config_file, "FILE"}, Seen::both,
     "JSON: keys and subjects of quotas have limits of\ntheir own, by pattern; "
     "check-config checks it.\nChanges are followed; SIGHUP has it read at once",
     "default none"},
    {FlagGroup::keys, "--profiles", TextFlag{&Config::profiles, "DIR"}, Seen::both,
     "folder of the profiles that the configuration file names"},

    {FlagGroup::listening, "--bind", AddressFlag{&Config::bind}, Seen::both,
     "IPv4 or IPv6 address to listen on, or localhost", "default all interfaces"},
    {FlagGroup::listening, "-p,--port", NumberFlag{&Config::port, 0, 65'535}, Seen::rest,
     "REST (HTTP/1.1 and HTTP/2); 0: any free one"},
    {FlagGroup::listening, "--native-port", NumberFlag{&Config::native_port, 0, 65'535},
     Seen::native, "native protocol; 0: any free one"},

    {FlagGroup::running, "--shards", NumberFlag{&Config::shards, 1, limits::shards_max}, Seen::both,
     "shards, each with a worker thread", "default: usable CPUs"},
    {FlagGroup::running, "--pin", SwitchFlag{&Config::pin}, Seen::process,
     "shard i stays on the i-th usable CPU; off by itself\n"
     "where CPUs are fewer than shards, or under a CPU quota"},
    {FlagGroup::running, "--io", IoFlag{&Config::io, backends}, Seen::process,
     "auto takes io_uring where the kernel allows it", "default auto"},
    {FlagGroup::running, "-s,--server-type", ServerTypeFlag{&Config::server_type, server_types},
     Seen::rest, "echo: without HTTP/2, as in gocc; fast is as echo-http2", "default echo-http2"},

    {FlagGroup::fleet, "-i,--instance-urls", ListFlag{&Config::instance_urls, "URLS"}, Seen::both,
     "all instances, this one included, in the same order on\n"
     "each: http://a:8080,http://b:8080. Every key has one owner\n"
     "among them, which counts for all",
     "default empty: this one is alone"},
    {FlagGroup::fleet, "--own-url", TextFlag{&Config::own_url, "URL"}, Seen::both,
     "which of --instance-urls this one is; needed only where\n"
     "neither host name nor addresses show it",
     "default: it is found"},
    {FlagGroup::fleet, "--peer-failure", PeerFailureFlag{&Config::peer_failure, peer_failures},
     Seen::both,
     "answer where a key's owner is lost: a 502; a denial; what\n"
     "this one decides by its own counts; or an approval that\n"
     "nobody counts",
     "default error"},
    {FlagGroup::fleet, "--peer-timeout-millis",
     NumberFlag{&Config::peer_timeout_ms, 10, limits::peer_timeout_ms_max}, Seen::both,
     "longest wait for the owner's answer to a request that\n"
     "may not wait itself; the same for all instances"},
    {FlagGroup::fleet, "--peer-silence-millis", NumberFlag{&Config::peer_silence_ms, 100, 60'000},
     Seen::both, "an instance that owes an answer and sends nothing for\nso long is lost"},
    {FlagGroup::fleet, "--peer-secret-file", TextFlag{&Config::peer_secret_file, "FILE"},
     Seen::both,
     "one line of 16 to 256 bytes, the same for all instances,\n"
     "by which they know each other",
     "default none"},

    {FlagGroup::state, "--state", TextFlag{&Config::state, "FILE"}, Seen::process,
     "SQLite: quotas put at run time, usage, reservations and\n"
     "leases are kept in it; made if it is not there",
     "default none: nothing is kept"},
    {FlagGroup::state, "--state-sync-millis", NumberFlag{&Config::state_sync_ms, 10, 60'000},
     Seen::process,
     "between two commits of the file: a crash loses what is\n"
     "younger; it is longer while very many subjects change"},
    {FlagGroup::state, "--state-window-millis", NumberFlag{&Config::state_window_ms, 0, 86'400'000},
     Seen::process,
     "windows of keys that last so long, or longer, are kept,\n"
     "too; a crash loses the last 10 s of them; 0: none"},

    {FlagGroup::log, "-l,--log-format", LogFormatFlag{&Config::log_format, log_formats},
     Seen::process, "the form of a line", "default json"},
    {FlagGroup::log, "--log-level", LogLevelFlag{&Config::log_level, log_levels}, Seen::process,
     "lines of lower levels are left out", "default INFO"},
    {FlagGroup::log, "--log-includes-source", SwitchFlag{&Config::log_includes_source},
     Seen::process, "name the source file and line (not system-default)"},
    {FlagGroup::log, "--log2xx", SwitchFlag{&Config::log_2xx}, Seen::rest_connections,
     "a line for every REST request answered 2xx"},
    {FlagGroup::log, "--log4xx", SwitchFlag{&Config::log_4xx}, Seen::rest_connections,
     "likewise 4xx, and waiters of clients that left"},
    {FlagGroup::log, "--log5xx", SwitchFlag{&Config::log_5xx}, Seen::rest_connections,
     "likewise 5xx"},

    {FlagGroup::bounds, "--max-keys", NumberFlag{&Config::max_keys, 1, 1'000'000'000}, Seen::both,
     "most keys in memory"},
    {FlagGroup::bounds, "--max-key-bytes",
     NumberFlag{&Config::max_key_bytes, 1, limits::key_bytes_max}, Seen::both, "length of a key"},
    {FlagGroup::bounds, "--max-handles", NumberFlag{&Config::max_handles, 1, 1'000'000'000},
     Seen::native, "keys that native clients name by number"},
    {FlagGroup::bounds, "--max-subjects", NumberFlag{&Config::max_subjects, 1, 100'000'000},
     Seen::both, "subjects of quotas that are remembered"},
    {FlagGroup::bounds, "--max-reservations",
     NumberFlag{&Config::max_reservations, 1, limits::reservations_max}, Seen::both,
     "reservations that are open"},
    {FlagGroup::bounds, "--max-waiters", NumberFlag{&Config::max_waiters, 1, 100'000'000},
     Seen::connections, "requests that wait"},
    {FlagGroup::bounds, "--max-connections", NumberFlag{&Config::max_connections, 1, 1'000'000},
     Seen::connections, "open connections, both ports together"},

    {FlagGroup::times, "--header-timeout-millis",
     NumberFlag{&Config::header_timeout_ms, 1, 3'600'000}, Seen::connections,
     "to send a whole HTTP header, native frame or Hello"},
    {FlagGroup::times, "--idle-timeout-millis", NumberFlag{&Config::idle_timeout_ms, 0, 86'400'000},
     Seen::rest_connections, "an HTTP connection without requests is closed;\n0: stays open"},
    {FlagGroup::times, "--drain-millis", NumberFlag{&Config::drain_ms, 0, 3'600'000},
     Seen::connections, "to finish after a signal to stop"},
}};

}  // namespace sluice::config
