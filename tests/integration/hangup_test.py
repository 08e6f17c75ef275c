"""SIGHUP: the server reads the configuration file again at once; but closing its terminal ends a
server. Reading a large file does not delay the server's end.
Method: signals to the real server, and its log."""

import json
import os
import pty
import resource
import signal
import subprocess
import time

import pytest

from http_peer import HttpPeer, ask, begin_a_request
from server_process import (TIMEOUT_S, LIBC, PR_SET_PDEATHSIG, binary, clean_environment,
                            eventually, in_some_try)

LIMITED = {"keys": [{"key_pattern": ".*", "key_pattern_is_regex": True,
                     "max_requests_per_window": 10}]}
RELOADED = "configuration file reloaded"
REFUSED = "configuration file refused: the rules stay as they were"


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(LIMITED))
    return path


def times(server, message):
    return server.messages().count(message)


def hang_up(server, message):
    """Sends SIGHUP and waits for one more line `message`."""
    before = times(server, message)
    server.signal(signal.SIGHUP)
    eventually(lambda: times(server, message) == before + 1, f"the log says {message!r} once more")


def replace(file, text):
    """In one step: the server never sees half a file, and reads this one once."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def assert_logged_in_all(server, message, count):
    """Ends the server: a line that it logs twice comes after the first one."""
    assert server.stop() == 0
    assert times(server, message) == count, server.output()


def test_rereads_the_file_changed_or_not(start_server, config_file):
    server = start_server("--config-file", str(config_file))
    hang_up(server, RELOADED)
    hang_up(server, RELOADED)
    assert server.is_running() and ask(server, "GET", "/healthz").status == 200
    replace(config_file, json.dumps(LIMITED).replace("10", "11"))
    eventually(lambda: times(server, RELOADED) == 3, "the new file is read")
    hang_up(server, RELOADED)
    assert ask(server, "POST", "/rate/k").header("RateLimit-Policy") == '"window";q=11;w=1'
    assert_logged_in_all(server, RELOADED, 4)


def test_a_bad_file_is_refused_each_time(start_server, config_file):
    server = start_server("--config-file", str(config_file))
    replace(config_file, "{")
    eventually(lambda: times(server, REFUSED) == 1, "the file is refused when it is written")
    hang_up(server, REFUSED)
    config_file.unlink()  # without SIGHUP the server would wait for the file to reappear
    hang_up(server, REFUSED)
    assert ask(server, "GET", "/healthz").status == 200
    assert_logged_in_all(server, REFUSED, 3)


def test_logs_a_message_without_a_file(start_server):
    message = "SIGHUP: there is no configuration file to be read (--config-file)"
    server = start_server()
    hang_up(server, message)
    assert ask(server, "GET", "/healthz").status == 200
    assert_logged_in_all(server, message, 1)


def test_does_not_count_as_a_second_signal_to_stop(start_server):
    server = start_server("--drain-millis", "700", "--header-timeout-millis", "60000")
    with HttpPeer(server) as peer:
        begin_a_request(peer)
        server.signal(signal.SIGTERM)
        server.wait_for_message("draining")
        server.signal(signal.SIGHUP)
        assert server.wait() == 0
    assert server.messages()[-1] == "stopped"


def start_on_terminal(*before):
    """Starts a server on a terminal; returns the terminal's other side too."""
    ours, its = pty.openpty()

    def own_the_terminal():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
        os.setsid()
        os.close(os.open(os.ttyname(its), os.O_RDWR))  # the session's first
    process = subprocess.Popen([*before, binary(), "--port", "0", "--native-port", "0"],
                               stdin=its, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env=clean_environment(), preexec_fn=own_the_terminal)
    os.close(its)
    for line in process.stdout:
        if json.loads(line)["message"] == "ready":
            return process, ours
    raise AssertionError("it does not start")


def test_closing_the_terminal_ends_its_server():
    process, terminal = start_on_terminal()
    try:
        os.close(terminal)  # the kernel sends SIGHUP to the session's leader
        out, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    draining, stopped = [json.loads(line) for line in out.splitlines()]
    assert (draining["message"], draining["signal"]) == ("draining", "SIGHUP")
    assert stopped["message"] == "stopped"


def test_survives_its_terminal_with_nohup():
    process, terminal = start_on_terminal("nohup")
    try:
        os.close(terminal)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def large_text(subjects):
    """Some megabytes of quotas: half a second of work."""
    limits = [{"name": name, "metric": "tokens", "amount": 5, "period_ms": 60000} for name in "ab"]
    return json.dumps({"quotas": {"subjects": [{"subject": f"s{number}", "limits": limits}
                                               for number in range(subjects)]}})


def work_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def until_idle(server):
    def stands_still():
        before = server.cpu_seconds()
        time.sleep(0.1)
        return server.cpu_seconds() == before
    eventually(stands_still, "all shards have adopted it")


def test_a_stop_does_not_wait_for_a_large_file(start_server, config_file):
    """Measured by the CPU time for reading the file, which is far more than the 0.1 s that a stop
    waits for it, and that used when the server has ended."""
    small, text = config_file.read_text(), large_text(80_000)

    def stops_before_it_is_read():
        config_file.write_text(small)
        server = start_server("--config-file", str(config_file))
        started = server.cpu_seconds()
        config_file.write_text(text)
        server.wait_for_message(RELOADED)
        needed = server.cpu_seconds() - started
        until_idle(server)
        idle, others = server.cpu_seconds(), work_of_children()
        config_file.write_text(text.replace('"period_ms": 60000', '"period_ms": 60001'))
        eventually(lambda: server.cpu_seconds() - idle > 0.1 * needed, "it is being read")
        server.signal(signal.SIGTERM)
        signalled = server.cpu_seconds()
        assert server.wait() == 0
        assert server.messages()[-2:] == ["draining", "stopped"]
        if signalled - idle > 0.4 * needed:
            return False  # the server had read much of it before the signal
        assert work_of_children() - others - signalled < 0.5 * needed
        return True
    in_some_try(stops_before_it_is_read, "the signal arrives while the server reads the file")
