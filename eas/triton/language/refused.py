"""Names of Triton that no target of ours has, each with what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn

from eas.base.errors import Unsupported
from eas.triton.language.meaning import refuse


def inline_asm_elementwise(asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any) -> NoReturn:
    """PTX runs on NVIDIA's GPUs only."""
    refuse("tl.inline_asm_elementwise has PTX, which runs on NVIDIA's GPUs only", "write it with tl.math and tl.extra.libdevice", Unsupported)
