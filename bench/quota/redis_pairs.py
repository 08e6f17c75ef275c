"""Pairs of reserve and settle in Redis, as its users write them: a Lua script for each, pipelined.

The scripts do less than the server: a subject's three counters are in a hash; no window ends or
slides, no reservation is stored, no caller waits. redis-benchmark sends one command at a time, so
each script has a run of its own, and a pair takes the time of both.
"""

import subprocess

from suite import loads
from suite.machine import Trouble

PIPELINE = 256
CONNECTIONS = 50

# KEYS[1]: the subject; ARGV: input tokens, most output tokens.
RESERVE = """
local tokens = ARGV[1] + ARGV[2]
local used = redis.call('HMGET', KEYS[1], 'rpm', 'tpm', 'tph')
if (used[1] or 0) + 1 > 1e12 or (used[2] or 0) + tokens > 1e15
    or (used[3] or 0) + tokens > 1e15 then
  return 0
end
redis.call('HINCRBY', KEYS[1], 'rpm', 1)
redis.call('HINCRBY', KEYS[1], 'tpm', tokens)
redis.call('HINCRBY', KEYS[1], 'tph', tokens)
return 1
"""

# KEYS[1]: the subject; ARGV: the amount used minus the amount reserved.
SETTLE = """
redis.call('HINCRBY', KEYS[1], 'tpm', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'tph', ARGV[1])
return 1
"""


def script_id(server, script):
    done = subprocess.run(["redis-cli", "-p", str(server.port), "SCRIPT", "LOAD", script],
                          capture_output=True, text=True, check=False, timeout=10)
    if done.returncode != 0 or len(done.stdout.strip()) != 40:
        raise Trouble(f"redis-cli: {done.stderr or done.stdout}")
    return done.stdout.strip()


class RedisPairs:
    """A Redis server that has loaded both scripts."""

    def __init__(self, suite, server):
        self.suite, self.server = suite, server
        self.halves = [("EVALSHA", script_id(server, RESERVE), 1, "SUBJECT", 900, 500),
                       ("EVALSHA", script_id(server, SETTLE), 1, "SUBJECT", -200)]
        self.requests = {}  # requests of each half in a run, by the number of subjects

    def run(self, subjects):
        """Runs both halves, together as long as other ways. No run creates subjects."""
        if subjects not in self.requests:
            self.load(self.halves[0], subjects, max(3 * subjects, 50_000))
            self.requests[subjects] = 50_000
            self.run(subjects)
        runs = [self.load(half, subjects, self.requests[subjects]) for half in self.halves]
        pair_s = sum(1 / run["per_s"] for run in runs)
        self.requests[subjects] = max(int(self.suite.seconds / pair_s), 10_000)
        return {"per_second": 1 / pair_s,
                "p50_us": sum(run["latency_us"]["p50"] for run in runs),
                "cpu_share": sum(run["client_cpu_s"] for run in runs)
                / sum(run["seconds"] for run in runs)}

    def load(self, half, subjects, requests):
        subject = "subject:__rand_int__" if subjects > 1 else "subject"
        return loads.redis_benchmark(self.suite, self.server, requests, PIPELINE,
                                     [subject if word == "SUBJECT" else word for word in half],
                                     subjects, CONNECTIONS)
