"""Elementwise addition: the quick start of the README."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def add_kernel(a, b, c, N, BLOCK: eas.constexpr):
    pid = mk.program_id(0)
    offs = pid * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    mk.store(c, offs, mk.load(a, offs, mask) + mk.load(b, offs, mask), mask)


def main() -> None:
    options = parse(__doc__, n=1024 + 7, block=256)
    rng = np.random.default_rng(0)
    a = rng.standard_normal(options.n, dtype=np.float32)
    b = rng.standard_normal(options.n, dtype=np.float32)
    c = np.zeros_like(a)
    add_kernel(a, b, c, options.n, BLOCK=options.block)
    error = np.abs(c - (a + b)).max(initial=0)
    report(f"add of {options.n}", error, lambda: error == 0)


if __name__ == "__main__":
    main()
