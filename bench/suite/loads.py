"""One run of a load each: the figures of parse.py, plus those known beforehand."""

import os
import sys
import urllib.request
from pathlib import Path

from . import parse
from .machine import Trouble, cpu_s, pinned
from .processes import run
from .servers import KEYS, KEYS_OF_GUBERNATOR, named

KEY_BYTES = 15
MEETING_PIPELINE = 256
PIPELINED = 16  # HTTP requests in flight on a connection
HTTP_CONNECTIONS = 64
HTTP_KEYS = 10_000
HTTP2_CONNECTIONS = 10
SNAIL_TESTS = {4: "Ints", 276: "Struct"}

# The same requests, in rotation, for every HTTP server; `depth` of them are sent at once.
WRK_SCRIPT = """
local depth = %d
local requests = {}
local turn = 0
function init(args)
  local at_once = {}
  for i = 1, 10000 do
    at_once[#at_once + 1] = wrk.format("GET", string.format("/rate/user-%%010d", i))
    if #at_once == depth then
      requests[#requests + 1] = table.concat(at_once)
      at_once = {}
    end
  end
end
function request()
  turn = turn %% #requests + 1
  return requests[turn]
end
"""


def under_load(server, command, timeout_s):
    """The output of a load, and its server's CPU time during it."""
    before = cpu_s(server.pid)
    output = run(command, timeout_s)
    return output, cpu_s(server.pid) - before


def busy(output, server_cpu_s, seconds, count):
    """For a load that does not report CPU time: measures it from outside."""
    return parse.sides(server_cpu_s, output.cpu_s, seconds, count) | {
        "seconds": seconds, "command": output.command}


# -------------------------------------------------------------------------------- Sluicegate


def own_bench(suite, *flags, cores=None):
    """`sluicegate bench` with a server of its own; the load shares the cores that are given."""
    command = [suite.server, "bench", "--json", f"--seconds={suite.seconds}",
               f"--server-cpu={cores or suite.server_cpu}", *suite.server_flags, *flags]
    if cores is None:
        command.append(f"--client-cpu={suite.client_cpu}")
    if not any(flag.startswith("--key-bytes") for flag in flags):
        command.append(f"--key-bytes={KEY_BYTES}")
    output = run(command, suite.seconds + 180)
    return parse.sluicegate_bench(output.text, len((cores or "0").split(","))) | {
        "key_form": "handle" if "--handles" in flags else "text", "command": output.command}


def bench_of(suite, server, *flags, seconds=None):
    """`sluicegate bench` against a server that keeps running."""
    command = pinned(suite.client_cpu, suite.server, "bench", "--json",
                     f"--address={server.host}:{server.native_port}", f"--server-pid={server.pid}",
                     f"--seconds={seconds or suite.seconds}", *flags)
    if not any(flag.startswith("--key-bytes") for flag in flags):
        command.append(f"--key-bytes={KEY_BYTES}")
    output = run(command, suite.seconds + 180)
    return parse.sluicegate_bench(output.text) | {"command": output.command}


def open_loop(run, closed_per_s, share):
    """The same load at a share (in percent) of the rate that its closed loop reached."""
    rate = int(closed_per_s * share / 100)
    return run(f"--rate={rate}") | {"asked_per_s": rate, "load_percent": share}


# ------------------------------------------------------------------------- the Redis protocol


def redis_benchmark(suite, server, requests, pipeline, words, keys=KEYS, connections=50):
    command = pinned(suite.client_cpu, "redis-benchmark", "-h", "127.0.0.1", "-p", server.port,
                     "-P", pipeline, "-c", connections, "-r", keys, "-n", requests, "--csv",
                     *words)
    output, server_cpu_s = under_load(server, command, 300)
    figures = parse.redis_benchmark(output.text)
    # The program does not report its duration; its end is visible within 250 ms.
    seconds = min(requests / figures["per_s"], output.elapsed_s)
    return {"unit": "decisions", "batch": 1, "depth": pipeline, "connections": connections,
            "outstanding": pipeline * connections} | figures | busy(
                output, server_cpu_s, seconds, requests)


INCR = ("INCR", "key:__rand_int__")
# Burst, count and seconds are so high that every request is allowed.
THROTTLE = ("THROTTLE", "key:__rand_int__", 1_000_000_000, 1_000_000_000, 1)


def meet_keys(suite, server, words, keys=KEYS):
    """Asks for nearly all keys once, as the warm-up of our load does; random keys repeat."""
    requests = keys // 5 if suite.quick else 3 * keys
    redis_benchmark(suite, server, requests, MEETING_PIPELINE, words, keys)


class RedisLoad:
    """A steady load of one command: the number of requests that fills the seconds of a run."""

    def __init__(self, suite, server, pipeline, words, keys=KEYS):
        self.suite, self.server, self.pipeline = suite, server, pipeline
        self.words, self.keys = words, keys
        self.per_s = 0.0

    def measure(self, requests):
        figures = redis_benchmark(self.suite, self.server, requests, self.pipeline, self.words,
                                  self.keys)
        return figures | {"keys": self.keys, "key_bytes": len("key:") + 12,
                          "distribution": "random"}

    def __call__(self):
        if not self.per_s:
            self.per_s = self.measure(20_000)["per_s"]
        figures = self.measure(max(int(self.per_s * self.suite.seconds), 10_000))
        self.per_s = figures["per_s"]  # the machine's speed changes between runs
        return figures


