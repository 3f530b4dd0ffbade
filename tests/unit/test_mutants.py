"""The list of planted bugs fits the code: each can be planted, and the tests that should notice it exist."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import pytest

from eas.base import dtypes
from tools.mutants import MUTANTS
from tools.mutate import planted

ROOT = Path(__file__).parents[2]
FOLDERS = ("schedule", "codegen", "passes", "runtime", "interop", "metal_sim")


def words_of(expression: str) -> list[str]:
    """The words of a `-k` expression."""
    return [word for word in expression.replace("(", " ").replace(")", " ").split() if word not in ("and", "or", "not")]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_bug_can_be_planted(mutant):
    sound = (ROOT / mutant.file).read_text()
    assert sound.count(mutant.old) == 1, f"the text of the mutant has moved: find its place in {mutant.file}"
    changed = planted(mutant, ROOT)
    if mutant.file.endswith(".py"):
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(sound))
    else:
        assert changed != sound


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_tests_that_should_notice_exist(mutant):
    arguments = shlex.split(mutant.tests)
    paths = [ROOT / argument for argument in arguments if argument.startswith("tests/")]
    assert paths, "name a file of tests"
    assert all(path.exists() for path in paths), mutant.tests
    files = [file for path in paths for file in (path.glob("test_*.py") if path.is_dir() else [path])]
    text = " ".join(f"{file.name}\n{file.read_text()}" for file in files)
    chosen = words_of(arguments[arguments.index("-k") + 1]) if "-k" in arguments else []
    known = {str(dtype) for dtype in dtypes.ALL}
    assert [word for word in chosen if word not in text and word not in known] == []


def test_bugs_are_many_and_everywhere():
    assert len(MUTANTS) >= 60
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.file.split("/")[1] for mutant in MUTANTS} >= set(FOLDERS)
