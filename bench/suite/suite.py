"""One measurement: its options, its interleaved runs, and the runs it had to leave out."""

import contextlib
import dataclasses
import functools
import os
import pathlib
import subprocess
import time
from dataclasses import dataclass, field
from typing import Callable

from . import machine, parse
from .machine import Trouble, report
from .records import Records

OURS = "sluicegate"
TWIN = "sluicegate, half denied"
ATTEMPTS = 3  # of a run that other machines disturb
BEFORE = ", before"  # ends the name of a contender that runs the server of --against


@dataclass(frozen=True)
class Contender:
    """A program that runs for a case; the summary compares the contenders of one case."""
    case: str
    who: str
    run: Callable[[], dict]
    steal_percent_max: float | None = None  # a run that lost more is repeated

    @property
    def is_needed(self):
        """Without it a rung has no result."""
        return self.who.startswith(OURS) and not self.who.endswith(BEFORE)


@dataclass
class Suite:
    server: pathlib.Path
    build: pathlib.Path
    scratch: pathlib.Path
    records: Records
    rounds: int = 5
    seconds: float = 5
    quick: bool = False
    server_cpu: int = 0
    client_cpu: int = 1
    io: str = ""
    gubernator: str = ""
    gocc: str = ""
    snail_tests: str = ""
    against: pathlib.Path | None = None
    cases: str = ""
    left_out: list = field(default_factory=list)
    facts: dict = field(default_factory=machine.facts)
    measurement: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%S"))

    @property
    def server_flags(self):
        return [f"--io={self.io}"] if self.io else []

    # ------------------------------------------------------------------ the server before

    def versions(self):
        """(the end of a contender's name, the suite of its server), of --against too."""
        yield "", self
        if self.against:
            yield BEFORE, dataclasses.replace(self, server=self.against, against=None)

    def contend(self, case, who, run, *arguments, needs=()):
        """A contender for each version whose load tool has the options that the run needs; its run
        is run(suite, *arguments)."""
        return [Contender(case, who + end, functools.partial(run, version, *arguments))
                for end, version in self.versions() if version.knows(*needs)]

    # ------------------------------------------------------------------ available programs

    @functools.cached_property
    def bench_help(self):
        done = subprocess.run([self.server, "bench", "--help"], capture_output=True, text=True,
                              check=False, timeout=30)
        return done.stdout + done.stderr

    def knows(self, *options):
        """Whether the load tool has all these options; notes a missing one once."""
        missing = [option for option in options if not parse.knows(self.bench_help, option)]
        for option in missing:
            self.leave_out(f"runs with {option} are left out: `sluicegate bench` does not know it")
        return not missing

    def limits(self, way, option):
        """loopback_limits, when it is built and has the option."""
        program = self.build / "bench/limits/loopback_limits"
        if not os.access(program, os.X_OK):
            raise Trouble(f"loopback_limits {way} is left out: there is no "
                          "bench/limits/loopback_limits in the build folder, tools/build makes it")
        helps = [subprocess.run([program, *words, "--help"], capture_output=True, text=True,
                                check=False, timeout=30).stdout for words in ([], [way])]
        if not any(parse.knows(text, option) for text in helps):
            raise Trouble(f"loopback_limits {way} is left out: it does not know {option}")
        return program

    def leave_out(self, line):
        if line not in self.left_out:
            self.left_out.append(line)
            report(f"  {line}")

    def offered(self, stack, start):
        """A peer that runs as long as the stack, or None and a line with the reason."""
        try:
            return stack.enter_context(start(self))
        except Trouble as fault:
            self.leave_out(str(fault))
            return None

    # ------------------------------------------------------------------ runs

    @contextlib.contextmanager
    def observed(self):
        """Fills in the machine's conditions during the block."""
        conditions = {"at": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        before = machine.cpu_ticks()
        yield conditions
        conditions["steal_percent"] = machine.steal_percent(before, machine.cpu_ticks())
        conditions["load_average"] = os.getloadavg()[0]

    def note(self, rung, case, who, number, figures, conditions):
        """Writes a run's line, for programs and for the reader."""
        pinning = f"server {self.server_cpu}, load {self.client_cpu}"
        self.records.append({"measurement": self.measurement, "rung": rung, "case": case,
                             "who": who, "round": number, "pinning": pinning, **figures,
                             **conditions, **self.facts,
                             **({"against": str(self.against)} if self.against else {})})
        report(f"  {case:<38} {who:<24} {described(figures)}")

    def run_quietly(self, rung, contender, number):
        """Repeats a run that other machines disturbed; the lines of the others are marked."""
        most = contender.steal_percent_max
        for _ in range(ATTEMPTS):
            with self.observed() as conditions:
                figures = contender.run()
            disturbed = most is not None and conditions["steal_percent"] > most
            mark = {"disturbed": True} if disturbed else {}
            self.note(rung, contender.case, contender.who, number, figures, conditions | mark)
            if not disturbed:
                return

    def run_once(self, rung, contender, number):
        """False when the contender cannot run; when ours cannot, the rung ends."""
        if self.cases not in contender.case:
            return True
        try:
            self.run_quietly(rung, contender, number)
        except (Trouble, OSError) as fault:
            if contender.is_needed:
                raise
            line = str(fault)
            self.leave_out(line if "left out" in line
                           else f"{contender.who} is left out of the rest: {line}")
            return False
        return True

    def interleave(self, rung, contenders):
        """A B A B ...: other programs on this machine disturb all contenders alike."""
        for number in range(1, self.rounds + 1):
            contenders = [contender for contender in contenders
                          if self.run_once(rung, contender, number)]


UNITS = {"decisions": "decisions/s", "items": "items/s", "requests": "requests/s",
         "bytes": "bytes/s", "pings": "pings/s"}


def described(figures):
    parts = []
    if "per_s" in figures:
        parts.append(f"{figures['per_s']:14,.0f} {UNITS[figures['unit']]}")
    if figures.get("latency_us", {}).get("p50") is not None:
        parts.append(f"p50 {figures['latency_us']['p50']:,.0f} us")
    if "kept_up" in figures:
        parts.append(f"p99 {figures['latency_us']['p99']:,.0f} us")
    if "bytes_per_key" in figures:
        parts.append(f"{figures['bytes_per_key']:.1f} bytes a key")
    for side in ("server", "client"):
        if f"{side}_busy" in figures:
            parts.append(f"{side} {figures[f'{side}_busy']:.0%}")
    return ", ".join(parts)
