"""Options and fixtures of all pytest suites."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("EAS_VERIFY", "1")  # every pass of every test is checked


def pytest_configure(config):
    """What the software Metal compiles is found by its content, so tests may share it."""
    if "EAS_SIM_CACHE_DIR" not in os.environ and hasattr(config, "cache"):
        os.environ["EAS_SIM_CACHE_DIR"] = str(config.cache.mkdir("eas-sim"))


def pytest_addoption(parser):
    parser.addoption("--backend", default="", help="comma list for tests/backend; default: every available one")
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden; then read the diff")


@pytest.fixture(autouse=True)
def _private_cache(tmp_path, monkeypatch):
    """No test sees what another one, or the user, has compiled."""
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path / "cache"))


def available_backends(config):
    from eas.runtime import BACKENDS, get_runtime

    asked = [name for name in config.getoption("--backend").split(",") if name]
    return asked or [b.name for b in BACKENDS if get_runtime(b.name).is_available()]


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", available_backends(metafunc.config), indirect=True)


@pytest.fixture
def backend(request, monkeypatch):
    """Runs the test once per backend; launches go there."""
    monkeypatch.setenv("EAS_BACKEND", request.param)
    return request.param


@pytest.fixture
def golden(request):
    """Compares a text with the file of that name under tests/golden."""
    folder = Path(__file__).parent / "golden"

    def compare(name, text):
        path = folder / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path.name} is missing: pytest --update-golden, then read it"
        assert text == path.read_text(), f"{path.name} differs: pytest --update-golden, then read the diff"

    return compare
