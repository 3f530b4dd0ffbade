"""What is shipped: the version, the dependency lists, the README's commands, and what stays out."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from eas._version import __version__

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]

RUN = "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e . && .venv/bin/python -m examples.add"
TEST = 'python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e ".[test,torch]" && .venv/bin/python -m pytest -q -n auto'
UV = ("uv run python -m examples.add", "uv run python -m pytest -q -n auto")


def test_version_has_one_source():
    assert "version" in PROJECT["dynamic"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "eas._version.__version__"}


def test_installed_version_is_the_source_version():
    try:
        installed = importlib.metadata.version("easy-as")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("easy-as runs from its sources here")
    assert installed == __version__


def test_eas_exposes_its_version():
    import eas

    assert eas.__version__ == __version__


def test_runtime_dependencies_are_numpy_and_llvmlite():
    assert [d.split(">")[0] for d in PROJECT["dependencies"]] == ["numpy", "llvmlite"]


def test_dev_group_is_torch_free():
    assert PYPROJECT["dependency-groups"]["dev"] == ["easy-as[test]"]
    assert not any(d.startswith("torch") for d in PROJECT["optional-dependencies"]["test"])


def test_constraints_pin_torch_only():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["torch==2.13.0"]


def test_only_eas_is_packaged():
    assert '[*find_packages(include=["eas", "eas.*"]), "eas.examples"]' in (ROOT / "setup.py").read_text()
    assert (ROOT / "eas" / "py.typed").exists()


def test_native_code_is_shipped_with_its_sources():
    data = PYPROJECT["tool"]["setuptools"]["package-data"]
    shipped = {path for pattern in [*data["*"], *data["eas.native"]] for path in (ROOT / "eas" / "native").glob(pattern)}
    there = {path for path in (ROOT / "eas" / "native").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert shipped == there


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="not a git checkout")
def test_no_lock_file_is_tracked():
    tracked = subprocess.run(["git", "ls-files", "uv.lock"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert tracked.stdout == ""
    assert "uv.lock" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_readme_opens_with_the_two_commands(name):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line.startswith("python3 -m venv")]
    assert commands[:2] == [RUN, TEST]  # .ci/run takes its test command from this very line
    for command in UV:
        assert any(line.startswith(command) for line in lines), command


@pytest.mark.parametrize("state", ["sys._is_gil_enabled = lambda: False", "sys.abiflags = 't'"])
def test_free_threaded_python_is_refused_with_the_reason(state):
    done = subprocess.run([sys.executable, "-c", f"import sys; {state}; import eas"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: eas needs a Python with a global interpreter lock: this one is free-threaded" in done.stderr


def test_python_that_has_a_lock_and_could_do_without_is_taken():
    code = "import sys; sys._is_gil_enabled = lambda: True; import eas; print(eas.__version__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == __version__
