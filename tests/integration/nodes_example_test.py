"""The worked example of docs/nodes.md: three nodes on one machine do what the page shows.

Method: all its commands run in one shell, one after the other; only the ports are free ones instead
of the documented ones. A command prints what the text has behind it, where `...` stands for
anything."""

import re
import subprocess

from documented_examples_test import ROOT, commands_of
from fleet import free_ports
from server_process import binary, clean_environment

PAGE = (ROOT / "docs/nodes.md").read_text()
END = "--- end of command {} ---"
# Nodes that a failed test leaves end with the shell.
BEGIN = """
trap 'kill -9 $(jobs -p) 2>/dev/null' EXIT
curl() { command curl -sS "$@"; }
"""


def documented_commands():
    blocks = re.findall(r"^```\n(\$ .*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [command for block in blocks for command in commands_of(block)]


def run_all(commands, folder, ports):
    (folder / "sluicegate").symlink_to(binary())
    environment = clean_environment()
    environment.update(PATH=f"{folder}:{environment['PATH']}", PORT=ports[0], NATIVE_PORT=ports[1])
    script = BEGIN + "".join(f"{command}\necho '{END.format(i)}'\n"
                             for i, command in enumerate(commands))
    return subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True,
                          capture_output=True, timeout=100, check=False)


def test_three_nodes_do_what_is_documented(tmp_path):
    ports = [str(port) for port in free_ports(2)]

    def with_ports(text):
        return text.replace(":8080", f":{ports[0]}").replace(":8081", f":{ports[1]}")

    documented = [(with_ports(command), with_ports(output))
                  for command, output in documented_commands()]
    result = run_all([command for command, _ in documented], tmp_path, ports)
    rest = result.stdout.replace("\r", "")
    logs = "\n".join(log.read_text()[-2_000:] for log in sorted(tmp_path.glob("node?.log")))
    for i, (command, output) in enumerate(documented):
        printed, end, rest = rest.partition(END.format(i) + "\n")
        is_as_documented = re.fullmatch(re.escape(output).replace(r"\.\.\.", ".*"), printed.strip(),
                                        re.DOTALL)
        assert end and is_as_documented, (
            f"{command}\nprinted\n{printed}\n{result.stderr}\nwhere the text has\n{output}\n{logs}")
