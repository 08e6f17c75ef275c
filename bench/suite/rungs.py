"""The rungs of the ladder: the runs that are compared. docs/performance.md explains why."""

import contextlib
from functools import partial

from . import loads, servers
from .machine import Trouble, need, resident_bytes
from .servers import KEYS
from .suite import OURS, TWIN, Contender

KEY_COUNTS = (10_000, 1_000_000, 10_000_000)
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
HANDLE_BATCHES = (256, 4096)
LOAD_SHARES = (50, 70, 90)
OPEN_LOOP_BATCHES = (64, 256)
KEYS_IN_MEMORY = 10_000_000
LONG_KEY_BYTES = 276
REDIS_PIPELINE = 64
THROTTLECRAB_PIPELINE = 256
LARGE_FRAMES = 8  # in flight: the server holds at most 1 MiB of a connection


# Names of cases that targets and plots look up.
def keyed_case(keys):
    return f"R4 keyed 256, {keys:,} keys"


def batch_case(batch):
    return f"R4 batch {batch}"


def handles_case(batch):
    return f"R4 handles {batch}"


def open_loop_case(batch, share):
    return f"R6 batch {batch} at {share} %"


PIPELINED_CASE = "R4 batch 1, 256 in flight"
CLIENT_CASE = "R5 client, keyed 256"
CLIENT_HANDLES_CASE = "R5 client, handles 4096"
LONG_KEYS_CASE = "R7 client, keys of 276 bytes"
REST_CASE = "REST keep-alive"
REST_PIPELINED_CASE = "REST 16 pipelined"
HTTP2_CASE = "HTTP/2, 10 x 100 streams"
HTTP2_FEW_CASE = "HTTP/2, 10 x 10 streams"
RAW_CASE = "request bytes"
RAW_HANDLES_CASE = "request bytes by handle"
IDLE_CASE = "a lone request"
MEMORY_CASE = "memory of 10,000,000 keys"


def own_allowed(suite, case, *flags):
    """The load tool with a server of its own."""
    return suite.contend(case, OURS, loads.own_bench, *flags)


def own(suite, case, *flags):
    """The same, and a twin whose every second entry is denied."""
    return (own_allowed(suite, case, *flags)
            + suite.contend(case, TWIN, loads.own_bench, *flags, "--denied-share=0.5"))


BY_HANDLE = ("--handles",)


def sized(batch):
    return [f"--batch={batch}", *([f"--window={LARGE_FRAMES}"] if batch >= 4096 else [])]


def redis_load(suite, server, case, pipeline=REDIS_PIPELINE):
    return Contender(case, "redis",
                     loads.RedisLoad(suite, server, pipeline, loads.INCR))


def redis_with_keys(suite, stack):
    """A Redis server that has the keys, or None."""
    server = suite.offered(stack, servers.redis)
    if server:
        loads.meet_keys(suite, server, loads.INCR)
    return server


# --------------------------------------------------------------------- R0, R1: in process


def in_process(rung, program, pattern, unit, suite):
    for number in range(1, suite.rounds + 1):
        try:
            with suite.observed() as conditions:
                results = loads.google_benchmark(suite, program, pattern, unit)
        except Trouble as fault:
            suite.leave_out(str(fault))
            return
        for name, figures in results.items():
            suite.note(rung, f"{rung} {name}", OURS, number, figures, conditions)


# --------------------------------------------------------------------------- R2, R3: echo


def echo(rung, item_bytes, batch, suite):
    case = f"{rung} echo of {item_bytes} bytes"
    flags = (f"--item-bytes={item_bytes}", f"--batch={batch}")
    suite.interleave(rung, [
        Contender(case, "loopback_limits", partial(loads.limits, suite, "echo", *flags)),
        Contender(case, "snail", partial(loads.snail, suite, item_bytes))])


# ---------------------------------------------------------------------------- R4: replay


def keyed(suite):
    case = keyed_case(KEYS)
    with contextlib.ExitStack() as stack:
        contenders = [one for keys in KEY_COUNTS
                      for one in own(suite, keyed_case(keys), f"--keys={keys}", "--batch=256")]
        if server := redis_with_keys(suite, stack):
            contenders.append(redis_load(suite, server, case))
        if server := suite.offered(stack, servers.throttlecrab):
            loads.meet_keys(suite, server, loads.THROTTLE)
            load = loads.RedisLoad(suite, server, THROTTLECRAB_PIPELINE, loads.THROTTLE)
            contenders.append(Contender(case, "throttlecrab", load))
        if server := suite.offered(stack, servers.gubernator):
            loads.gubernator(suite, server, 1 if suite.quick else 3)
            contenders.append(Contender(case, "gubernator",
                                        partial(loads.gubernator, suite, server)))
        suite.interleave("R4", contenders)


def batches(suite):
    with contextlib.ExitStack() as stack:
        server = redis_with_keys(suite, stack)
        contenders = own(suite, PIPELINED_CASE, "--batch=1", "--window=256")
        for batch in BATCHES:
            contenders += own(suite, batch_case(batch), *sized(batch))
            if server:
                contenders.append(redis_load(suite, server, batch_case(batch), batch))
        suite.interleave("R4", contenders)


def handles(suite):
    if not suite.knows("--handles"):
        return
    with contextlib.ExitStack() as stack:
        server = redis_with_keys(suite, stack)
        contenders = []
        for batch in HANDLE_BATCHES:
            contenders += own(suite, handles_case(batch), *BY_HANDLE, *sized(batch))
            if server:
                contenders.append(redis_load(suite, server, handles_case(batch)))
        suite.interleave("R4", contenders)


