"""Start-up, also when the system lacks resources: ports, descriptors."""

import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, totals
from native_peer import APPROVED, NativePeer
from server_process import (TIMEOUT_S, ServerProcess, binary, clean_environment, eventually,
                            in_some_try, run_binary)


def serve(io, *flags, preexec=None):
    """Runs a server that must fail to start."""
    return run_binary("--io", io, "--bind", "127.0.0.1", *flags, preexec=preexec)


def assert_one_line(result, *parts):
    assert result.returncode == 2, result
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result
    assert lines[0].startswith("Error: ")
    for part in parts:
        assert part in lines[0]


# -------------------------------------------------------------------------------------- ports

def test_last_log_line_of_the_start_names_both_ports(start_server, io):
    server = start_server("--max-requests", "7")
    ready = server.log[-1]
    assert ready["message"] == "ready"
    assert ready["level"] == "INFO"
    assert ready["io"] == io
    assert 0 < ready["port"] < 65_536 and 0 < ready["nativePort"] < 65_536
    assert ready["port"] != ready["nativePort"]
    assert ready["time"].endswith("Z")
    assert ask(server, "POST", "/rate/k").rate_limit()["q"] == 7
    with NativePeer(server) as peer:
        peer.ping()


@pytest.mark.parametrize("which", ["--port", "--native-port"])
@pytest.mark.parametrize("reuse", [False, True])
def test_port_in_use_ends_the_start(io, which, reuse):
    with socket.socket() as holder:
        if reuse:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        other = "--native-port" if which == "--port" else "--port"
        assert_one_line(serve(io, which, port, other, "0"), f"port {port} is in use", which)


def test_port_of_another_server_ends_the_start(start_server, io):
    server = start_server(*LONG_WINDOW)
    result = serve(io, "--port", str(server.port), "--native-port", "0")
    assert_one_line(result, f"port {server.port} is in use")
    result = serve(io, "--port", "0", "--native-port", str(server.native_port))
    assert_one_line(result, f"port {server.native_port} is in use")
    assert ask(server, "GET", "/healthz").status == 200


def test_address_that_is_not_of_this_machine_ends_the_start(io):
    result = run_binary("--io", io, "--bind", "192.0.2.1", "--port", "0", "--native-port", "0")
    assert_one_line(result, "192.0.2.1", "--bind")


def test_environment_variables_are_flags(io):
    result = run_binary("--io", io, environment={"MAX_REQUESTS": "0"})
    assert result.returncode == 1
    assert "MAX_REQUESTS" in result.stderr


def test_all_interfaces_means_both_families(io):
    server = ServerProcess(io, 1, "--bind", "")
    try:
        assert ask(server, "GET", "/healthz").status == 200
        if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
            with socket.create_connection(("::1", server.port), 30) as six:
                six.sendall(b"GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n")
                assert six.recv(4_096).startswith(b"HTTP/1.1 200 OK\r\n")
    finally:
        assert server.stop() == 0


# -------------------------------------------------------------------------------- descriptors

def limit_descriptors(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def test_out_of_descriptors_existing_clients_are_served_and_it_recovers(start_server, key):
    server = start_server(*LONG_WINDOW, "--shards", "1", preexec=limit_descriptors(24))
    with HttpPeer(server) as http, NativePeer(server) as native:
        others, served, turned_away = [], 0, 0
        while turned_away < 3 and len(others) < 40:
            peer = HttpPeer(server)
            others.append(peer)
            peer.socket.settimeout(10)
            try:
                served += peer.ask("GET", "/healthz").status == 200
            except (EOFError, ConnectionError, TimeoutError):
                turned_away += 1
            # Existing connections are not affected.
            assert http.ask("POST", f"/rate/{key}").status == 200
            assert native.ask([key]).verdicts == [APPROVED]
        assert 1 <= served < 24
        assert turned_away == 3
        assert server.open_descriptors() <= 24
        for peer in others:
            peer.close()

        def served_again():
            with HttpPeer(server) as peer:
                try:
                    return peer.ask("GET", "/healthz").status == 200
                except (EOFError, ConnectionError):
                    return False
        eventually(served_again, "new clients are served again")
        assert totals(server)["sluicegate_accept_failures_total"] > 0
    assert server.stop() == 0


def test_limit_of_descriptors_is_raised_or_logged(start_server):
    def low_soft_limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 300))

    server = start_server("--max-connections", "100", "--shards", "1", preexec=low_soft_limit)
    assert server.warnings() == []
    for shards, wanted in (1, 100_192), (3, 100_512):
        server = start_server("--max-connections", "100000", "--shards", str(shards),
                              preexec=low_soft_limit)
        warning = server.warnings()[0]
        assert "too few file descriptors" in warning["message"]
        assert (warning["limit"], warning["wanted"]) == (300, wanted)


