"""The C code of `eas/native` in this process, from its LLVM text: docs/design/0008-native.md."""

from __future__ import annotations

import sys
from pathlib import Path

from eas.runtime.native import jit
from eas.runtime.native.host_cpu import host_cpu

_TEXTS = Path(__file__).parents[2] / "native" / "text"

_loaded: list[jit.LoadedCode] = []


def why_unavailable() -> str | None:
    """Why there is no native code for this machine, as the end of a sentence, or None."""
    return None if _loaded or _text_path().exists() else f"eas has no native code for {_text_path().stem} (Linux and macOS on x86-64 and aarch64 have)"


def native_code() -> jit.LoadedCode:
    """Loaded with the first use and for ever: threads stand in it until the process ends."""
    with jit.lock:
        if not _loaded:
            reason = why_unavailable()
            if reason is not None:
                raise jit.CodeError(reason)
            _loaded.append(jit.load(_text_path().read_text(encoding="utf-8"), pipeline="plain", keep_for_ever=True))
        return _loaded[0]


def _text_path() -> Path:
    system = "macos" if sys.platform == "darwin" else sys.platform
    return _TEXTS / f"{system}-{host_cpu().arch}.ll"
