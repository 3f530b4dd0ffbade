"""What of a failed call the kernel's author sees: their own lines, and a suggestion for a misspelt name."""

from __future__ import annotations

import linecache
from types import TracebackType

from eas.base import config
from eas.base.loading import load
from eas.frontend.our_frames import is_body_of, is_our_frame

# What other languages call it, where the letters do not tell.
_ELSEWHERE = {
    "shared": "alloc_tg", "threadgroup": "alloc_tg", "shared_memory": "alloc_tg", "syncthreads": "barrier",
    "threadgroup_barrier": "barrier", "thread_id": "tid", "block_id": "program_id", "blockIdx": "program_id",
    "block_idx": "program_id", "gridDim": "num_programs", "warp_id": "sg_id", "shfl_sync": "simd_shuffle",
}  # fmt: skip


def show_to_user(error: BaseException) -> None:
    """Take our frames out of the traceback, and those that only enclose the next one."""
    frames = []
    tb = error.__traceback__
    while tb is not None:
        if not is_our_frame(tb.tb_frame):
            frames.append(tb)
        tb = tb.tb_next
    kept, inner = None, None
    for frame in reversed(frames):
        code = frame.tb_frame.f_code
        if inner is None or not is_body_of(inner, code):
            frame.tb_next = kept
            kept = frame
        inner = code
    error.__traceback__ = kept
    if isinstance(error, AttributeError):
        _suggest_name(error)
    elif isinstance(error, IndexError) and kept is not None:
        _explain_shape(error, kept)


def _explain_shape(error: IndexError, tb: TracebackType) -> None:
    """Of `n.shape[0]` Python knows only that a tuple is too short."""
    while tb.tb_next is not None:
        tb = tb.tb_next
    line = linecache.getline(tb.tb_frame.f_code.co_filename, tb.tb_lineno)
    if ".shape[" in line and str(error) == "tuple index out of range" and not hasattr(error, "__notes__"):
        error.add_note("  hint: x.shape has one extent per axis of a block, and none of a scalar; buffers have those of the array that is passed")


def _suggest_name(error: AttributeError) -> None:
    load("eas.frontend.spellings", "eas.frontend.block", "eas.mk")  # not above: Ctrl-C passes here, too, and does not wait for them
    from eas import mk
    from eas.frontend.block import Block
    from eas.frontend.spellings import NO_SUCH_METHOD, NO_SUCH_NAME

    if not error.name or (error.obj is not mk and not isinstance(error.obj, Block)):
        return
    name, of_mk = error.name, error.obj is mk
    known = [word for word in dir(error.obj) if not word.startswith("_")]
    near = (_ELSEWHERE.get(name) if of_mk else None) or config.closest(name, known)
    owner = "mk" if of_mk else "x"
    hint = (NO_SUCH_NAME if of_mk else NO_SUCH_METHOD).get(name)
    if hint or near:
        error.add_note(f"  hint: {hint or f'did you mean {owner}.{near}?'}")
        error.name = None  # Python would ask "Did you mean" once more, and so would the next of our entries
