"""Options and fixtures of all pytest suites."""

import gc
import inspect
import itertools
import os
import sys
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("EAS_VERIFY", "1")  # every pass of every test is checked

# Files about forms of loops, masks, rows and tiles that only the CPU's schedule tells apart. Metal runs one in some of
# their tests, unless `--backend` asks for it; the forms of its own schedule have the other files.
CPU_SCHEDULE = frozenset(
    f"test_{name}"
    for name in (
        "edges", "element_loops", "flat_index", "fold_carried", "guard_pages", "in_place", "joined_programs", "lengthen_blocks", "machines",
        "mask_numbers", "narrow_integers", "one_walk", "shared_vectors", "short_rows", "stencils", "strided_rows", "strides", "tails", "tiles",
        "transpose_stores", "transposed_nests", "tuple_reductions", "unaligned", "widen_loads",
    )
)  # fmt: skip
METAL_ONE_IN = 6
IN_FLIGHT = ("FakeCommandBuffer", "FakeComputeEncoder", "FakeBlitEncoder", "FakeCommand", "FakeItem")


def pytest_configure(config):
    """The CPU of `--vector-bytes`. What the software Metal compiles is found by its content, so tests may share it."""
    if config.getoption("--vector-bytes"):
        os.environ["EAS_CPU"] = _level(config.getoption("--vector-bytes"))
    if "EAS_SIM_CACHE_DIR" not in os.environ and hasattr(config, "cache"):
        os.environ["EAS_SIM_CACHE_DIR"] = str(config.cache.mkdir("eas-sim"))


def pytest_collection_modifyitems(config, items):
    """A sample goes by the names of tests, so that a new test changes nothing for the others."""
    one_in = config.getoption("--one-in")
    config.hook.pytest_deselected(items=[item for item in items if _is_left_out(item)])
    items[:] = [item for item in items if not _is_left_out(item)]
    rare = METAL_ONE_IN if not config.getoption("--backend") else 1
    kept, left_out = [], []
    for item in items:
        n = one_in * (rare if _is_for_the_cpu(item) else 1)
        (left_out if zlib.crc32(item.nodeid.encode()) % n else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _is_left_out(item):
    """Whether a mark `left_out` says that this combination of parameters has no meaning, or tells nothing new."""
    params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    if "backend" in params:
        params["backend"] = params["backend"][0]
    rules = [(mark.args[0], inspect.signature(mark.args[0]).parameters) for mark in item.iter_markers("left_out")]
    return any(names.keys() <= params.keys() and rule(*map(params.get, names)) for rule, names in rules)


def _is_for_the_cpu(item):
    """Whether a test compiles for Metal what only the CPU's schedule tells apart."""
    if item.path.stem not in CPU_SCHEDULE or not hasattr(item, "callspec"):
        return False
    return item.callspec.params.get("backend", ("", None))[0] in ("sim", "mps")


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
    parser.addoption("--vector-bytes", type=int, default=0, choices=(0, 16, 32, 64), help="the vectors of the CPU backend; default: EAS_CPU")
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden; then read the diff")


@pytest.fixture(scope="module", autouse=True)
def _settled_heap():
    """What a file leaves alive (its kernels and their code) lives to the end: later collections need not walk over it."""
    yield
    gc.collect()
    gc.freeze()


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


def _levels():
    """The values of EAS_CPU that this machine can run, by the bytes of their vectors."""
    from tests.unit.fixed_target import possible_levels

    return {target.vector_nbytes: level for level, target in possible_levels().items()}


def _level(nbytes):
    level = _levels().get(nbytes)
    if level is None:
        raise pytest.UsageError(f"--vector-bytes {nbytes}: this machine has vectors of {', '.join(map(str, sorted(_levels())))} bytes")
    return level


def pytest_generate_tests(metafunc):
    if "backend" not in metafunc.fixturenames:
        return
    names = available_backends(metafunc.config)
    params = [pytest.param((name, None), id=name) for name in names]
    is_asked = metafunc.config.getoption("--vector-bytes") or os.environ.get("EAS_CPU")
    if "cpu" in names and not is_asked and metafunc.definition.get_closest_marker("every_width"):
        others = {nbytes: level for nbytes, level in _levels().items() if level != "native"}
        params += [pytest.param(("cpu", level), id=f"cpu-{nbytes}-bytes") for nbytes, level in others.items()]
    metafunc.parametrize("backend", params, indirect=True)


@pytest.fixture(scope="session")
def _silent_fake_metal():
    """After all tests on the fake Metal: it has noted nothing that Metal would refuse, and nothing is left alive."""
    yield
    from eas.runtime import get_runtime

    runtime = get_runtime("mps")
    hooks = runtime.extension().hooks
    runtime.drain()
    gc.unfreeze()
    gc.collect()
    runtime.memory.release()
    runtime.drain()
    assert hooks.problem() is None, hooks.problem()
    alive = {name: hooks.live_objects(name) for name in IN_FLIGHT}
    assert not any(alive.values()), alive
    kept = "nothing" in vars(runtime.memory)  # what stands for arrays without elements
    assert hooks.live_objects("FakeBuffer") == kept, "buffers that no tensor uses are alive"


@pytest.fixture
def backend(request, monkeypatch):
    """Runs the test once per backend, and with the mark `every_width` at every width of the CPU; launches go there."""
    name, level = request.param
    if name in ("mps", "sim") and os.environ.get("EAS_SANITIZE") == "1" and request.node.get_closest_marker("meets"):
        pytest.skip("lanes write one place: any one of them wins, and the sanitizer calls that a race")
    if name == "mps" and os.environ.get("EAS_METAL") == "software":
        request.getfixturevalue("_silent_fake_metal")
    monkeypatch.setenv("EAS_BACKEND", name)
    if level is not None:
        monkeypatch.setenv("EAS_CPU", level)
    return name


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
