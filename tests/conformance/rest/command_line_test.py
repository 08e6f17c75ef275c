"""Sections 4.1 to 4.4: flags, variables, subcommands, errors and exit codes.
Run: `run --binary PATH command_line_test.py`.

No case runs `benchmark actors`: it measures gocc's internals for half a minute."""

import re
import socket

import pytest

from expectation import Like, by_first, named
from http_peer import request
from rest_peer import Peer, ask, free_port, limits_of, permit, state_of
from target import StartFailed

# Flag, short form, variable, default.
FLAGS = [
    ("max-requests", "m", "MAX_REQUESTS", "100"),
    ("max-requests-in-queue", "", "MAX_REQUESTS_IN_QUEUE", "400"),
    ("window-millis", "w", "WINDOW_MILLIS", "1000"),
    ("requests-can-set-rate", "r", "REQUESTS_CAN_SET_RATE", "true"),
    ("requests-can-mod-queue", "", "REQUESTS_CAN_MOD_QUEUE", "true"),
    ("config-file", "c", "CONFIG_FILE", ""),
    ("port", "p", "PORT", "8080"),
    ("log-format", "l", "LOG_FORMAT", "json"),
    ("log-level", "", "LOG_LEVEL", "INFO"),
    ("log-includes-source", "", "LOG_INCLUDES_SOURCE", "true"),
    ("log2xx", "", "LOG_2XX", "false"),
    ("log4xx", "", "LOG_4XX", "false"),
    ("log5xx", "", "LOG_5XX", "true"),
    ("server-type", "s", "SERVER_TYPE", ""),
    ("instance-urls", "i", "INSTANCE_URLS", ""),
]


# ---------------------------------------------------------------------------- 4.1, precedence

@pytest.fixture
def rules_file(tmp_path):
    path = tmp_path / "limits.json"
    path.write_text('{"keys":[{"key_pattern":"filed","max_requests_per_window":19}]}')
    return str(path)


def settings_of(server, key):
    """A server's settings, as far as HTTP shows them."""
    permit(server, key)
    permit(server, "filed")
    config = state_of(server, key)["Config"]
    return {"limit": config["MaxRequestsPerWindow"], "queue": config["MaxRequestsInQueue"],
            "window": config["WindowMillis"], "file": limits_of(server, "filed")[0],
            "set rate": permit(server, f"{key}r", "maxRequests=5"),
            "mod queue": permit(server, f"{key}q", "maxRequestsInQueue=5")}


DEFAULTS = {"limit": 100, "queue": 400, "window": 1000, "file": 100, "set rate": 200,
            "mod queue": 200}
CHOSEN = {"limit": 17, "queue": 18, "window": 50_000, "file": 19, "set rate": 403,
          "mod queue": 403}


@pytest.mark.section("4.1")
def test_defaults(start, expect, key):
    expect(settings_of(start(), key), gocc=DEFAULTS)


@pytest.mark.section("4.1")
@pytest.mark.parametrize("flags", named([
    ("a blank", ["--max-requests", "17", "--max-requests-in-queue", "18", "--window-millis",
                 "50000", "--requests-can-set-rate=false", "--requests-can-mod-queue=false",
                 "--config-file", "FILE"]),
    ("an equals sign", ["--max-requests=17", "--max-requests-in-queue=18", "--window-millis=50000",
                        "--requests-can-set-rate=0", "--requests-can-mod-queue=F",
                        "--config-file=FILE"]),
    ("short", ["-m", "17", "-w", "50000", "-r=f", "-c", "FILE", "--max-requests-in-queue", "18",
               "--requests-can-mod-queue=False"]),
    ("short without a blank", ["-m17", "-w=50000", "-r=FALSE", "-cFILE",
                               "--max-requests-in-queue", "18", "--requests-can-mod-queue=0"]),
    ("twice", ["-m", "3", "-m", "17", "--max-requests-in-queue=4", "--max-requests-in-queue=18",
               "-w", "50000", "-r", "-r=0", "--requests-can-mod-queue",
               "--requests-can-mod-queue=0", "-c", "FILE"])]))
def test_flags(start, expect, key, rules_file, flags):
    server = start(*[word.replace("FILE", rules_file) for word in flags])
    expect(settings_of(server, key), gocc=CHOSEN)


