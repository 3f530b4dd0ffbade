"""The Metal language level: the newest that the running system has, and a clear word where that is too old."""

from __future__ import annotations

import platform
import sys

import pytest

from eas.runtime import get_runtime
from eas.runtime.gpu import facts as gpu_facts
from eas.schedule.gpu.target import newest_language


@pytest.mark.parametrize(("macos", "language"), [("13.6.1", None), ("14.0", "3.1"), ("15.5", "3.2"), ("16.0", "3.2"), ("26.1", "4.0"), ("27", "4.0"), ("", None)])
def test_newest_language_of_a_system(macos, language):
    assert newest_language(macos) == language


def test_target_has_the_language_of_the_system(monkeypatch):
    monkeypatch.setenv("EAS_CACHE", "0")
    assert gpu_facts.target_of("Apple M3", 9, "15.1").language == "3.2"
    assert gpu_facts.target_of("Apple M1", 7, "14.6").language == "3.1"
    assert gpu_facts.target_of("a fake", 9).language == "3.1"


def test_too_old_a_system_is_told_what_it_lacks(monkeypatch):
    monkeypatch.setenv("EAS_METAL", "native")
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("13.6", ("", "", ""), "arm64"))
    assert get_runtime("mps").why_unavailable() == "the text needs Metal 3.1, which macOS 14 and newer have; this is macOS 13.6"
