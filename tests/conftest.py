"""Options and fixtures of all pytest suites."""

import gc
import itertools
import os
import sys
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("EAS_VERIFY", "1")  # every pass of every test is checked


def pytest_configure(config):
    """What the software Metal compiles is found by its content, so tests may share it."""
    if "EAS_SIM_CACHE_DIR" not in os.environ and hasattr(config, "cache"):
        os.environ["EAS_SIM_CACHE_DIR"] = str(config.cache.mkdir("eas-sim"))


def pytest_collection_modifyitems(config, items):
    """A sample goes by the names of tests, so that a new test changes nothing for the others."""
    n = config.getoption("--one-in")
    left_out = [item for item in items if zlib.crc32(item.nodeid.encode()) % n]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % n == 0]


def pytest_collection_finish(session):
    """Thousands of collected tests live to the end: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 50)


def pytest_unconfigure():
    """What is garbage goes while the modules that take it away are still there."""
    gc.unfreeze()
    gc.collect()


def pytest_addoption(parser):
    parser.addoption("--backend", default="", help="comma list for tests/backend; default: every available one")
    parser.addoption("--one-in", type=int, default=1, metavar="N", help="only about one test in N, always the same ones")
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden; then read the diff")


@pytest.fixture(scope="session")
def _cache_dirs(tmp_path_factory):
    """Folders that do not exist yet: a tmp_path of each test would be made, and looked for among all the others."""
    parent = tmp_path_factory.mktemp("caches")
    return (str(parent / str(n)) for n in itertools.count())


@pytest.fixture(autouse=True)
def _private_cache(_cache_dirs, monkeypatch):
    """No test sees what another one, or the user, has compiled."""
    monkeypatch.setenv("EAS_CACHE_DIR", next(_cache_dirs))


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