def variables(rules_file):
    return {"MAX_REQUESTS": "17", "MAX_REQUESTS_IN_QUEUE": "18", "WINDOW_MILLIS": "50000",
            "REQUESTS_CAN_SET_RATE": "false", "REQUESTS_CAN_MOD_QUEUE": "f",
            "CONFIG_FILE": rules_file}


@pytest.mark.section("4.1")
def test_variables(start, expect, key, rules_file):
    expect(settings_of(start(environment=variables(rules_file)), key), gocc=CHOSEN)


@pytest.mark.section("4.1")
def test_flags_win_over_variables(start, expect, key, rules_file):
    server = start("-m", "21", "--max-requests-in-queue=22", "-w", "60000", "-r",
                   "--requests-can-mod-queue=true", "--config-file", "",
                   environment=variables(rules_file))
    expect(settings_of(server, key), gocc={"limit": 21, "queue": 22, "window": 60_000, "file": 21,
                                           "set rate": 200, "mod queue": 200})


@pytest.mark.section("4.1")
def test_empty_variables_are_unset(start, expect, key):
    environment = {variable: "" for _, _, variable, _ in FLAGS}
    expect(settings_of(start(environment=environment), key), gocc=DEFAULTS)


@pytest.mark.section("4.1")
@pytest.mark.parametrize("how", ["-p", "PORT", "both"])
def test_port(start, expect, how):
    port = free_port()
    flags = ["-p", str(port)] if how != "PORT" else []
    environment = {"-p": {}, "PORT": {"PORT": str(port)}, "both": {"PORT": "1"}}[how]
    server = start(*flags, port=None, environment=environment)
    expect((server.port == port, ask(server, "GET", "/healthz").status), gocc=(True, 200))


@pytest.mark.section("4.1")
@pytest.mark.parametrize("yes, no", zip(["1", "t", "T", "TRUE", "true", "True"],
                                        ["0", "f", "F", "FALSE", "false", "False"]))
def test_boolean_words(start, expect, key, yes, no):
    server = start(f"--requests-can-set-rate={yes}", f"--requests-can-mod-queue={no}")
    expect((permit(server, key, "maxRequests=1"), permit(server, key, "maxRequestsInQueue=1")),
           gocc=(200, 403))


@pytest.mark.section("4.1")
@pytest.mark.parametrize("value, gocc", by_first([
    ("0x11", 17), ("1_000", 1_000), ("010", 8), ("+5", 5), ("0b101", 5)]))
def test_number(start, expect, key, value, gocc):
    server = start("--max-requests", value)
    permit(server, key)
    expect(limits_of(server, key)[0], gocc=gocc)


@pytest.mark.section("4.1")
@pytest.mark.parametrize("value, gocc", by_first([
    ("0x11", "exit 1"), ("1_000", "exit 1"), ("010", 10), ("+5", 5), (" 5", "exit 1")]))
def test_number_in_a_variable(try_start, expect, key, value, gocc):
    server = try_start(environment={"MAX_REQUESTS": value})
    if isinstance(server, StartFailed):
        came = f"exit {server.code}"
    else:
        permit(server, key)
        came = limits_of(server, key)[0]
    expect(came, gocc=gocc)


@pytest.mark.section("4.1")
@pytest.mark.parametrize("flags", named([
    ("the smallest", ["-m", "1", "--max-requests-in-queue", "0", "-w", "10"]),
    ("the largest", ["-m", "1000000000", "--max-requests-in-queue", "1000000000",
                     "-w", "3600000"]),
    ("the logs", ["-l", "json", "--log-level", "INFO", "--log-includes-source=true",
                  "--log2xx=false", "--log4xx=false", "--log5xx=true"]),
    ("every switch", ["-r", "--requests-can-mod-queue", "--log-includes-source", "--log2xx",
                      "--log4xx", "--log5xx"]),
    ("empty lists", ["--instance-urls=", "-i", ""])]))
def test_valid_flags(start, expect, flags):
    expect(ask(start(*flags), "GET", "/healthz").status, gocc=200)


# -------------------------------------------------------------------------------- 4.3, usage errors

WRONG = [["--max-requests", "0"], ["--max-requests", "1000000001"], ["-m", "-1"],
         ["--max-requests-in-queue", "-1"], ["--max-requests-in-queue", "1000000001"],
         ["--window-millis", "9"], ["--window-millis", "3600001"], ["-w", "0"],
         ["--port", "-1"], ["--port", "65536"],
         ["--log-format", "xml"], ["-l", ""], ["--log-level", "TRACE"], ["--server-type", "http3"],
         ["--max-requests", "x"], ["--max-requests", "1.5"], ["--max-requests="],
         ["--window-millis", "99999999999999999999"], ["--port", "1e3"],
         ["--requests-can-set-rate=maybe"], ["--log2xx=yes"], ["--requests-can-set-rate=tRUE"]]
