"""The environment variables: defaults, values, refusals, and rows that tell the truth."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from eas.base import config
from eas.base.errors import EasError

EAS = Path(config.__file__).parents[1]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for setting in config.SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)
    for name in config.unknown_variables():
        monkeypatch.delenv(name)


def test_every_default_is_valid():
    for setting in config.SETTINGS:
        setting()


def test_defaults():
    assert config.backend() == "auto"
    assert config.debug() == 0
    assert config.noopt() is False
    assert config.cache_enabled() is True
    assert config.max_in_flight() == 64
    assert config.num_threads() == 0
    assert config.torch_mps_sync() is True


def test_value_is_read_at_call_time(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    assert config.backend() == "interp"
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    assert config.backend() == "cpu"


def test_empty_variable_means_default(monkeypatch):
    monkeypatch.setenv("EAS_DEBUG", "")
    assert config.debug() == 0
    assert not config.debug.is_set


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("EAS_BACKEND", "CPU", "EAS_BACKEND='CPU' is not one of auto, cpu, mps, metal, interp, sim\n  hint: set EAS_BACKEND=cpu"),
        ("EAS_BACKEND", "cuda", "EAS_BACKEND='cuda' is not one of auto, cpu, mps, metal, interp, sim\n  hint: unset EAS_BACKEND"),
        ("EAS_DEBUG", "6", "EAS_DEBUG='6' is not an integer from 0 to 5\n  hint: unset EAS_DEBUG"),
        ("EAS_DEBUG", "high", "EAS_DEBUG='high' is not an integer from 0 to 5\n  hint: unset EAS_DEBUG"),
        ("EAS_NOOPT", "yes", "EAS_NOOPT='yes' is not 0 or 1\n  hint: unset EAS_NOOPT"),
        ("EAS_MAX_IN_FLIGHT", "0", "EAS_MAX_IN_FLIGHT='0' is not an integer of 1 or more\n  hint: unset EAS_MAX_IN_FLIGHT"),
    ],
)
def test_invalid_value_names_variable_value_and_allowed(monkeypatch, name, value, text):
    monkeypatch.setenv(name, value)
    setting = next(s for s in config.SETTINGS if s.name == name)
    with pytest.raises(config.InvalidSetting) as caught:
        setting()
    assert str(caught.value) == text
    assert isinstance(caught.value, EasError)


def test_cache_dir_expands_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EAS_CACHE_DIR", "~/kernels")
    assert config.cache_dir() == tmp_path / "kernels"


@pytest.mark.parametrize(("system", "folder"), [("linux", ".cache/eas"), ("darwin", "Library/Caches/eas")])
def test_cache_dir_default_follows_platform(monkeypatch, tmp_path, system, folder):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert config.cache_dir() == tmp_path / folder


def test_cache_dir_default_honours_absolute_xdg_only(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert config.cache_dir() == tmp_path / "xdg" / "eas"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert config.cache_dir() == tmp_path / ".cache" / "eas"


def test_cache_dir_without_home_is_refused(monkeypatch):
    monkeypatch.setenv("EAS_CACHE_DIR", "~no-such-user/cache")
    with pytest.raises(config.InvalidSetting, match="gives the disk cache no place"):
        config.cache_dir()


def test_unknown_variable_is_reported_with_closest_name(monkeypatch):
    monkeypatch.setenv("EAS_BACKND", "cpu")
    monkeypatch.setenv("EAS_QQQQ", "1")
    assert config.unknown_variables() == {"EAS_BACKND": "EAS_BACKEND", "EAS_QQQQ": None}


def test_names_are_unique_and_sources_use_no_other():
    names = [s.name for s in config.SETTINGS]
    assert len(set(names)) == len(names)
    for path in EAS.rglob("*.py"):
        for name in re.findall(r"\bEAS_[A-Z_]*[A-Z]\b", path.read_text()):
            assert name in names, f"{path.name} speaks of {name}, which has no row in config.py"


def test_not_used_yet_is_true_of_exactly_the_rows_that_say_so():
    attribute = {id(v): k for k, v in vars(config).items() if isinstance(v, config.Setting)}
    # Printing a value, as doctor.py does, is not use.
    callers = [p.read_text() for p in EAS.rglob("*.py") if p.name not in ("config.py", "doctor.py", "__main__.py")]
    used = {s.name for s in config.SETTINGS if any(re.search(rf"config\.{attribute[id(s)]}\(|(?:setting_now|cache_at)\(config\.{attribute[id(s)]}\)", text) for text in callers)}
    assert used == {s.name for s in config.SETTINGS if s.is_used}
