"""Modules that are imported when they are first used: a signal handler in the middle of that may launch, too."""

from __future__ import annotations

import sys
import threading

import pytest

from eas.base import loading
from eas.metal_sim import toolchain
from tests.unit.hang_scripts import run_script

needs_sim = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason="needs the software Metal")
BACKENDS = ["cpu", "interp", pytest.param("sim", marks=needs_sim)]

LAUNCHES = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        found(name)

def launch(kernels):
    x, y = np.ones(300, np.float32), np.zeros(300, np.float32)
    kernels.scale(x, y, 2.0, 300)
    assert (y == 2).all()
    z = eas.zeros(300)
    kernels.scale(x, z, 3.0, 300, _sync=False)
    eas.synchronize()
    assert (z.numpy() == 3).all()

def launch_much(kernels):
    for _ in range(6):  # a native launcher learns
        launch(kernels)
    try:
        kernels.broken(np.ones(300, np.float32), np.zeros(300, np.float32), 300)
    except eas.DeviceAssertion:
        pass
"""


@pytest.mark.parametrize("on", BACKENDS)
def test_no_module_is_imported_by_the_thread_that_launches(on, tmp_path):
    text = LAUNCHES + """
imports = []
def found(name):
    if name.startswith(("eas.", "llvmlite.")) and threading.current_thread() is threading.main_thread():
        imports.append(name)
sys.meta_path.insert(0, Finder())
launch_much(sys.modules["tests.unit.hang_scripts"])
assert imports == [], imports
"""
    for _ in range(1 + (on == "cpu")):  # its second process finds the code on disk
        run_script(text, backend=on, EAS_CACHE_DIR=str(tmp_path))


@pytest.mark.parametrize(
    "inside",
    ["eas.kernel", "eas.analysis", "eas.frontend.lang.thread", "llvmlite.binding.dylib", "eas.launch.native_plan"],
)
def test_a_signal_handler_launches_in_the_middle_of_an_import(inside, tmp_path):
    """The module of this name is being looked for, so that whoever imports it is half done."""
    done = run_script(LAUNCHES + f"""
import importlib.util
for name in [name for name in sys.modules if name.partition(".")[0] in ("eas", "llvmlite", "tests")]:
    del sys.modules[name]  # the prelude has loaded most of them
import eas
handled = []
def handler(signum, frame):
    spec = importlib.util.spec_from_file_location("kernels_of_the_handler", "tests/unit/hang_scripts.py")
    mine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mine)
    launch_much(mine)
    handled.append(True)
signal.signal(signal.SIGALRM, handler)

def found(name):
    if name == {inside!r}:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
        time.sleep(0.2)
sys.meta_path.insert(0, Finder())
from tests.unit import hang_scripts
launch_much(hang_scripts)
print("handled", len(handled))
""", EAS_CACHE_DIR=str(tmp_path))  # fmt: skip
    assert "handled 1" in done.stdout


def test_fork_waits_for_an_import(tmp_path):
    """Else the child would wait for a thread that it does not have."""
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.5)\nready = 1\n")
    run_script(f"""
        sys.path.insert(0, {str(tmp_path)!r})
        from eas.base.loading import load
        signal.signal(signal.SIGALRM, lambda *_: in_child(lambda: (load("slow_module"), __import__("slow_module").ready)))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        load("slow_module")
    """)


def test_errors_of_an_import_are_raised_where_it_was_asked_for(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('broken module')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RuntimeError, match="broken module"):
        loading.load("broken_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        loading.load("no_such_module")


def test_an_importing_thread_imports_itself(tmp_path, monkeypatch):
    (tmp_path / "outer_module.py").write_text("import threading\nfrom eas.base.loading import load\nload('inner_module')\nname = threading.current_thread().name\n")
    (tmp_path / "inner_module.py").write_text("import threading\nname = threading.current_thread().name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    loading.load("outer_module")
    outer, inner = sys.modules["outer_module"], sys.modules["inner_module"]
    assert outer.name == inner.name != threading.current_thread().name
