"""Sluicegate and its peers as servers on free loopback ports, for the length of a `with` block."""

import contextlib
import json
import os
import pathlib
import subprocess
import time

from .machine import Trouble, cargo_installed, free_port, need, pinned
from .processes import Server, process, wait_for_port

KEYS = 1_000_000
KEYS_OF_GUBERNATOR = 100_000  # at its rate a run would not reach a million

NGINX_CONFIG = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server {{
    listen 127.0.0.1:{port}{http2};
    location / {{ return 200; }}
  }}
}}
"""


def named(path, option, what):
    """The program that an option names."""
    if not path:
        raise Trouble(f"{what} is left out: name its program with {option} PATH")
    if not os.access(path, os.X_OK):
        raise Trouble(f"{what} is left out: {path} is no program that can be run")
    return pathlib.Path(path).resolve()


@contextlib.contextmanager
def sluicegate(suite, max_keys=2 * KEYS, shards=1, window_millis=3_600_000, flags=(),
               host="127.0.0.1", port=0):
    """With limits so high that the server denies nothing."""
    log = suite.scratch / f"sluicegate-{time.monotonic_ns()}.log"
    command = pinned(suite.server_cpu, suite.server, f"--shards={shards}",
                     f"--port={port}", "--native-port=0", f"--bind={host}",
                     "--max-requests=1000000000",
                     f"--window-millis={window_millis}", f"--max-keys={max_keys}", *flags,
                     *suite.server_flags)
    with log.open("w") as output, process(command, stdout=output) as started:
        ports = ports_of(log, started)
        yield Server(started.pid, ports["port"], ports["nativePort"], host)


def ports_of(log, started):
    """The start-up line of the log."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and started.poll() is None:
        for line in log.read_text().splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if "nativePort" in entry:
                    return entry
        time.sleep(0.02)
    last = log.read_text().strip().splitlines()[-1:] or ["it logged nothing"]
    raise Trouble(f"the server did not come up: {last[0]}")


@contextlib.contextmanager
def on_port(suite, name, port, command, **options):
    """Starts a peer and waits until its port is open."""
    with process(pinned(suite.server_cpu, *command), **options) as started:
        wait_for_port(port, started, name)
        yield Server(started.pid, port)


def quiet():
    return {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def redis(suite):
    need("taskset", "redis-server", "redis-benchmark")
    port = free_port()
    return on_port(suite, "redis-server", port,
                   ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
                    "--appendonly", "no", "--daemonize", "no", "--dir", suite.scratch], **quiet())


def throttlecrab(suite):
    """Its Redis transport only: the same program loads it and Redis."""
    need("taskset", "redis-benchmark")
    port = free_port()
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("THROTTLECRAB_")}
    return on_port(suite, "throttlecrab-server", port,
                   [cargo_installed("throttlecrab-server"), "--redis", "--redis-host",
                    "127.0.0.1", "--redis-port", port, "--store-capacity", 2 * KEYS,
                    "--log-level", "error"], env=environment, **quiet())


def nginx(suite, http2=False):
    """In one version of HTTP: it does not have both on one port without TLS."""
    need("taskset", "nginx")
    port = free_port()
    config = suite.scratch / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(port=port, http2=" http2" if http2 else ""))
    return on_port(suite, "nginx", port,
                   ["nginx", "-p", suite.scratch, "-c", config, "-e", "stderr"])


def gubernator(suite):
    """Alone in its cluster, which it finds over loopback; without tracing, which costs it."""
    program = named(suite.gubernator, "--gubernator", "gubernator")
    need("taskset")
    port, gossip = free_port(), f"127.0.0.1:{free_port()}"
    own = f"127.0.0.1:{port}"
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("GUBER_", "OTEL_"))}
    environment |= {
        "GUBER_GRPC_ADDRESS": own, "GUBER_ADVERTISE_ADDRESS": own,
        "GUBER_HTTP_ADDRESS": f"127.0.0.1:{free_port()}",
        "GUBER_PEER_DISCOVERY_TYPE": "member-list", "GUBER_MEMBERLIST_ADDRESS": gossip,
        "GUBER_MEMBERLIST_BIND_ADDRESS": gossip, "GUBER_MEMBERLIST_ADVERTISE_ADDRESS": own,
        "GUBER_MEMBERLIST_KNOWN_NODES": gossip,
        "GUBER_CACHE_SIZE": str(2 * KEYS_OF_GUBERNATOR), "GUBER_LOG_LEVEL": "error",
        "OTEL_TRACES_EXPORTER": "none"}
    return on_port(suite, "gubernator", port, [program], env=environment, **quiet())


def gocc(suite, http2=False):
    """It has no option for the address, so it listens on all of them during the run.

    It allocates memory for all permits of every key: the limit is just high enough for a window.
    """
    program = named(suite.gocc, "--gocc", "gocc")
    need("taskset")
    port = free_port()
    return on_port(suite, "gocc", port,
                   [program, "--server-type", "echo-http2" if http2 else "echo", "--port", port,
                    "--max-requests", 1000, "--window-millis", 1000, "--log-level", "ERROR"],
                   **quiet())


def constant_http(suite):
    """The loop that sends the same answer to every request: the ceiling of HTTP over loopback."""
    need("taskset", "wrk")
    port = free_port()
    return on_port(suite, "loopback_limits http", port,
                   [suite.limits("http", "--port"), "http", "--port", port, "--seconds", 86_400],
                   **quiet())
