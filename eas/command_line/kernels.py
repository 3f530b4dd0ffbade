"""`python -m eas show | msl | bench file.py:kernel`."""

from __future__ import annotations

import argparse
import statistics
import time

from eas.command_line.recorded import Launched, first_launch
from eas.interop.arguments import is_scalar, view
from eas.runtime import get_runtime, synchronize


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The place of a kernel, and for how long to measure it."""
    parser.add_argument("place", metavar="file.py:kernel", help="the file is run as a script; its first launch of the kernel gives the arguments")
    parser.add_argument("--after", metavar="STEP", help="with `show`: the IR after a pass or a step of the schedule; `--after list` lists them")
    parser.add_argument("--target", choices=("cpu", "metal"), default="cpu", help="with --after: whose schedule (default cpu)")
    parser.add_argument("given", nargs="*", metavar="name=value", help="arguments in place of those of the launch, for kernels that the file does not launch: x=f32[8,1000] N=1000 BLOCK=256")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long `bench` measures (default 1)")


def run(options: argparse.Namespace) -> int:
    """Print what was asked for about the kernel."""
    launched = first_launch(options.place, options.given)
    if options.command == "bench":
        print(bench(launched, options.seconds))
    elif options.command == "msl":
        print(msl(launched))
    else:
        print(after(launched, options.after, options.target) if options.after else show(launched))
    return 0


def show(launched: Launched) -> str:
    """The kernel as it was compiled for that launch: mode, arguments, accesses, IR."""
    args, kwargs = launched.call
    compiled = launched.kernel.compile(*args, **kwargs)
    lines = [str(launched.kernel), f"mode {compiled.launch_mode}, tptg {compiled.tptg}, block {compiled.block_size}"]
    lines += [f"reads {', '.join(compiled.reads) or 'nothing'}; writes {', '.join(compiled.writes) or 'nothing'}", f"facts {' '.join(map(str, compiled.facts)) or 'none'}"]
    return "\n".join([*lines, "", compiled.index_analysis.dump().rstrip(), "", str(compiled.ir).rstrip()])


def after(launched: Launched, step: str, target: str) -> str:
    """The kernel's IR after a step of its compilation, or the table of steps."""
    args, kwargs = launched.call
    steps = launched.kernel.compile(*args, **kwargs).steps(target)
    return str(steps if step == "list" else steps.after(step)).rstrip()


def msl(launched: Launched) -> str:
    """The Metal text of that launch."""
    args, kwargs = launched.call
    return launched.kernel.to_msl(*args, **kwargs)


def bench(launched: Launched, seconds: float) -> str:
    """How long that launch takes when it is repeated."""
    kernel, args, kwargs = launched.kernel, launched.args, {**launched.kwargs, "_sync": True}
    for _ in range(5):
        kernel(*args, **kwargs)
    synchronize()
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples) < 5:
        start = time.perf_counter()
        kernel(*args, **kwargs)
        samples.append(time.perf_counter() - start)
    values = [v for v in (*args, *kwargs.values()) if v is not None and not isinstance(v, bool | tuple | str) and not callable(v) and not is_scalar(v)]
    nbytes = sum(memory.dtype.nbytes * _size(memory.shape) for memory in (view(v, "argument") for v in values))
    best, middle = min(samples), statistics.median(samples)
    rate = f", {nbytes / best / 1e9:.2f} GB/s if each argument is moved once" if nbytes else ""
    return f"{kernel.__name__} on {get_runtime().name}: best {best * 1e6:.2f} us, median {middle * 1e6:.2f} us of {len(samples)} launches{rate}"


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total
