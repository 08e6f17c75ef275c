"""The suite's view of the machine: its packages, its cores, and its state during a run."""

import contextlib
import os
import pathlib
import platform
import re
import shutil
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Programs built or installed for the suite alone, kept between runs.
PEERS_FOLDER = ROOT / "build/bench/peers"
PACKAGES = {"redis-server": "redis-server", "redis-benchmark": "redis-tools", "nginx": "nginx",
            "wrk": "wrk", "h2load": "nghttp2-client", "taskset": "util-linux",
            "protoc": "protobuf-compiler"}
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Trouble(Exception):
    """The reason why a measurement cannot run, in one sentence, with its cure."""


def report(text):
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def no_services():
    """Keeps Debian from starting newly installed packages as services."""
    policy = pathlib.Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    try:
        if ours:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)


def need(*commands):
    """Installs the Debian packages of the commands that are missing."""
    if "/usr/sbin" not in os.environ.get("PATH", "").split(":"):
        os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = sorted({PACKAGES[command] for command in commands if not shutil.which(command)})
    if not missing:
        return
    report(f"installing {' '.join(missing)} ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        with no_services():
            for command in (["apt-get", "update", "-qq"],
                            ["apt-get", "install", "-y", "-qq", "--no-install-recommends",
                             *missing]):
                subprocess.run(command, check=True, env=environment, timeout=500,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    except (subprocess.SubprocessError, OSError) as fault:
        raise Trouble(f"cannot install {' '.join(missing)} ({fault}): "
                      "install it as root, or name other rungs") from fault


def cargo_installed(crate):
    """A program of crates.io, built once into the suite's own folder."""
    program = PEERS_FOLDER / "bin" / crate
    if os.access(program, os.X_OK):
        return program
    if not shutil.which("cargo"):
        raise Trouble(f"neither {crate} nor cargo is installed: install Rust's cargo, "
                      f"or put the program at {program.relative_to(ROOT)}")
    need("protoc")  # its gRPC part does not compile without
    report(f"building {crate} (some minutes, only the first time) ...")
    try:
        subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", PEERS_FOLDER, crate],
                       check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       timeout=1800)
    except subprocess.SubprocessError as fault:
        raise Trouble(f"cannot build {crate} ({fault}): put the program at "
                      f"{program.relative_to(ROOT)}") from fault
    return program


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pinned(core, *command):
    return ["taskset", "-c", str(core), *map(str, command)]


# ----------------------------------------------------------------------- figures from /proc


def processes_of(pid):
    """The process and its children: nginx has a master and a worker."""
    children = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        children += [int(child) for child in (task / "children").read_text().split()]
    return [pid, *children]


def cpu_s(pid):
    """User and system time of a server's processes until now."""
    ticks = 0
    for process in processes_of(pid):
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S


def resident_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def cpu_ticks():
    """(stolen, all) ticks of all cores since the machine started."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    ticks = [int(field) for field in fields[:8]]  # guest times are in user time already
    return ticks[7], sum(ticks)


def steal_percent(before, after):
    """The share of the time between two cpu_ticks() that other machines took from the cores."""
    passed = after[1] - before[1]
    return 100 * (after[0] - before[0]) / passed if passed > 0 else 0.0


def cpu_model():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return model[1] if model else platform.machine()


def commit():
    """The commit of the tree, with a + when the tree has uncommitted changes."""
    def git(*words):
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True,
                              check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    try:
        return (git("rev-parse", "--short", "HEAD") or "unknown") + (
            "+" if git("status", "--porcelain", "--untracked-files=no") else "")
    except OSError:
        return "unknown"


def facts():
    """The fields about the machine in every line."""
    return {"commit": commit(), "kernel": platform.release(), "cpu": cpu_model(),
            "cores": os.cpu_count()}