# The line need not name a flag here.
WRONG_WORDS = [["--no-such-flag"], ["-x"], ["stray"], ["--", "stray"], ["-r", "false"],
               ["--requests-can-mod-queue", "true"], ["--port"], ["--Port", "0"], ["serve"]]
WRONG_VARIABLES = [("MAX_REQUESTS", "0"), ("MAX_REQUESTS", "x"), ("WINDOW_MILLIS", "9"),
                   ("PORT", "65536"), ("REQUESTS_CAN_SET_RATE", "maybe"), ("LOG_LEVEL", "trace"),
                   ("LOG_FORMAT", "xml"), ("LOG_4XX", "yes"), ("SERVER_TYPE", "x")]


def usage_error(result):
    """Exit code; whether stderr alone has the usage, then a last line with the error."""
    lines = result.stderr.splitlines()
    return (result.returncode, "usage" in result.stderr.lower(),
            bool(lines) and lines[-1].startswith("Error: "), result.stdout)


def long_name(word):
    word = word.split("=")[0].lstrip("-")
    return next((name for name, short, *_ in FLAGS if word in (name, short)), word)


@pytest.mark.section("4.3")
@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_usage_error(run_binary, expect, words):
    result = run_binary(*words, serves=True)
    expect(usage_error(result), gocc=(1, True, True, ""))
    expect(long_name(words[0]) in (result.stderr.splitlines() or [""])[-1], gocc=True,
           of="names the flag")


@pytest.mark.section("4.3")
@pytest.mark.parametrize("words", WRONG_WORDS, ids=" ".join)
def test_usage_error_of_another_kind(run_binary, expect, words):
    expect(usage_error(run_binary(*words, serves=True)), gocc=(1, True, True, ""))


@pytest.mark.section("4.3")
@pytest.mark.parametrize("name, value", WRONG_VARIABLES)
def test_usage_error_in_a_variable(run_binary, expect, name, value):
    result = run_binary(environment={"PORT": "0", "NATIVE_PORT": "0", name: value})
    expect(usage_error(result), gocc=(1, True, True, ""))


@pytest.mark.section("4.3")
@pytest.mark.parametrize("words, bound", named([
    ("too small", ["--window-millis", "9"], "10"),
    ("too large", ["-m", "1000000001"], "1000000000"),
    ("another word", ["--log-level", "chatty"], "WARN"),
    ("server type", ["-s", "x"], "echo-http2")]))
def test_usage_error_lists_valid_values(run_binary, expect, words, bound):
    lines = run_binary(*words, serves=True).stderr.splitlines()
    expect(bool(lines) and bound in lines[-1].replace(",", ""), gocc=True)


# ----------------------------------------------------------------------------- 4.3, start-up errors

def brief(result):
    return result.brief() if isinstance(result, StartFailed) else "it starts"


@pytest.mark.section("4.3")
def test_port_in_use(try_start, expect):
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        result = run_to_failure(try_start, "--port", str(holder.getsockname()[1]))
    expect(result, gocc="exit 2, stack trace", ours="exit 2, 1 line", topic="port in use")


@pytest.mark.section("4.3")
def test_port_of_another_server(try_start, expect):
    port = str(try_start().port)
    result = run_to_failure(try_start, "--port", port)
    expect(result, gocc="exit 2, stack trace", ours="exit 2, 1 line", topic="port in use")


def run_to_failure(try_start, *flags):
    """Without --port 0 before it: the port that answers would be the other one's."""
    return brief(try_start(*flags, port=None))


@pytest.mark.section("4.1")
@pytest.mark.parametrize("flags, environment, gocc", named([
    ("one", ["-i", "http://a:1"], {}, "exit 2, stack trace"),
    ("two", ["-i", "http://a:1,http://b:1"], {}, "it starts"),
    ("two, repeated", ["-i", "http://a:1", "--instance-urls=http://b:1"], {}, "it starts"),
    ("two the same", ["-i", "http://a:1,http://a:1"], {}, "exit 2, stack trace"),
    ("two by variable", [], {"INSTANCE_URLS": "http://a:1, http://b:1"}, "it starts"),
    ("two in brackets", [], {"INSTANCE_URLS": "[http://a:1,http://b:1]"}, "it starts"),
    ("no addresses", ["-i", "a,b"], {}, "exit 2, stack trace")]))