def redis_pipelines(suite, server, batch, *flags):
    """The load of the open loops: INCR in pipelines, each key once before one is repeated."""
    command = [suite.limits("redis", "--server-pid"), "redis", "--json", f"--port={server.port}",
               f"--server-pid={server.pid}", f"--client-cpu={suite.client_cpu}",
               f"--seconds={suite.seconds}", f"--batch={batch}", f"--keys={KEYS}", *flags]
    output = run(command, suite.seconds + 60)
    return parse.loopback_limits(output.text) | {"command": output.command}


def redis_ping(suite, server):
    requests = max(int(10_000 * suite.seconds), 1000)
    return redis_benchmark(suite, server, requests, 1, ["PING"], connections=1) | {
        "unit": "pings"}


# ---------------------------------------------------------------------------------- the rest


def wrk(suite, server, depth=1):
    script = suite.scratch / f"requests-{depth}.lua"
    script.write_text(WRK_SCRIPT % depth)
    command = pinned(suite.client_cpu, "wrk", "-t1", f"-c{HTTP_CONNECTIONS}",
                     f"-d{max(round(suite.seconds), 1)}s", "--latency", "-s", script,
                     f"http://127.0.0.1:{server.port}")
    output, server_cpu_s = under_load(server, command, suite.seconds + 60)
    figures = parse.wrk(output.text)
    count = figures.pop("count")
    figures |= {"batch": 1, "depth": depth, "connections": HTTP_CONNECTIONS,
                "outstanding": depth * HTTP_CONNECTIONS, "keys": HTTP_KEYS}
    return figures | busy(output, server_cpu_s, count / figures["per_s"], count)


def h2load(suite, server, streams):
    """By prior knowledge, as many streams at once on each connection; the keys of wrk()."""
    targets = suite.scratch / f"targets-{server.port}"
    if not targets.exists():
        lines = (f"http://127.0.0.1:{server.port}/rate/user-{number:010d}\n"
                 for number in range(1, HTTP_KEYS + 1))
        targets.write_text("".join(lines))
    command = pinned(suite.client_cpu, "h2load", "-t1", f"-c{HTTP2_CONNECTIONS}", f"-m{streams}",
                     f"-D{max(round(suite.seconds), 1)}", "-i", targets)
    output, server_cpu_s = under_load(server, command, suite.seconds + 60)
    figures = parse.h2load(output.text)
    count = figures.pop("count")
    figures |= {"batch": 1, "depth": streams, "connections": HTTP2_CONNECTIONS,
                "outstanding": streams * HTTP2_CONNECTIONS, "keys": HTTP_KEYS}
    return figures | busy(output, server_cpu_s, count / figures["per_s"], count)


def gubernator(suite, server, seconds=None):
    load = Path(__file__).with_name("grpc_load.py")
    command = pinned(suite.client_cpu, sys.executable, load, server.port,
                     f"--seconds={seconds or suite.seconds}", f"--keys={KEYS_OF_GUBERNATOR}")
    before = cpu_s(server.pid)
    output = run(command, suite.seconds + 120)
    # The load encodes its calls before its clock starts: the server sleeps meanwhile.
    server_cpu_s = cpu_s(server.pid) - before
    return parse.grpc_load(output.text, server_cpu_s) | {
        "depth": 1, "key_bytes": KEY_BYTES, "distribution": "uniform", "via": "gRPC",
        "command": output.command}


def snail(suite, item_bytes):
    """Server and load are one process on both cores; a test lasts a second or three."""
    program = named(suite.snail_tests, "--snail-tests", "snail's echo")
    test = (f"TestNewClient_SendAndRespondWith{SNAIL_TESTS[item_bytes]}"
            "_1s_batched_performance_multiple_goroutines")
    output = run([program, "-test.v", f"-test.run=^{test}$"], 120, errors_too=True)
    return parse.snail(output.text) | {"item_bytes": item_bytes, "command": output.command,
                                       "pinning": "none"}


def limits(suite, way, *flags):
    output = run([suite.limits(way, "--json"), way, "--json", f"--server-cpu={suite.server_cpu}",
                  f"--client-cpu={suite.client_cpu}", f"--seconds={suite.seconds}", *flags],
                 suite.seconds + 60)
    return parse.loopback_limits(output.text) | {"command": output.command}


def google_benchmark(suite, name, pattern, unit):
    program = suite.build / "bench/micro" / name
    if not os.access(program, os.X_OK):
        raise Trouble(f"{name} is left out: there is no bench/micro/{name} in the build folder, "
                      "tools/build makes it when Google Benchmark is installed")
    output = run(pinned(suite.server_cpu, program, f"--benchmark_filter={pattern}",
                        f"--benchmark_min_time={suite.seconds}", "--benchmark_format=json"), 300)
    return parse.google_benchmark(output.text, unit)


def keys_held(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as answer:
        return parse.keys_counted(answer.read().decode())
