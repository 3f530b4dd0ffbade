"""Which tests execute which line: a plugin of pytest that `tools/mutate.py --random` reads.

    python -m pytest -p tools.line_tests --line-tests /tmp/map.json tests --one-in 4

It needs `pip install coverage`. Code that tests run in other processes is not seen.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST = 400  # tests that are kept for one line


class LineTests:
    """Notes, for every test, the lines of the package that it executes and how long it takes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds: dict[str, float] = {}
        self.coverage = coverage.Coverage(data_file=None, source=[str(ROOT / "eas")], config_file=False)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report):
        if report.passed and report.when == "call":
            self.seconds[report.nodeid] = round(report.duration, 3)

    def pytest_sessionfinish(self):
        self.coverage.stop()
        data, draw = self.coverage.get_data(), random.Random(0)
        numbers = {test: n for n, test in enumerate(self.seconds)}
        lines: dict[str, dict[int, list[int]]] = {}
        for name in sorted(data.measured_files()):
            of_line = {}
            for line, tests in data.contexts_by_lineno(name).items():
                known = sorted(numbers[test] for test in tests if test in numbers)
                if known:
                    of_line[line] = sorted(draw.sample(known, min(MOST, len(known))))
            lines[str(Path(name).relative_to(ROOT))] = of_line
        self.file.write_text(json.dumps({"tests": self.seconds, "lines": lines}))


def pytest_addoption(parser):
    parser.addoption("--line-tests", default="", metavar="FILE", help="write which tests execute which line")


def pytest_configure(config):
    if config.getoption("--line-tests"):
        config.pluginmanager.register(LineTests(Path(config.getoption("--line-tests"))))
