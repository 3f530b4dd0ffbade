"""`triton.knobs`: the settings of upstream that mean something here, and groups that libraries set without effect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Group:
    """Settings that can be changed for a while."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Afterwards the settings are what they were."""
        before = dict(vars(self))
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)


class _Runtime(_Group):
    """Settings of launches."""

    interpret = False
    override_arch: str | None = None
    launch_enter_hook: Any = None
    launch_exit_hook: Any = None
    jit_cache_hook: Any = None
    jit_post_compile_hook: Any = None
    _debug: bool | None = None

    @property
    def debug(self) -> bool:
        """Whether device_assert and assert are checked: TRITON_DEBUG=1."""
        return self._debug if self._debug is not None else os.environ.get("TRITON_DEBUG", "0").lower() in ("1", "true", "on")

    @debug.setter
    def debug(self, value: bool) -> None:
        self._debug = value


class _Cache(_Group):
    """Where upstream keeps kernels; ours are in EAS_CACHE_DIR."""

    dir: str = os.path.join(os.path.expanduser("~"), ".triton", "cache")
    manager_class: Any = None


class _Autotuning(_Group):
    """Settings of tuners."""

    cache = False
    print = False


class _Compilation(_Group):
    """Settings of upstream's compiler, without effect."""

    always_compile = False
    disable_line_info = False
    front_end_debugging = False
    allow_non_constexpr_globals = False
    enable_asan = False
    store_binary_only = False
    override = False
    dump_ir = False
    listener: Any = None
    instrumentation_mode = ""


class _Devices(_Group):
    """Settings of a vendor's tools, without effect."""


runtime, cache, autotuning, compilation = _Runtime(), _Cache(), _Autotuning(), _Compilation()
nvidia, amd, build, redis, language, proton = _Devices(), _Devices(), _Devices(), _Devices(), _Devices(), _Devices()
