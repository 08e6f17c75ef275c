"""Pairs of reserve and settle in Redis, as its users write them: a Lua script for each, pipelined.

A call with several subjects is one script over their keys. The scripts do less than the server: a
subject's three counters are in a hash; no window ends or
slides, no reservation is stored, no caller waits. redis-benchmark sends one command at a time, so
each script has a run of its own, and a pair takes the time of both.
"""

import subprocess

from suite import loads
from suite.machine import Trouble

PIPELINE = 256
CONNECTIONS = 50

# KEYS: the subjects; ARGV: input tokens, most output tokens.
RESERVE = """
local tokens = ARGV[1] + ARGV[2]
for _, subject in ipairs(KEYS) do
  local used = redis.call('HMGET', subject, 'rpm', 'tpm', 'tph')
  if (used[1] or 0) + 1 > 1e12 or (used[2] or 0) + tokens > 1e15
      or (used[3] or 0) + tokens > 1e15 then
    return 0
  end
end
for _, subject in ipairs(KEYS) do
  redis.call('HINCRBY', subject, 'rpm', 1)
  redis.call('HINCRBY', subject, 'tpm', tokens)
  redis.call('HINCRBY', subject, 'tph', tokens)
end
return 1
"""

# KEYS: the subjects; ARGV: the amount used minus the amount reserved.
SETTLE = """
for _, subject in ipairs(KEYS) do
  redis.call('HINCRBY', subject, 'tpm', ARGV[1])
  redis.call('HINCRBY', subject, 'tph', ARGV[1])
end
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
        self.reserve, self.settle = script_id(server, RESERVE), script_id(server, SETTLE)
        self.requests = {}  # requests of each half in a run, by the numbers of subjects

    def run(self, subjects, of_one_call=1):
        """Runs both halves, together as long as other ways. No run creates subjects."""
        names = ["SUBJECT"] * of_one_call
        halves = [("EVALSHA", self.reserve, of_one_call, *names, 900, 500),
                  ("EVALSHA", self.settle, of_one_call, *names, -200)]
        way = (subjects, of_one_call)
        if way not in self.requests:
            self.load(halves[0], subjects, max(3 * subjects, 50_000))
            self.requests[way] = 50_000
            self.run(subjects, of_one_call)
        runs = [self.load(half, subjects, self.requests[way]) for half in halves]
        pair_s = sum(1 / run["per_s"] for run in runs)
        self.requests[way] = max(int(self.suite.seconds / pair_s), 10_000)
        return {"per_second": 1 / pair_s,
                "p50_us": sum(run["latency_us"]["p50"] for run in runs),
                "cpu_share": sum(run["client_cpu_s"] for run in runs)
                / sum(run["seconds"] for run in runs)}

    def load(self, half, subjects, requests):
        subject = "subject:__rand_int__" if subjects > 1 else "subject"
        return loads.redis_benchmark(self.suite, self.server, requests, PIPELINE,
                                     [subject if word == "SUBJECT" else word for word in half],
                                     subjects, CONNECTIONS)
