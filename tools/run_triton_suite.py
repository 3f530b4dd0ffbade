"""Runs tests and tutorials of upstream's Triton, or of a library of Triton kernels, on eas: `python tools/run_triton_suite.py CHECKOUT FILE...`.

The checkout is the user's own: nothing of it is kept in this repository. Host code that names CUDA is patched here (the device is the CPU, `torch.cuda` answers for it);
kernels run as they are. `--one-in 20` takes a sample, `--report FILE` writes a line of JSON per test, `--tutorial` runs a script instead of tests.

    git clone https://github.com/triton-lang/triton
    python tools/run_triton_suite.py triton python/test/unit/language/test_core.py -n 2 --report core.json
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import runpy
import sys
import zlib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import eas.triton


def _module_of(name: str, path: Path) -> None:
    """A module of upstream that is written for its tests, under its own name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)


class OnCpu(TorchFunctionMode):
    """What host code puts on a GPU is on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = {**(kwargs or {})}
        if getattr(func, "__name__", "") == "cuda":
            return args[0]
        if "cuda" in str(named.get("device", "")):
            named["device"] = "cpu"
        return func(*("cpu" if isinstance(a, (str, torch.device)) and str(a).startswith("cuda") else a for a in args), **named)


def patch_host(checkout: Path) -> None:
    """Let host code that was written for a GPU run on the CPU."""
    eas.triton.install(replace=True)
    os.environ.setdefault("FLA_CI_ENV", "1")
    for name in ("_internal_testing", "tools.mxfp", "tools.ragged_tma"):
        path = checkout / "python" / "triton" / f"{name.replace('.', '/')}.py"
        if path.exists():
            _module_of(f"triton.{name}", path)
    exact = torch.nn.functional.layer_norm  # torch's own adds f16 in f16 on a CPU: no reference for the sum of a thousand
    torch.nn.functional.layer_norm = lambda x, shape, weight=None, bias=None, eps=1e-5: exact(x.float(), shape, *(v if v is None else v.float() for v in (weight, bias)), eps).to(x.dtype)
    OnCpu().__enter__()
    eas.triton.profiler = sys.modules["triton.profiler"] = ModuleType("triton.profiler")
    eas.triton.profiler.scope = lambda *args, **kwargs: contextlib.nullcontext()
    torch.cuda.get_device_properties = lambda device=None: SimpleNamespace(multi_processor_count=4, major=8, minor=0, name="eas")
    torch.cuda.get_device_capability = lambda device=None: (8, 0)
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.is_available = lambda: False
    torch.cuda.empty_cache = lambda: None


def pytest_configure(config: Any) -> None:
    """In every process of pytest, those of xdist included."""
    options = json.loads(os.environ["EAS_TRITON_SUITE"])
    patch_host(Path(options["checkout"]))
    sys.path[:0] = [options["checkout"], str(Path(options["checkout"]) / "src")]
    config.addinivalue_line("markers", "interpreter: upstream's own")
    config.pluginmanager.register(Plugin(**options))


class Plugin:
    """Fixtures of upstream's conftest, a sample, and a report."""

    def __init__(self, checkout: str, one_in: int, skip: list[str], report: str) -> None:
        self.one_in, self.skip, self.report = one_in, skip, report

    @pytest.fixture
    def device(self) -> str:
        return "cpu"

    @pytest.fixture
    def with_allocator(self) -> Any:
        return None

    @pytest.fixture
    def process_pool(self) -> Any:
        return None

    @pytest.fixture
    def fresh_triton_cache(self, tmp_path: Path) -> str:
        return str(tmp_path)

    @pytest.fixture
    def fresh_knobs(self) -> Any:
        import triton

        with triton.knobs.runtime.scope(), triton.knobs.compilation.scope():
            yield triton.knobs

    fresh_compilation_knobs = fresh_knobs

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = [item for item in items if zlib.crc32(item.name.encode()) % self.one_in == 0 and not any(word in item.nodeid for word in self.skip)]
        items[:] = kept

    def pytest_runtest_logreport(self, report: Any) -> None:
        if self.report and not hasattr(report, "node") and (report.when == "call" or report.outcome != "passed"):
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else str(report.longrepr or "")
            with open(self.report, "a", encoding="utf-8") as out:
                out.write(json.dumps({"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 2), "reason": reason[:2000]}) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--one-in", type=int, default=1)
    parser.add_argument("--skip", action="append", default=[], help="leave out tests with this word in their name")
    parser.add_argument("--report", help="append a line of JSON per test")
    parser.add_argument("--tutorial", action="store_true", help="run scripts, not tests")
    parser.add_argument("--call", help="with --tutorial: import the script, then run this statement in it")
    options, rest = parser.parse_known_args()
    if options.tutorial:
        patch_host(options.checkout)
        eas.triton.testing.Mark.run = lambda self, **options: None  # tables of times are not what is tested
        for file in options.files:
            sys.argv = [file]
            if not options.call:
                runpy.run_path(str(options.checkout / file), run_name="__main__")
                continue
            _module_of("tutorial", options.checkout / file)
            exec(options.call, vars(sys.modules["tutorial"]))
        return 0
    os.environ["EAS_TRITON_SUITE"] = json.dumps({"checkout": str(options.checkout), "one_in": options.one_in, "skip": options.skip, "report": options.report or ""})
    files = [str(options.checkout / file) for file in options.files]
    return int(pytest.main([*files, "--noconftest", "-p", "tools.run_triton_suite", "-p", "no:cacheprovider", "-q", "--tb=line", f"--rootdir={options.checkout}", *rest]))


if __name__ == "__main__":
    sys.exit(main())