# ------------------------------------------------------ R5, R6, R7: through the real client


def client(suite):
    if suite.knows("--client"):
        suite.interleave("R5", own(suite, CLIENT_CASE, "--client", "--batch=256"))


def client_handles(suite):
    if not suite.knows("--client", "--handles"):
        return
    suite.interleave("R5", [
        *own(suite, CLIENT_HANDLES_CASE, "--client", *BY_HANDLE, *sized(4096)),
        Contender(CLIENT_HANDLES_CASE, "snail", partial(loads.snail, suite, 4))])


class Ceiling:
    """The closed loop's rate in this round; the open loop runs at shares of it."""

    def __init__(self, suite, batch):
        through_client = ["--client"] if suite.knows("--client") else []
        self.run = partial(loads.own_bench, suite, *through_client, f"--batch={batch}")
        self.per_s = 0.0

    def closed(self):
        figures = self.run()
        self.per_s = figures["per_s"]
        return figures

    def open(self, share):
        return loads.open_loop(self.run, self.per_s or self.closed()["per_s"], share)


def open_loop(suite):
    if not suite.knows("--rate"):
        return
    contenders = []
    for batch in OPEN_LOOP_BATCHES:
        ceilings = {OURS + end: Ceiling(version, batch) for end, version in suite.versions()}
        contenders += [Contender(f"R6 batch {batch}, closed loop", who, ceiling.closed)
                       for who, ceiling in ceilings.items()]
        contenders += [Contender(open_loop_case(batch, share), who, partial(ceiling.open, share))
                       for share in LOAD_SHARES for who, ceiling in ceilings.items()]
    suite.interleave("R6", contenders)


def long_keys(suite):
    if not suite.knows("--client"):
        return
    suite.interleave("R7", [
        *own(suite, LONG_KEYS_CASE, "--client", f"--key-bytes={LONG_KEY_BYTES}",
             "--batch=256", f"--window={LARGE_FRAMES}"),
        Contender(LONG_KEYS_CASE, "snail", partial(loads.snail, suite, LONG_KEY_BYTES))])


# ---------------------------------------------------------------------------- REST, limits


def rest(suite):
    need("taskset", "wrk")
    with contextlib.ExitStack() as stack:
        ours = {OURS + end: stack.enter_context(servers.sluicegate(version))
                for end, version in suite.versions()}
        starts = {"nginx": servers.nginx, "constant loop": servers.constant_http,
                  "gocc": servers.gocc}
        peers = {who: suite.offered(stack, start) for who, start in starts.items()}
        contenders = []
        for case, depth in ((REST_CASE, 1), (REST_PIPELINED_CASE, loads.PIPELINED)):
            for who, server in (ours | peers).items():
                if server:
                    run = partial(loads.wrk, suite, server, depth)
                    contenders.append(Contender(case, who, run))
        suite.interleave("REST", contenders)


def http2(suite):
    need("taskset", "h2load")
    with contextlib.ExitStack() as stack:
        starts = {"nginx": partial(servers.nginx, http2=True),
                  "gocc": partial(servers.gocc, http2=True)}
        running = {OURS + end: stack.enter_context(servers.sluicegate(version))
                   for end, version in suite.versions()}
        running |= {who: suite.offered(stack, start) for who, start in starts.items()}
        suite.interleave("h2", [
            Contender(case, who, partial(loads.h2load, suite, server, streams))
            for case, streams in ((HTTP2_CASE, 100), (HTTP2_FEW_CASE, 10))
            for who, server in running.items() if server])


def raw(suite):
    suite.interleave("raw", [
        *own_allowed(suite, RAW_CASE, f"--keys={KEYS}", "--batch=256"),
        *own_allowed(suite, RAW_HANDLES_CASE, f"--keys={KEYS}", *BY_HANDLE, *sized(4096)),
        *(Contender(case, "raw loopback", partial(loads.limits, suite, "raw"))
          for case in (RAW_CASE, RAW_HANDLES_CASE))])


def idle(suite):
    with contextlib.ExitStack() as stack:
        contenders = own_allowed(suite, IDLE_CASE, "--connections=1", "--window=1", "--batch=1",
                                 "--keys=1000")
        if server := suite.offered(stack, servers.redis):
            contenders.append(Contender(IDLE_CASE, "redis",
                                        partial(loads.redis_ping, suite, server)))
        suite.interleave("idle", contenders)


# --------------------------------------------------------------------------------- memory


def memory_run(suite):
    """A new server each time: memory resident before counts too."""
    need("taskset")
    with servers.sluicegate(suite, KEYS_IN_MEMORY * 12 // 10) as server:
        # Connection buffers do not grow with the keys: they exist before.
        loads.bench_of(suite, server, "--keys=1000")
        before = resident_bytes(server.pid)
        figures = loads.bench_of(suite, server, f"--keys={KEYS_IN_MEMORY}")
        after = resident_bytes(server.pid)
        held = loads.keys_held(server)
    if held != KEYS_IN_MEMORY:
        raise Trouble(f"the server holds {held:,} keys instead of {KEYS_IN_MEMORY:,}: its "
                      "--max-keys is too low for the test")
    per_key = (after - before) / held
    return figures | {"resident_bytes_before": before, "resident_bytes": after,
                      "bytes_per_key": per_key,
                      "bytes_beside_key": per_key - loads.KEY_BYTES}


def memory(suite):
    """Runs once: other programs do not affect it."""
    suite.run_once("memory", Contender(MEMORY_CASE, OURS, partial(memory_run, suite)), 1)
