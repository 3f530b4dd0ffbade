"""Run as a script: objects that use eas when they die, at the end of the process; `how` says what keeps them until then."""

import builtins
import os
import sys
import threading
import types

import numpy as np

import eas
from eas import mk


@eas.kernel
def known(x, N, BLOCK: eas.constexpr = 64):
    offs = mk.program_id(0) * BLOCK + mk.arange(BLOCK)
    mk.store(x + offs, mk.load(x + offs, mask=offs < N) * 2.0, mask=offs < N)


@eas.kernel
def once(x, y):
    mk.store(y, mk.load(x) + 1.0)


@eas.kernel
def never(x):
    mk.store(x, 1.0)


class Dies:
    def __init__(self, name, use):
        self.name, self.use, self.me = name, use, None

    def __del__(self, write=os.write, EasError=eas.base.errors.EasError):
        try:
            self.use()
        except EasError as error:
            write(1, f"{self.name} refused: {error.message}\n".encode())
        else:
            write(1, f"{self.name} worked\n".encode())


x, y, other = np.ones(64, np.float32), np.zeros(64, np.float32), np.ones(4)
for _ in range(8):
    known(x, 64)
once(x, y, _grid=1)
known(x, 64, _sync=False)
tensor, compiled, empty = eas.ones(4), known.compile(x, 64), eas.empty
USES = {
    "native launch": lambda k=known, x=x: k(x, 64),
    "launch": lambda k=once, x=x, y=y: k(x, y, _grid=1),
    "asynchronous launch": lambda k=once, x=x, y=y: k(x, y, _grid=1, _sync=False),
    "wrong launch": lambda k=known: k([1], 64),
    "new launch": lambda k=never, x=x: k(x, _grid=1),
    "new types": lambda k=known, x=other: k(x, 4),
    "texts": lambda c=compiled: (c.asm, c.msl),
    "tensor": lambda t=tensor, empty=empty: (t.numpy() + 1, repr(t), empty((3,))),
    "new name": lambda eas=eas: eas.release_memory(),
}
how = sys.argv[1]
objects = [Dies(name, use) for name, use in USES.items()]
others = [eas.Kernel(known.fn), eas.autotune(configs=[eas.Config({"BLOCK": 64})])(known), eas.zeros(5), compiled.variant(), eas.from_numpy(x)]
if how == "cycles":
    for each in objects:
        each.me = each
    others.append(others)
elif how == "module":
    holder = sys.modules["holder"] = types.ModuleType("holder")
    holder.kept = objects
elif how == "builtins":
    builtins.kept = objects
elif how == "thread":
    ended = threading.Event()
    threading.Thread(target=lambda kept=objects: ended.wait(), daemon=True).start()
    local = threading.local()
    local.kept = others
if how != "global":
    del objects
