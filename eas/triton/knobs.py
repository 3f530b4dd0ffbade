"""`triton.knobs`: the settings of upstream that mean something here."""

from __future__ import annotations

import os


class _Runtime:
    """Settings of launches."""

    interpret = False

    @property
    def debug(self) -> bool:
        """Whether device_assert and assert are checked: TRITON_DEBUG=1."""
        return self._debug if self._debug is not None else os.environ.get("TRITON_DEBUG", "0") in ("1", "true", "on")

    @debug.setter
    def debug(self, value: bool) -> None:
        self._debug = value

    _debug: bool | None = None


runtime = _Runtime()
