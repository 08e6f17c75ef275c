"""The code of the package's README runs as it stands, and prints what its comments say.

Method: runs each block against the real server, with the reader's own names (keys, prompt, ...)
given; a line that prints has the printed text as its comment, up to a colon.
"""

import ast
import asyncio
import inspect
import pathlib
import re
import types

from real_server import serving

import sluicegate

PAGE = pathlib.Path(sluicegate.__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PRINTS = re.compile(r"^ *print\(.*\)  +# ([^:\n]*)", re.M)


def blocks():
    return BLOCK.findall(PAGE.read_text())


async def run(code, names):
    """Runs a block in which `await` stands outside of functions, as in `python -m asyncio`."""
    compiled = compile(code, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = types.FunctionType(compiled, names)()
    if inspect.isawaitable(done):
        await done


def test_the_code_runs_and_prints_what_its_comments_say(capsys):
    expected = [line.strip() for code in blocks() for line in PRINTS.findall(code)]
    assert len(blocks()) >= 3 and "approved" in expected
    assert sum(code.count("print(") for code in blocks()) == len(expected), "a print has no comment"

    async def main(address):
        with sluicegate.Client(address) as client:
            client.put_quota("printer", [sluicegate.Limit("slots", "concurrency", 1)])
            async with sluicegate.AsyncClient(address) as async_client:
                names = {"client": client, "async_client": async_client, "prompt": "hello",
                         "keys": [f"user:{n}" for n in range(200)],
                         "ask_the_model": lambda _: types.SimpleNamespace(input_tokens=2,
                                                                          output_tokens=3)}
                for code in blocks():
                    await run(code.replace("localhost:8081", address), {**names,
                                                                        "sluicegate": sluicegate})
    with serving("epoll-1") as server:
        asyncio.run(main(f"127.0.0.1:{server.native_port}"))
    assert capsys.readouterr().out.splitlines() == expected
