"""The commands in README and docs do what their text shows.

Method: each block with `$ COMMAND` lines runs in a shell, against a server of its own. What a
command prints is held against what is documented behind it: numbers, dates and ids may be others,
`...` stands for anything. An id that was printed replaces the documented one in later commands.
"""

import json
import os
import pathlib
import re
import subprocess

import pytest

from conftest import LONG_WINDOW
from server_process import binary, clean_environment

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["README.md", "docs/quotas.md", "docs/rest.md", "docs/configuration.md"]

# What has happened before a block, by the beginning of its first command.
PUT = "curl -X PUT localhost:8080/v1/subjects/{} -d '{{\"limits\": [{}]}}'"
TOKENS = '{"name": "tpm", "metric": "tokens", "amount": 30000, "period_ms": 60000}'
SLOTS = '{"name": "slots", "metric": "concurrency", "amount": 1}'
BEFORE = {
    "curl localhost:8080/debug/user:17": ["curl -X POST localhost:8080/rate/user:17"],
    "curl 'localhost:8080/top": ["curl -X POST localhost:8080/rate/user:17"],
    "sluicegate quota holders": [
        PUT.format("gpt-4o", TOKENS),
        "sluicegate reserve gpt-4o --input-tokens 900 --max-output-tokens 500 --owner 'job 7'"],
    "curl localhost:8080/v1/position": [
        PUT.format("gpt-4o", SLOTS), PUT.format("acme", TOKENS), "sluicegate reserve gpt-4o",
        "curl localhost:8080/v1/reserve -d '{\"subjects\": [\"gpt-4o\", \"acme\"], "
        "\"id\": \"job 7\", \"wait_limit_ms\": 60000}' >answer 2>&1 &\n"
        "until curl localhost:8080/v1/position -d '{\"subjects\": [\"gpt-4o\", \"acme\"], "
        "\"id\": \"job 7\"}'; do sleep 0.05; done"],
    "curl localhost:8080/v1/consume": [PUT.format("gpt-4o", TOKENS), PUT.format("acme", TOKENS)],
}
STARTS_A_SERVER = re.compile(r"sluicegate --config-file")

ID = re.compile(r"\b[0-9a-f]{16}\b")
VARIABLE = re.compile(r"(?P<any>\.\.\.)|(?P<id>\b[0-9a-f]{16}\b)|(?P<space>\s+)"
                      r"|(?P<date>\w{3}, \d+ \w{3} \d+ \d+:\d+:\d+ GMT)|(?P<number>\d+(\.\d+)?)")
MEANINGS = {"any": ".*", "id": "([0-9a-f]{16})", "space": r"\s+", "number": r"\d+(?:\.\d+)?",
            "date": r"\w{3}, \d+ \w{3} \d+ \d+:\d+:\d+ GMT"}


def blocks():
    """(page and line, [(command, documented output)])"""
    for page in PAGES:
        text = (ROOT / page).read_text()
        for block in re.finditer(r"^```\n(\$ .*?)^```$", text, re.DOTALL | re.MULTILINE):
            line = text.count("\n", 0, block.start()) + 2
            yield f"{page}:{line}", list(commands_of(block[1]))


def commands_of(block):
    """A command goes on as long as a quote is open."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        command = re.sub(r"\s+# .*", "", lines.pop(0))
        while command.count("'") % 2 == 1:
            command += "\n" + lines.pop(0)
        yield command, "\n".join(lines).strip()


def pattern_of(documented):
    pattern, end = "", 0
    for found in VARIABLE.finditer(documented):
        pattern += re.escape(documented[end:found.start()]) + MEANINGS[found.lastgroup]
        end = found.end()
    return pattern + re.escape(documented[end:])


def shape(value):
    """A JSON value with its names and types alone; of a list, its first element."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return float if isinstance(value, (int, float)) else type(value)


class Shell:
    """Runs commands as they are documented, with this server and the ids that were printed."""

    def __init__(self, server, folder):
        self._server, self._folder, self._ids = server, folder, {}
        (folder / "packaging").symlink_to(ROOT / "packaging")
        (folder / "limits.json").symlink_to(ROOT / "packaging/examples/limits.json")

    def run(self, command):
        server = self._server
        command = ID.sub(lambda id: self._ids.get(id[0], id[0]), command)
        command = command.replace("localhost:8080", f"127.0.0.1:{server.port}")
        command = re.sub(r"\b(build/release/src/)?sluicegate (?=[a-z])", "$sluicegate ", command)
        environment = {**clean_environment(), "sluicegate": str(binary()),
                       "SLUICEGATE_ADDRESS": f"127.0.0.1:{server.native_port}",
                       "SLUICEGATE_REST_ADDRESS": f"127.0.0.1:{server.port}"}
        script = 'set -eu; curl() { command curl -sS --fail-with-body "$@"; }; ' + command
        return subprocess.run(["bash", "-c", script], cwd=self._folder, env=environment, text=True,
                              capture_output=True, timeout=60, check=False)

    def remember(self, documented, printed):
        for id, other in zip(ID.findall(documented), printed):
            self._ids[id] = other


def check_output(documented, result, shell):
    printed = result.stdout.replace("\r", "").strip()
    if "..." not in documented and documented.startswith("{"):
        assert shape(json.loads(printed)) == shape(json.loads(documented))
        return
    matched = re.fullmatch(pattern_of(documented), printed, re.DOTALL)
    assert matched, f"{printed}\n{result.stderr}\nwhere the text has\n{documented}"
    shell.remember(documented, matched.groups())


BLOCKS = dict(blocks())


@pytest.mark.parametrize("place", BLOCKS)
def test_commands_print_what_is_documented(start_server, tmp_path, place):
    shell = Shell(start_server(*LONG_WINDOW), tmp_path)
    commands = BLOCKS[place]
    for first, before in BEFORE.items():
        if commands[0][0].startswith(first):
            for command in before:
                result = shell.run(command)
                assert result.returncode == 0, (command, result)
    for command, documented in commands:
        if STARTS_A_SERVER.search(command):
            continue
        result = shell.run(command)
        if documented:
            check_output(documented, result, shell)
        else:
            assert result.returncode == 0, (command, result)


def test_all_blocks_are_found():
    count = sum(len(re.findall(r"^\$ ", (ROOT / page).read_text(), re.MULTILINE)) for page in PAGES)
    assert sum(len(commands) for commands in BLOCKS.values()) == count
    assert set(BEFORE) == {first for first in BEFORE for commands in BLOCKS.values()
                           if commands[0][0].startswith(first)}
    assert os.access(binary(), os.X_OK)
