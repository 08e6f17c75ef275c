"""The package builds, installs and is typed, without a network.

Method: a wheel from a copy of the sources, an installation in another folder, mypy in strict mode
and pyright over the client, the examples and a user's program; a check of the API's documentation.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile

import pytest

import sluicegate

PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "clients" / "python"


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=100, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy, so that building leaves nothing behind."""
    copy = tmp_path_factory.mktemp("package") / "python"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_a_wheel_builds_and_runs_alone(sources, tmp_path):
    run(sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation",
        "--wheel-dir", tmp_path, sources)
    wheel, = tmp_path.glob("*.whl")
    assert wheel.name == f"sluicegate-{sluicegate.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert "sluicegate/py.typed" in names
    assert not [name for name in names if not name.startswith("sluicegate")]
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", wheel)
    out = run(python, "-I", "-W", "error", "-c", "import sluicegate, sys; print(sluicegate.Client, "
              "'site-packages' in sluicegate.__file__)")
    assert "True" in out


def test_pip_installs_the_folder(sources, tmp_path):
    run(sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--target",
        tmp_path, sources)
    assert (tmp_path / "sluicegate" / "py.typed").exists()
    metadata, = tmp_path.glob("sluicegate-*.dist-info/METADATA")
    text = metadata.read_text()
    assert "Requires-Dist" not in text and "Requires-Python: >=3.11" in text


def test_mypy_in_strict_mode(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(USER)
    out = run(sys.executable, "-m", "mypy", "--config-file", PACKAGE / "pyproject.toml",
              "--cache-dir", tmp_path / "cache", PACKAGE / "src" / "sluicegate", user,
              *(PACKAGE / "examples").glob("*.py"),
              env={"MYPYPATH": str(PACKAGE / "src"), "PATH": "/usr/bin:/bin"})
    assert "Success" in out


# Their bases are of other packages, which pyright does not follow when it verifies types.
OF_OTHER_BASES = {"sluicegate.limits_storage.SluicegateStorage",
                  "sluicegate.limits_storage.AsyncSluicegateStorage",
                  "sluicegate.litellm.SluicegateCallback"}


def test_every_public_name_has_a_type_that_all_checkers_know(sources, tmp_path):
    run(sys.executable, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--target",
        tmp_path, sources)
    out = subprocess.run(
        [pathlib.Path(sys.executable).parent / "basedpyright", "--pythonpath", sys.executable,
         "--ignoreexternal", "--verifytypes", "sluicegate", "--outputjson"],
        capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)}).stdout
    symbols = json.loads(out)["typeCompleteness"]["symbols"]
    assert len(symbols) > 600, out
    unclear = {symbol["name"]: [each["message"] for each in symbol["diagnostics"]]
               for symbol in symbols
               if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]}
    assert unclear.keys() == OF_OTHER_BASES, unclear
    assert {message for messages in unclear.values() for message in messages} == {
        "Type of metaclass unknown", "Type of base class unknown"}, unclear


USER = '''
import asyncio
import sluicegate


def ask(client: sluicegate.Client) -> list[bool]:
    verdict: sluicegate.Verdict = client.acquire("a", wait=True, wait_limit=1.5, timeout=None)
    if not verdict and verdict.decided_by_policy:
        return []
    handles: sluicegate.Handles = client.intern(["a", b"b"])
    client.acquire_many_handles(memoryview(handles)[1:])
    state = client.inspect("a")
    print(state.approved if state is not None else 0)
    return client.acquire_many(("a", "b"), costs=[1, 2], details=sluicegate.Details.ALL).approved


def guarded(client: sluicegate.Client) -> int:
    client.put_quota("m", [sluicegate.Limit("tpm", "tokens", 30_000, 60),
                           {"name": "c", "metric": "concurrency", "amount": 4}])
    try:
        with client.reserve(["{a}", "{a}m"], input_tokens=5, lifetime=60.0) as reservation:
            reservation.settle(5, output_tokens=7)
    except sluicegate.QuotaDenied as denied:
        wait: float | None = denied.retry_after
        print(wait, denied.violated[0].name, denied.code.reason)
    with client.lease(["p", b"floor 3"], lifetime=5, renew=True) as lease:
        print(lease.held)
    one: sluicegate.Usage = client.usage("m")
    two: list[sluicegate.Usage] = client.usage(["m", b"n"])
    results = client.reserve_many(["m", ["{a}", "{a}m"]], input_tokens=[1, 2])
    client.settle_many(results.reservations, output_tokens=3)
    return one.stats.tpm + len(two) + client.decide("m", 5).stats.max_tpm


async def reserved(client: sluicegate.AsyncClient) -> list[str]:
    async with client.reserve("m", wait=True, wait_limit=1.5) as reservation:
        await reservation.settle(1, 2)
    awaited: sluicegate.AsyncReservation = await client.wait_for_capacity("m", 5)
    await awaited.cancel(keep_requests=True)
    async with client.lease(["p", "floor 3"]) as lease:
        print(lease.held)
    return [usage.subject async for usage in client.subjects()]


async def tasks() -> list[sluicegate.Verdict]:
    async with sluicegate.AsyncClient("localhost:8081", on_failure="open") as client:
        @client.limited("user:{user}", sluicegate.Rate(5, 60.0), cost=2)
        async def greet(user: str) -> str:
            return user

        name: str = await greet("ann")
        return list(await asyncio.gather(client.acquire(name), client.acquire("b")))
'''


def modules_after(statement):
    """The packages that a fresh interpreter has imported after a statement."""
    out = run(sys.executable, "-c", f"{statement}\nimport sys; print(*sorted(sys.modules))",
              env={"PYTHONPATH": str(PACKAGE / "src")})
    return {name.split(".")[0] for name in out.split()}


@pytest.mark.parametrize("module, framework", [
    ("sluicegate", None), ("sluicegate.asgi", None), ("sluicegate.wsgi", None),
    ("sluicegate.fastapi", "fastapi"), ("sluicegate.django", "django")])
def test_only_the_integration_of_a_framework_imports_it(module, framework):
    frameworks = {"starlette", "fastapi", "flask", "django", "asgiref"}
    imported = modules_after(f"import {module}") & frameworks
    assert (framework in imported) if framework else not imported
    if framework == "django":
        assert imported == {"django", "asgiref"}


def test_the_version_equals_the_servers():
    meson = (PACKAGE.parents[1] / "meson.build").read_text()
    assert re.search(r"version: '([\d.]+)'", meson)[1] == sluicegate.__version__
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    assert "dependencies" not in project


def test_the_readme_has_every_public_name_and_error():
    readme = (PACKAGE / "README.md").read_text()
    for name in sluicegate.__all__:
        if name not in ("ErrorCode", "Welcome", "Handles", "NO_HANDLE"):
            assert name in readme, name
    for linked in re.findall(r"\((examples/\w+\.py)\)", readme):
        assert (PACKAGE / linked).exists(), linked
