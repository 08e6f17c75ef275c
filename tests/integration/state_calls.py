"""What tests of --state share: a server that begins again and again with one file, and its metrics.

A test that kills the server waits before it until everything is durable (`wait_durable`), unless it
is about what was not.
"""

import re
import signal

from http_peer import ask, metrics
from quota_calls import encoded
from server_process import eventually, run_binary

WINDOWS_LAG = "sluicegate_state_windows_lag_seconds"


def state_metrics(server):
    return {name: value for name, value in metrics(server).items()
            if name.startswith("sluicegate_state_")}


def status(server):
    """running, failing or failed; None without --state."""
    names = [re.search('name="(.*)"', series)[1] for series in metrics(server)
             if series.startswith("sluicegate_state_status")]
    return names[0] if names else None


def wait_durable(server):
    """All that was answered before survives a crash."""
    eventually(lambda: metrics(server)["sluicegate_state_lag_seconds"] == 0, "all is durable")


def wait_windows_durable(server):
    """All that long windows of keys have counted before survives a crash."""
    eventually(lambda: metrics(server)[WINDOWS_LAG] == 0, "all windows are durable")


def stop(server):
    """A clean end; also of what was answered just before."""
    assert server.stop() == 0, server.output()


def kill(server):
    """A crash, once everything is durable."""
    wait_durable(server)
    kill_now(server)


def kill_now(server):
    assert server.is_running(), server.output()
    server.kill()
    assert server.process.returncode == -signal.SIGKILL, server.output()


class Kept:
    """Servers with one state file, one after the other."""

    def __init__(self, start_server, path):
        self.start_server, self.path = start_server, path

    def start(self, *flags, sync_millis=20, **options):
        return self.start_server("--state", str(self.path), "--state-sync-millis",
                                 str(sync_millis), *flags, **options)

    def refusal(self, *flags, preexec=None):
        """What a server says that cannot start with it."""
        result = run_binary("--bind", "127.0.0.1", "--port", "0", "--native-port", "0",
                            "--state", str(self.path), *flags, preexec=preexec)
        assert result.returncode == 2, result
        line, = result.stderr.splitlines()
        assert line.startswith("Error: --state "), result
        assert "ready" not in result.stdout
        return line


def change_quota(server, method, subject, *limits):
    """PUT or DELETE, whatever the answer is."""
    body = encoded({"limits": limits}) if limits else b""
    return ask(server, method, f"/v1/subjects/{subject}", f"Content-Length: {len(body)}",
               body=body)
