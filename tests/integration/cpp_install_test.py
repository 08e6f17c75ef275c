"""Goal: a program needs only the installed C++ client, and the installed server runs and finds its
profiles. Method: installs all into a folder; compiles and links an example with the flags of
pkg-config."""

import os
import pathlib
import re
import subprocess

BUILD = pathlib.Path(os.environ["SLUICEGATE_BUILD"])
EXAMPLES = pathlib.Path(os.environ["SLUICEGATE_SOURCE"]) / "clients" / "cpp" / "examples"


def run(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_example_compiles_against_the_installed_client(tmp_path):
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--tags", "devel", "--destdir", tmp_path)
    description, = tmp_path.rglob("sluicegate-client.pc")
    environment = os.environ | {
        "PKG_CONFIG_PATH": str(description.parent), "PKG_CONFIG_SYSROOT_DIR": "",
        "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1"}
    prefix = run("pkg-config", "--variable=prefix", "sluicegate-client", env=environment).strip()
    # pkg-config finds the staged files by the prefix that they have in the folder.
    assert run("pkg-config", "--print-requires", "sluicegate-client",
               env=environment).split() == ["capnp"]
    flags = run("pkg-config", f"--define-variable=prefix={tmp_path}{prefix}", "--cflags", "--libs",
                "--static", "sluicegate-client", env=environment).split()
    program = tmp_path / "example"
    run("c++", EXAMPLES / "guard_endpoint.cpp", "-o", program, *flags)
    result = subprocess.run([program, "nonsense"], capture_output=True, text=True)
    assert "'nonsense' is not HOST:PORT" in result.stderr


def test_the_server_is_installed_with_the_profiles_where_it_looks_for_them(tmp_path):
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--tags", "runtime,profiles", "--destdir",
        tmp_path)
    server, = tmp_path.rglob("bin/sluicegate")
    help_text = run(server, "--help")
    folder = re.search(r"default (\S+/sluicegate/profiles); env PROFILES", help_text)[1]
    there = {path.name for path in (tmp_path / folder.lstrip("/")).iterdir()}
    assert there == {"anthropic.json", "gemini.json", "local.json", "openai.json"}
