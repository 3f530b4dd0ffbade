"""Which kernel has crashed the process: code that is loaded gets a message, which a signal handler prints."""

from __future__ import annotations

import ctypes
import weakref

from eas.base import config
from eas.base.errors import printable
from eas.runtime.native import jit
from eas.runtime.native.native_code import native_code


class _Watched(ctypes.Structure):  # struct watched of eas/native/faults.c
    _fields_ = (("lo", ctypes.c_uint64), ("hi", ctypes.c_uint64), ("text", ctypes.c_char_p), ("length", ctypes.c_int64), ("next", ctypes.c_void_p))


_nodes: list[_Watched] = []  # read by the handler at any time: never freed, used again when their code is gone
_free: list[_Watched] = []


def watch(kernel: str, code: jit.LoadedCode, entry: int) -> None:
    """Let a crash inside of this code name its kernel; called with `jit.lock` held."""
    if not config.fault_handler():
        return
    text = (
        f"eas: kernel {printable(kernel)} touched memory outside of its buffers, which ends this process\n"
        "  hint: run it with EAS_CHECK_BOUNDS=1 (or EAS_BACKEND=interp): the launch then raises an error that names the line and the index\n"
    ).encode(errors="backslashreplace")
    if not _nodes:
        ctypes.CFUNCTYPE(None)(native_code().address("eas_faults_install"))()
    is_linked = bool(_free)
    node = _free.pop() if is_linked else _Watched()
    node.text, node.length = text, len(text)
    node.lo, node.hi = (code.start, code.start + code.nbytes) if code.start else (entry, entry + code.nbytes)
    weakref.finalize(code, _forget, node).atexit = False
    if is_linked:
        return
    head = ctypes.c_void_p.from_address(native_code().address("eas_faults_codes"))
    node.next = head.value
    _nodes.append(node)
    head.value = ctypes.addressof(node)


def _forget(node: _Watched, free: list[_Watched] = _free) -> None:  # at the end of Python this module's names are gone
    node.lo = node.hi = 0
    free.append(node)
