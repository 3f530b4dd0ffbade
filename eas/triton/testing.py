"""`triton.testing`: timing, comparing, and plots of both."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from eas.base.errors import ArgumentError


def do_bench(fn: Callable[[], Any], warmup: float = 25, rep: float = 100, grad_to_none: Any = None, quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """Milliseconds that a call takes: the mean of many, or some of their quantiles; `warmup` and `rep` are milliseconds, too."""
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ArgumentError(f"return_mode {return_mode!r}", hint="it is min, max, mean, median or all")
    _timed(fn, warmup, grad_to_none)
    return _summary(sorted(_timed(fn, rep, grad_to_none)), quantiles, return_mode)


def do_bench_cudagraph(fn: Callable[[], Any], rep: float = 20, grad_to_none: Any = None, quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """The same: there are no CUDA graphs here."""
    return do_bench(fn, rep / 4, rep, grad_to_none, quantiles, return_mode)


def _timed(fn: Callable[[], Any], budget_ms: float, grad_to_none: Any) -> list[float]:
    """The times of calls that take so long together; at least one."""
    times: list[float] = []
    while not times or (sum(times) < budget_ms and len(times) < 100_000):
        for tensor in grad_to_none or ():
            tensor.grad = None
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def _summary(times: list[float], quantiles: Sequence[float] | None, mode: str) -> Any:
    if quantiles is not None:
        found = [_quantile(times, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if mode == "all":
        return times
    return {"min": times[0], "max": times[-1], "mean": sum(times) / len(times), "median": _quantile(times, 0.5)}[mode]


def _quantile(ordered: list[float], q: float) -> float:
    """Between the two nearest of ordered numbers."""
    if not 0 <= q <= 1:
        raise ArgumentError(f"quantiles are between 0 and 1, got {q}")
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def assert_close(x: Any, y: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Raise unless two tensors or arrays are close; torch's bf16 is compared in f32."""
    import numpy as np

    left, right = _array(x), _array(y)
    if left.size > 1 or right.size > 1:
        np.testing.assert_allclose(left, right, atol=1e-2 if atol is None else _limit(atol), rtol=0.0 if rtol is None else _limit(rtol), equal_nan=True, err_msg=err_msg)
    elif not np.allclose(left, right, atol=1e-2 if atol is None else _limit(atol), rtol=0.0 if rtol is None else _limit(rtol)):
        raise AssertionError(f"{err_msg} {left} is not close to {right} (atol={atol}, rtol={rtol})")


def _limit(x: Any) -> float:
    return float(x() if callable(x) else x)


def _array(x: Any) -> Any:
    import numpy as np

    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = x.float() if "bfloat16" in str(x.dtype) else x
        return x.numpy()
    return np.asarray(x)


class Benchmark:
    """What `perf_report` measures: an argument along the x axis, a line per value of another one."""

    def __init__(
        self,
        x_names: Sequence[str],
        x_vals: Sequence[Any],
        line_arg: str,
        line_vals: Sequence[Any],
        line_names: Sequence[str],
        plot_name: str,
        args: dict[str, Any],
        xlabel: str = "",
        ylabel: str = "",
        x_log: bool = False,
        y_log: bool = False,
        styles: Any = None,
    ) -> None:
        self.x_names, self.x_vals, self.x_log = x_names, x_vals, x_log
        self.line_arg, self.line_vals, self.line_names, self.y_log = line_arg, line_vals, line_names, y_log
        self.styles, self.xlabel, self.ylabel, self.plot_name, self.args = styles, xlabel, ylabel, plot_name, args


class Mark:
    """A function that measures, and the benchmarks that call it."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Any) -> None:
        self.fn, self.benchmarks = fn, benchmarks

    def run(self, show_plots: bool = False, print_data: bool = False, save_path: str = "", return_df: bool = False, **kwargs: Any) -> Any:
        """Measure; a table is printed, a plot shown and both saved if told. Plots need matplotlib."""
        many = isinstance(self.benchmarks, (list, tuple))
        tables = [self._measured(bench, show_plots, print_data, save_path, kwargs) for bench in (self.benchmarks if many else [self.benchmarks])]
        return None if not return_df else tables if many else tables[0]

    def _measured(self, bench: Benchmark, show_plots: bool, print_data: bool, save_path: str, kwargs: dict[str, Any]) -> Any:
        rows: list[list[Any]] = []
        for x in bench.x_vals:
            point = list(x) if isinstance(x, (list, tuple)) else [x] * len(bench.x_names)
            given = dict(zip(bench.x_names, point, strict=True))
            rows.append([*point, *(_middle(self.fn(**given, **{bench.line_arg: line}, **bench.args, **kwargs)) for line in bench.line_vals)])
        header = [*bench.x_names, *(f"{name} ({bench.ylabel})" if bench.ylabel else name for name in bench.line_names)]
        if print_data:
            print(f"{bench.plot_name}:\n{_table(header, rows)}")
        if save_path:
            _save(bench, header, rows, save_path)
        if show_plots or save_path:
            _plot(bench, rows, show_plots, save_path)
        return _frame(header, rows)


def _middle(measured: Any) -> float:
    """The first of (value, low, high), or the value itself."""
    return float(measured[0] if isinstance(measured, (tuple, list)) else measured)


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    texts = [list(header), *([f"{v:.6f}" if isinstance(v, float) else str(v) for v in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(header))]
    return "\n".join("  ".join(v.rjust(w) for v, w in zip(row, widths, strict=True)) for row in texts)


def _save(bench: Benchmark, header: Sequence[str], rows: Sequence[Sequence[Any]], folder: str) -> None:
    from pathlib import Path

    Path(folder).mkdir(parents=True, exist_ok=True)
    lines = [",".join(map(str, row)) for row in (header, *rows)]
    (Path(folder) / f"{bench.plot_name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _frame(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """A DataFrame if pandas exists, else a list of dicts."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        return [dict(zip(header, row, strict=True)) for row in rows]
    return pandas.DataFrame(rows, columns=list(header))


def _plot(bench: Benchmark, rows: Sequence[Sequence[Any]], show: bool, folder: str) -> None:
    try:
        plt = import_module("matplotlib.pyplot")
    except ImportError:
        return
    plt.figure()
    axes = plt.subplot()
    for i, name in enumerate(bench.line_names):
        colour, style = bench.styles[i] if bench.styles else (None, None)
        axes.plot([row[0] for row in rows], [row[len(bench.x_names) + i] for row in rows], label=name, color=colour, ls=style)
    axes.legend()
    axes.set_xlabel(bench.xlabel or bench.x_names[0])
    axes.set_ylabel(bench.ylabel)
    axes.set_xscale("log" if bench.x_log else "linear")
    axes.set_yscale("log" if bench.y_log else "linear")
    if show:
        plt.show()
    if folder:
        plt.savefig(f"{folder}/{bench.plot_name}.png")
    plt.close()


def perf_report(benchmarks: Any) -> Callable[[Callable[..., Any]], Mark]:
    """Measure a function over the points of a benchmark, or of several."""
    return lambda fn: Mark(fn, benchmarks)


def get_dram_gbps(device: Any = None) -> float:
    """GB/s between memory and the processor, measured by a copy of 64 MB."""
    import numpy as np

    source, target = np.ones(1 << 23), np.empty(1 << 23)
    best: float = do_bench(lambda: np.copyto(target, source), 20, 100, return_mode="min")
    return 2 * source.nbytes / best / 1e6


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """What nvidia-smi tells; there is none here."""
    return [0 for _ in attrs]
