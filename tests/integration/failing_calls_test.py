"""The server where the kernel refuses: it falls back or goes on, reports it once with cause and
cure, sleeps while there is nothing to do, and recovers.
Method: seccomp filters (system_calls.py) and limits of descriptors, below the real binary."""

import errno
import json
import resource
import signal
import socket
import time

import pytest

from conftest import LONG_WINDOW
from http_peer import HttpPeer, ask, totals
from native_peer import APPROVED, NativePeer
from server_process import ServerProcess, assert_does_not_start, eventually, run_binary
from system_calls import failing, needs_seccomp

pytestmark = needs_seccomp

TURNED_AWAY = "connections are turned away: "
RELOADED = "configuration file reloaded"
ANSWERED_LATE = "requests are answered late or not at all: "


def assert_serves(server, key="k"):
    assert ask(server, "POST", f"/rate/{key}").status == 200
    with NativePeer(server) as native:
        assert native.ask([key]).verdicts == [APPROVED]


def assert_sleeps(server):
    """An idle worker wakes four times a second; one that spins takes all the time it can get."""
    before = server.cpu_seconds()
    time.sleep(1)
    assert server.cpu_seconds() - before < 0.05


def only_warning(server):
    warnings = server.warnings()
    assert len(warnings) == 1, server.output()
    return warnings[0]


@pytest.fixture
def start():
    """Starts servers of any back end, and ends them after the test."""
    servers = []

    def start(io, *flags, **options):
        servers.append(ServerProcess(io, 2, *LONG_WINDOW, *flags, **options))
        return servers[-1]

    yield start
    for server in servers:
        assert server.stop() == 0 and server.errors == [], server.output()


# ----------------------------------------------------------------------------------- io_uring

# The probe's ring has 8 entries: beyond it only the workers' rings fail.
NO_URING = [
    (("io_uring_setup", errno.EPERM), ["io_uring_setup", "seccomp"]),
    (("io_uring_setup", errno.ENOSYS), ["io_uring_setup", "Linux 6.1"]),
    (("io_uring_setup", errno.ENOMEM), ["io_uring_setup", "LimitMEMLOCK"]),
    (("io_uring_setup", errno.EINVAL), ["io_uring_setup", "Linux 6.1"]),
    (("io_uring_register", errno.EINVAL), ["io_uring_register_buf_ring", "Linux 6.1"]),
    (("io_uring_register", errno.EPERM), ["io_uring_register_buf_ring", "seccomp"]),
    (("io_uring_register", errno.ENOSYS), ["io_uring_register_buf_ring", "Linux 6.1"]),
    (("io_uring_enter", errno.EPERM), ["io_uring_enter", "seccomp"]),
    (("io_uring_enter", errno.ENOSYS), ["io_uring_enter", "Linux 6.1"]),
    (("io_uring_setup", errno.ENOMEM, 8), ["io_uring_setup", "LimitMEMLOCK"]),
]
IDS = ["-".join(str(part) for part in failure) for failure, _ in NO_URING]


@pytest.mark.parametrize("failure, parts", NO_URING, ids=IDS)
def test_auto_goes_on_with_epoll_and_one_warning(start, failure, parts):
    server = start("auto", preexec=failing(failure))
    message = only_warning(server)["message"]
    for part in [*parts, "going on with epoll"]:
        assert part in message
    assert server.log[-1]["io"] == "epoll"
    assert_serves(server)
    assert_sleeps(server)


@pytest.mark.parametrize("failure, parts", NO_URING, ids=IDS)
def test_uring_does_not_start_and_names_the_cure(failure, parts):
    assert_does_not_start("--io", "uring", preexec=failing(failure),
                          parts=[*parts, "--io epoll"])


# More operations at once than the probe submits: refused when the server has run for a while, and
# from then on, because the queue stays as long.
MANY_OPERATIONS, SECOND_ARGUMENT = 8, 1


def test_where_uring_is_refused_later_it_sleeps_and_warns_once():
    server = ServerProcess("uring", 1, *LONG_WINDOW, preexec=failing(
        ("io_uring_enter", errno.EPERM, MANY_OPERATIONS, SECOND_ARGUMENT)))
    peers = []
    try:
        assert_serves(server)
        assert server.warnings() == []
        server.pause()
        for _ in range(4 * MANY_OPERATIONS):  # the shard accepts them in one loop iteration
            peers.append(socket.create_connection((server.host, server.port)))
        server.resume()
        eventually(server.warnings, "a warning")
        assert_sleeps(server)
        warning = only_warning(server)
        assert warning["message"].startswith(ANSWERED_LATE), warning
        assert "io_uring_enter" in warning["message"]
        assert warning["cause"] == "Operation not permitted"
        server.signal(signal.SIGTERM)
        assert server.wait() == 1  # a drain would need the kernel
        assert "stopped before draining ended" in server.log[-1]["message"], server.output()
    finally:
        server.kill()
        for peer in peers:
            peer.close()


def test_bench_ends_when_its_own_server_does_not_start():
    result = run_binary("bench", "--io", "uring", "--seconds", "0.1",
                        preexec=failing(("io_uring_setup", errno.EPERM)))
    assert result.returncode == 2, result
    assert "io_uring_setup" in result.stderr  # the server's own line
    assert "Error: the server ended at once: " in result.stderr