def test_connections_to_other_nodes_are_counted_as_descriptors(start_server):
    nodes = ("--instance-urls", "http://127.0.0.1:1,http://127.0.0.2:1,http://127.0.0.3:1",
             "--own-url", "http://127.0.0.1:1", "--shards", "2", "--max-connections", "1000")
    server = start_server(*nodes, preexec=limit_descriptors(400))
    wanted = [warning["wanted"] for warning in server.warnings()
              if "too few file descriptors" in warning["message"]]
    # Of each shard, and to each of the two others: 64 links and a probe; four questions that all
    # three nodes answer, and a check of rules.
    assert wanted == [1_000 + 32 + 2 * (160 + 2 * 65 + 4 * 3 + 1)]


# ---------------------------------------------------------------------------------- exit codes

@pytest.mark.parametrize("arguments", [
    ["--no-such-flag"], ["--port", "x"], ["--port", "65536"], ["--window-millis", "9"],
    ["--max-requests", "0"], ["--io", "select"], ["--shards", "0"], ["--shards", "257"],
    ["--pin=maybe"], ["stray"], ["-r", "false"],
    ["--requests-can-set-rate=maybe"], ["--port", "8080", "--native-port", "8080"],
    ["acquire", "k", "--nope"], ["--log-level", "x"], ["bench", "--keys", "0"], ["acquire"]])
def test_usage_errors_name_the_cure(arguments):
    result = run_binary(*arguments)
    assert result.returncode == (2 if arguments[0] == "acquire" else 1), result
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert "--help" in result.stderr or "Usage" in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["bench", "--help"],
                                       ["acquire", "--help"]])