def test_instances(try_start, expect, flags, environment, gocc):
    came = brief(try_start(*flags, environment=environment))
    expect(came, gocc=gocc, ours="exit 2, 1 line", topic="distributed mode")


@pytest.mark.section("4.1")
def test_no_instances_in_brackets(start, expect):
    server = start(environment={"INSTANCE_URLS": "[]"})
    expect(ask(server, "GET", "/healthz").status, gocc=200)


# --------------------------------------------------------------------------------------- the help

@pytest.fixture(scope="module")
def help_text(request):
    """The output of --help, split by flag."""
    texts = {}

    def get(run_binary):
        if not texts:
            result = run_binary("--help")
            texts["all"] = result
            pieces = re.split(r"\n(?=\s+(?:-\w, )?--)", result.stdout)
            texts["flags"] = {}
            for piece in pieces:
                found = re.match(r"\s+(?:-(\w), )?--([\w-]+)", piece)
                if found:
                    texts["flags"].setdefault(found.group(2), (found.group(1) or "", piece))
        return texts
    return get


@pytest.mark.section("4.1")
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_exits_with_0(run_binary, expect, word):
    result = run_binary(word)
    expect((result.returncode, result.stderr, "--max-requests" in result.stdout),
           gocc=(0, "", True))


@pytest.mark.section("4.1")
@pytest.mark.parametrize("flag, short, variable, default", by_first(FLAGS))
def test_help_lists(run_binary, help_text, expect, flag, short, variable, default):
    """Each flag with its short form, its variable, and its default where it is a plain value."""
    here, text = help_text(run_binary)["flags"].get(flag, (None, ""))
    shows_default = re.search(rf'default:? "?{default}\b', text) is not None if default else None
    expect((here, variable in text, shows_default), gocc=(short, True, True if default else None))


@pytest.mark.section("4.1")
def test_help_lists_the_flags_in_their_order(run_binary, help_text, expect):
    names = [name for name in help_text(run_binary)["flags"] if name in [row[0] for row in FLAGS]]
    expect(" ".join(names), gocc=" ".join(row[0] for row in FLAGS), ours=Like(".*"),
           topic="subcommands")


@pytest.mark.section("4.1")
@pytest.mark.parametrize("text", ["/rate/", "/debug", "/healthz", "DELETE", "canWait",
                                  "maxRequests", "maxRequestsInQueue"])
def test_help_describes_the_api(run_binary, help_text, expect, text):
    expect(text in help_text(run_binary)["all"].stdout, gocc=True)


# --------------------------------------------------------------------------------- 4.2, subcommands

@pytest.mark.section("4.2")
@pytest.mark.parametrize("words", [
    "completion bash", "completion zsh", "completion fish", "completion --help",
    "benchmark --help", "benchmark actors --help", "help", "help benchmark", "help completion"])
def test_subcommand(run_binary, expect, words):
    result = run_binary(*words.split())
    expect((result.returncode, bool(result.stdout)), gocc=(0, True))


@pytest.mark.section("4.2")
@pytest.mark.parametrize("words, gocc, ours", by_first([
    ("completion powershell", "exit 0", "exit 1"), ("--version", "exit 1", "exit 0"),
    ("version", "exit 1", "exit 0"), ("benchmark --no-such-flag", "exit 1", "exit 1")]))
def test_other_subcommand(run_binary, expect, words, gocc, ours):
    expect(f"exit {run_binary(*words.split()).returncode}", gocc=gocc, ours=ours,
           topic="subcommands")


@pytest.mark.section("4.2")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script(run_binary, expect, shell):
    script = run_binary("completion", shell).stdout
    marks = {"bash": "complete -", "zsh": "compdef", "fish": "complete -c"}
    expect(marks[shell] in script, gocc=True)


@pytest.mark.section("4.3")
def test_runs_until_a_signal(start, expect):
    server = start()
    with Peer(server) as peer:
        peer.send(request("GET", "/healthz") * 3)
        statuses = [peer.read().status for _ in range(3)]
    expect((statuses, server.is_running()), gocc=([200] * 3, True))
