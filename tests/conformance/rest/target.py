"""The server under test: a running one, or a binary that cases start with flags."""

import re
import signal
import socket
import subprocess
import threading
import urllib.parse

from server_process import LIBC, PR_SET_PDEATHSIG, ServerProcess, clean_environment, eventually

STARTED_WITHIN_S = 30
PORT = re.compile(r"\bport=(\d+)\b")


class RunningServer:
    """A server of which only the address is known."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.host = parts.hostname
        self.port = parts.port or 80

    def is_running(self):
        return True


class StartFailed(Exception):
    """The server ended instead of serving."""

    def __init__(self, server):
        self.code = server.process.returncode
        self.errors = "".join(server.errors)
        super().__init__(server.output())

    def brief(self):
        """Exit code, and the last line unless it is a stack trace."""
        if "goroutine " in self.errors:
            return f"exit {self.code}, stack trace"
        lines = self.errors.splitlines()
        return f"exit {self.code}, {len(lines)} line{'s' * (len(lines) != 1)}"


class StartedServer(ServerProcess):
    """A server process. With `port` 0 reads the port from the log; else waits until the port
    answers, which works at any log level; None omits the flag."""

    def __init__(self, binary, *flags, port=0, environment=None, folder=None):
        self.host = "127.0.0.1"
        self.port = port
        chosen = [] if port is None else ["--port", str(port)]
        self.command = [binary, *chosen, *flags]
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=folder,
            stderr=subprocess.PIPE, env=clean_environment() | (environment or {}),
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            encoding="utf-8", errors="replace")
        self.pid = self.process.pid
        self.log = []     # lines of stdout, as JSON objects
        self.errors = []  # lines of stderr
        self._readers = [threading.Thread(target=self._read_log, daemon=True),
                         threading.Thread(target=self._read_errors, daemon=True)]
        for reader in self._readers:
            reader.start()
        try:
            eventually(self._is_ready, "the server serves", STARTED_WITHIN_S)
        except BaseException:
            self.kill()
            raise

    def _is_ready(self):
        if not self.is_running():
            self.wait()
            raise StartFailed(self)
        self.port = self.port or self._logged_port()
        return self.port and self._answers()

    def _logged_port(self):
        """The port in the last line of the start, in any format."""
        for line in [*self.log, *self.errors]:
            if isinstance(line, dict) and "notJson" not in line:
                port = line.get("port", 0)
            else:
                text = line if isinstance(line, str) else line["notJson"]
                port = int((PORT.findall(text) or [0])[0])
            if port:
                return port
        return None

    def _answers(self):
        try:
            socket.create_connection((self.host, self.port), 5).close()
        except OSError:
            return False
        return True

    def lines(self):
        """Lines of stdout that are not JSON, unchanged."""
        return [line["notJson"] for line in self.log if "notJson" in line]

    def with_message(self, text):
        """JSON lines of this message."""
        return [line for line in list(self.log) if line.get("message") == text]