# -------------------------------------------------------------------------------------- epoll

def test_epoll_does_not_ask_for_uring(start):
    server = start("epoll", preexec=failing(("io_uring_setup", errno.EPERM)))
    assert server.warnings() == []
    assert_serves(server)


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_epoll_without_the_precise_wait_warns_once_serves_and_sleeps(start, error):
    server = start("epoll", preexec=failing(("epoll_pwait2", error)))
    message = only_warning(server)["message"]
    for part in ["epoll_pwait2", "millisecond", "Linux 5.11", "seccomp"]:
        assert part in message
    assert_serves(server)
    assert_sleeps(server)
    assert only_warning(server)["message"] == message


def test_without_uring_and_the_precise_wait_there_are_two_warnings(start):
    """Of both workers' rings, which fail beyond the probe's, and of both their waits."""
    server = start("auto", preexec=failing(("io_uring_setup", errno.ENOMEM, 8),
                                           ("epoll_pwait2", errno.ENOSYS)))
    uring, wait = [line["message"] for line in server.warnings()]
    assert "going on with epoll" in uring and "epoll_pwait2" in wait
    assert_serves(server)


def test_epoll_that_cannot_wait_does_not_start():
    forbidden = failing(("epoll_pwait2", errno.EPERM), ("epoll_wait", errno.EPERM))
    assert_does_not_start("--io", "epoll", preexec=forbidden, parts=["epoll_pwait2", "seccomp"])


# ------------------------------------------------------------------------------------ accepting

@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_where_accepting_is_forbidden_it_sleeps_and_warns_once(start, error):
    server = start("epoll", preexec=failing(("accept4", error)))
    with socket.create_connection((server.host, server.port)):
        eventually(server.warnings, "a warning")
        assert_sleeps(server)
        assert only_warning(server)["message"].startswith(TURNED_AWAY + "accepting is forbidden")


@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_out_of_descriptors_it_sleeps_warns_once_and_recovers(start, io):
    server = start(io, preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))

    def warnings():
        return [line for line in server.warnings() if TURNED_AWAY in line["message"]]

    with HttpPeer(server) as http:
        # On its shard: a connection on its way to another one needs a descriptor more.
        assert http.ask("POST", "/rate/k").status == 200
        peers = []
        for _ in range(60):  # more than it can have; the kernel queues the rest
            peers.append(socket.create_connection((server.host, server.port)))
        eventually(warnings, "a warning that connections are turned away")
        assert_sleeps(server)
        assert http.ask("POST", "/rate/k").status == 200
        for peer in peers:
            peer.close()

        def served_again():
            try:
                return ask(server, "POST", "/rate/k").status == 200
            except (EOFError, ConnectionError):
                return False
        eventually(served_again, "new clients are served")
        assert len(warnings()) == 1 and "LimitNOFILE" in warnings()[0]["message"]
        assert warnings()[0]["cause"] == "Too many open files"
        assert totals(server)["sluicegate_accept_failures_total"] > 0


# ------------------------------------------------------------------------------ the start's rest

@pytest.mark.parametrize("call, error, part", [
    ("eventfd2", errno.EMFILE, "eventfd"), ("epoll_ctl", errno.ENOSPC, "epoll"),
    ("epoll_create1", errno.EMFILE, "epoll"), ("epoll_create1", errno.ENOMEM, "epoll"),
    ("setsockopt", errno.ENOPROTOOPT, "SO_REUSEADDR")])
def test_start_without_a_needed_call_ends_with_one_line(call, error, part):
    assert_does_not_start("--io", "epoll", preexec=failing((call, error)), parts=[part])


# ------------------------------------------------------------------------- configuration file

def limit_of_all(limit):
    return json.dumps({"keys": [{"key_pattern": ".*", "key_pattern_is_regex": True,
                                 "max_requests_per_window": limit}]})


@pytest.mark.parametrize("call, error, cure", [
    ("inotify_init1", errno.EMFILE, "fs.inotify.max_user_instances"),
    ("inotify_add_watch", errno.ENOSPC, "fs.inotify.max_user_watches")])
def test_without_inotify_it_polls_and_warns_once(start, tmp_path, call, error, cure):
    file = tmp_path / "limits.json"
    file.write_text(limit_of_all(10))
    server = start("epoll", "--config-file", str(file), preexec=failing((call, error)))
    file.write_text(limit_of_all(11))

    def is_new():
        new_key = f"k{time.monotonic()}"
        return ask(server, "POST", f"/rate/{new_key}").rate_limit()["q"] == 11
    eventually(is_new, "the new limit")
    assert_sleeps(server)
    warning = only_warning(server)
    assert "no inotify" in warning["message"] and cure in warning["message"]
    # Without a change nothing but the signal has the file read again.
    server.signal(signal.SIGHUP)
    eventually(lambda: server.messages().count(RELOADED) == 2, "it is read again")


def test_configuration_file_that_cannot_be_watched_ends_the_start(tmp_path):
    file = tmp_path / "limits.json"
    file.write_text(limit_of_all(10))
    assert_does_not_start("--io", "epoll", "--config-file", str(file),
                          preexec=failing(("timerfd_create", errno.EMFILE)),
                          parts=["cannot watch the configuration file", "ulimit -n"])