def test_help_exits_with_0(arguments):
    result = run_binary(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert "--" in result.stdout


def test_names_of_loopback_addresses_and_words_in_any_case(start_server, io):
    server = start_server("--log-level", "info", bind="localhost")
    assert server.wait_for_message("ready")["bind"] == "127.0.0.1"


def test_addresses_of_linked_services_are_passed_over():
    environment = {**clean_environment(), "SHARDS": "1", "DRAIN_MILLIS": "2s",
                   "MAX_KEYS": "udp://10.0.0.1:53"}
    with subprocess.Popen([binary(), "--port", "0", "--bind", "127.0.0.1", "--native-port", "0"],
                          stdout=subprocess.PIPE, text=True, env=environment) as process:
        lines = []
        for line in process.stdout:
            lines.append(json.loads(line))
            if lines[-1]["message"] == "ready":
                process.terminate()
    assert process.returncode == 0
    warned = [line["message"] for line in lines if "passed over" in line["message"]]
    assert len(warned) == 1 and '"udp://10.0.0.1:53"' in warned[0] and "MAX_KEYS" in warned[0]


@pytest.mark.parametrize("flags", [[], ["--native-port", "8081"]], ids=["default", "given"])
def test_native_port_in_use_stops_the_start(flags):
    """Clients and commands use 8081, and would speak to the other server."""
    address = "127.7.%d.%d" % divmod(os.getpid() % 65_000 + 256, 256)  # nobody else's
    with socket.socket() as taken:
        taken.bind((address, 8081))
        taken.listen()
        started = run_binary("--bind", address, "--port", "0", *flags)
    assert (started.returncode, started.stdout.count("ready")) == (2, 0)
    assert "port 8081 is in use" in started.stderr and "--native-port 0" in started.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_signal_ends_the_first_reading_of_the_configuration_file(tmp_path, number):
    """A file of 14 MB, which is read in some tenths of a second."""
    file = tmp_path / "limits.json"
    file.write_text(json.dumps({"keys": [
        {"key_pattern": f"k{n}", "max_requests_per_window": 5} for n in range(250_000)]}))

    def ends_while_it_reads():
        process = subprocess.Popen(
            [binary(), "--bind", "127.0.0.1", "--port", "0", "--native-port", "0",
             "--config-file", file],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=clean_environment())
        try:
            while resident_bytes(process.pid) < file.stat().st_size:
                assert process.poll() is None
            process.send_signal(number)
            output = process.communicate(timeout=TIMEOUT_S)[0]
            return (process.returncode, b"ready" in output) == (128 + number, False)
        finally:
            process.kill()
            process.wait()
    in_some_try(ends_while_it_reads, "the signal comes before all is read")


def resident_bytes(pid):
    pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def test_warns_of_more_names_than_subjects_at_the_start(start_server, tmp_path):
    names = [{"subject": name, "limits": []} for name in ("a", "b", "c")]
    file = tmp_path / "limits.json"
    file.write_text(json.dumps({"keys": [], "quotas": {"subjects": names}}))
    server = start_server("--config-file", str(file), "--max-subjects", "2")
    assert any("--max-subjects" in line["message"] for line in server.warnings())


@pytest.mark.parametrize("closed", [[0, 1, 2], [1], [2]])
def test_closed_standard_descriptors_are_not_sockets(closed):
    """Otherwise a client would read the log."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [binary(), "--bind", "127.0.0.1", "--port", str(port), "--native-port", "0", "--shards",
         "1", "--pin=false"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=clean_environment(),
        preexec_fn=lambda: [os.close(descriptor) for descriptor in closed])

    def listens():
        with socket.socket() as peer:
            return peer.connect_ex(("127.0.0.1", port)) == 0
    try:
        eventually(listens, "it listens")
        for descriptor in range(3):
            assert os.readlink(f"/proc/{process.pid}/fd/{descriptor}") == "/dev/null"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_rest_on_the_native_port():
    started = run_binary("--bind", "127.0.0.8", "--port", "8081")
    assert started.returncode == 1
    assert "are both 8081" in started.stderr and "--native-port 0" in started.stderr


@pytest.mark.parametrize("command", [[], ["bench"], ["benchmark"], ["check-config"], ["acquire"]])
def test_help_of_a_command_is_its_help_flag(command):
    shown = run_binary("help", *command)
    assert (shown.returncode, shown.stdout) == (0, run_binary(*command, "--help").stdout)
    assert "Usage: sluicegate" in shown.stdout and shown.stderr == ""


def test_help_of_an_unknown_command_is_a_usage_error():
    shown = run_binary("help", "nope")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.endswith('Error: unexpected argument "nope"\n')


@pytest.mark.parametrize("command", ["acquire foo", "quota set foo"])
def test_help_of_a_command_has_no_further_words(command):
    shown = run_binary("help", *command.split())
    assert (shown.returncode, shown.stdout) == (1, "")
    behind = command.split()[-2]
    assert shown.stderr.endswith(f'Error: unexpected argument "foo" behind {behind}\n')


@pytest.mark.parametrize("word", ["--version", "version"])
def test_version_is_one_line(word):
    result = run_binary(word)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("sluicegate ") and result.stdout.count("\n") == 1


# ------------------------------------------------------------------------------- gocc's own flags

@pytest.mark.parametrize("kind, warned", [("echo", []), ("echo-http2", []), ("fast", ["fast"])])
def test_server_type_fast_is_warned_of(start_server, kind, warned):
    server = start_server("-s", kind)
    assert [line["serverType"] for line in server.warnings()] == warned
    assert ask(server, "POST", "/rate/k").status == 200


def test_serves_although_another_instance_is_down(start_server):
    server = start_server("-i", "http://127.0.0.1:7,http://127.0.0.1:9", "--own-url",
                          "http://127.0.0.1:7")
    joined = server.wait_for_message("one of several instances")
    assert joined["ownUrl"] == "http://127.0.0.1:7"
    assert joined["instances"] == "http://127.0.0.1:7, http://127.0.0.1:9"
    assert {ask(server, "POST", f"/rate/k{number}").status for number in range(20)} == {200, 502}


def test_an_empty_list_of_instances_is_none(start_server):
    server = start_server("--instance-urls", "[ ]")
    assert ask(server, "POST", "/rate/k").status == 200


@pytest.mark.parametrize("words", [["benchmark"], ["benchmark", "actors"]])
def test_benchmark_is_the_load_tool(words):
    result = run_binary(*words, "--seconds", "0.1", "--warm-up-seconds", "0", "--keys", "100",
                        "--json")
    assert result.returncode == 0 and '"decisions_per_s"' in result.stdout, result


# ------------------------------------------------------------------------------------- completion

def completions(*words):
    script = run_binary("completion", "bash").stdout
    quoted = " ".join(f"'{word}'" for word in words)
    line = (f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _sluicegate; "
            'printf "%s\\n" "${COMPREPLY[@]}"')
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout.split()


def test_bash_completes_commands_and_flags():
    assert completions("sluicegate", "be") == ["bench"]
    assert completions("sluicegate", "debug", "--l") == ["--limit"]
    assert completions("sluicegate", "--max-req") == ["--max-requests", "--max-requests-in-queue"]
    assert completions("sluicegate", "state", "b") == ["backup"]
    assert completions("sluicegate", "acquire", "--wait") == ["--wait", "--wait-limit-ms"]
    assert "--config-file" not in completions("sluicegate", "acquire", "--")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_flag(shell):
    script = run_binary("completion", shell)
    assert (script.returncode, script.stderr) == (0, "")
    for word in ["max-requests", "config-file", "native-port", "bench", "check-config",
                 "release", "debug", "ping", "top", "timeout-millis",
                 "denied-share", "handles", "client", "rate", "wait-limit-ms", "state", "backup",
                 "compact", "export", "recover", "import", "quotas", "format"]:
        assert word in script.stdout
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n", "/dev/stdin"], input=script.stdout, text=True,
                                 capture_output=True, check=False)
        assert checked.returncode == 0, checked


@pytest.mark.parametrize("words, values", [
    (["--log-level", "D"], ["DEBUG"]), (["--log-level", "=", "W"], ["WARN"]),
    (["--io", ""], ["auto", "uring", "epoll"]), (["--io", "="], ["auto", "uring", "epoll"]),
    (["-l", "s"], ["system-default"]), (["--server-type", "f"], ["fast"]),
    (["bench", "--io", "e"], ["epoll"]), (["bench", "--distribution", "z"], ["zipf"]),
    (["--peer-failure", ""], ["error", "closed", "local", "open"]),
    (["import", "--quotas", "pu"], ["put"]),
    (["export", "--format", "go-ratelimit-y"], ["go-ratelimit-yaml"]),
    (["import", "--state", ""], []),
    (["completion", "z"], ["zsh"]), (["--config-file", ""], []),
    (["quota", "set", "m", "--file", ""], [])])
def test_bash_completes_values(words, values):
    # Where there are none, `complete -o default` has bash complete files.
    assert completions("sluicegate", *words) == values


def test_zsh_and_fish_complete_values():
    zsh = run_binary("completion", "zsh").stdout
    assert "--log-level) compadd -- DEBUG INFO WARN ERROR; return ;;" in zsh
    assert "--config-file|-c) _files; return ;;" in zsh
    fish = run_binary("completion", "fish").stdout
    assert "complete -c sluicegate -l log-level -x -a 'DEBUG INFO WARN ERROR'\n" in fish
    assert "complete -c sluicegate -l config-file -s c -r -F\n" in fish


def test_completion_of_another_shell_is_a_usage_error():
    result = run_binary("completion", "tcsh")
    assert result.returncode == 1 and "Error: " in result.stderr


def test_help_names_every_flag_with_its_variable():
    text = run_binary("--help").stdout
    for flag in ["max-requests", "max-requests-in-queue", "window-millis", "max-wait-millis",
                 "requests-can-set-rate", "requests-can-mod-queue", "requests-can-set-window",
                 "bind", "port", "native-port",
                 "shards", "pin", "io", "max-keys", "max-key-bytes", "max-handles",
                 "max-waiters", "max-connections", "header-timeout-millis", "idle-timeout-millis",
                 "drain-millis", "config-file", "server-type", "instance-urls", "own-url",
                 "peer-failure", "peer-timeout-millis", "peer-silence-millis", "peer-secret-file",
                 "log-format",
                 "log-level", "log-includes-source"]:
        assert f"--{flag}" in text
        assert flag.upper().replace("-", "_") in text
    for status in "245":
        assert f"--log{status}xx" in text and f"LOG_{status}XX" in text


def test_server_starts_after_a_killed_one(start_server):
    server = start_server(*LONG_WINDOW)
    with HttpPeer(server) as peer:
        peer.ask("GET", "/healthz")
        server.signal(signal.SIGKILL)
        server.wait()
    start_server("--port", str(server.port), "--native-port", str(server.native_port))
