"""Random expression graphs on lazy tensors and on NumPy arrays side by side.

`python -m tests.fuzz.lazy_graphs 5000 --backend cpu` checks as many; `--first` is the first seed, `--steps` the length of each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import numpy as np

import eas
from eas.lazy import realise

UNARY = ("neg", "abs", "relu", "exp", "tanh", "sqrt_abs", "sigmoid", "floor", "not", "square", "half")
BINARY = ("add", "sub", "mul", "max", "min", "div", "lt", "ge", "eq", "floordiv", "mod", "where")
REDUCE = ("sum", "max", "min", "mean", "argmax", "argmin", "any", "all", "softmax", "var", "prod", "logsumexp")
MOVE = ("reshape", "permute", "slice", "flip", "expand", "pad", "roll", "cat", "split", "index", "take", "stack", "gather", "arrays")
OTHER = ("matmul", "batched", "cumsum", "assign", "assign_view", "in_place", "view_assign", "realize", "alias", "inplace_mask", "one_hot")


class Graph:
    """A pool of (tensor, array) pairs that equal each other; each step adds or changes one."""

    def __init__(self, seed: int, n_steps: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool: list[tuple[eas.Tensor, np.ndarray]] = []
        self.log: list[str] = []
        for _ in range(int(self.rng.integers(2, 4))):
            self._leaf()
        for _ in range(n_steps):
            self._step()

    def _leaf(self) -> None:
        rank = int(self.rng.integers(0, 4))
        shape = tuple(int(n) for n in self.rng.choice([1, 2, 3, 5, 8, 17, 40], rank))
        kind = self.rng.choice(["f", "f", "f", "i", "b"])
        if kind == "f":
            array = (self.rng.standard_normal(shape) * 2).astype(np.float32)
        elif kind == "i":
            array = self.rng.integers(-9, 9, shape).astype(np.int32)
        else:
            array = self.rng.integers(0, 2, shape).astype(bool)
        array = np.asarray(array)
        if rank > 1 and self.rng.random() < 0.3:
            array = array.T
        self._add("leaf", eas.tensor(array.copy(order="K")), array.copy(order="K"))

    def _add(self, name: str, lazy: eas.Tensor, array: np.ndarray, is_view: bool = False) -> None:
        # What is computed lies in C order, so that a reshape of both sides is a view, or of both a copy.
        array = np.asarray(array) if is_view or name == "leaf" else np.array(array, order="C")
        assert lazy.shape == array.shape, (self.log, name, lazy.shape, array.shape)
        if array.size > 50_000 or array.ndim > 5:
            return
        self.log.append(f"{len(self.pool)} = {name}: {lazy.dtype}{list(array.shape)}")
        self.pool.append((lazy, array))

    def pick(self, kinds: str = "fib"):
        found = [i for i, (_, a) in enumerate(self.pool) if a.dtype.kind.replace("u", "i") in kinds]
        if not found:
            return None
        # Later ones more often, so that graphs grow deep.
        weight = np.arange(1, len(found) + 1)
        return found[int(self.rng.choice(len(found), p=weight / weight.sum()))]

    def _step(self) -> None:
        family = self.rng.choice(["unary", "binary", "reduce", "move", "other"], p=[0.2, 0.3, 0.16, 0.22, 0.12])
        name = str(self.rng.choice({"unary": UNARY, "binary": BINARY, "reduce": REDUCE, "move": MOVE, "other": OTHER}[str(family)]))
        getattr(self, f"_{family}")(name)

    # --- families ---

    def _unary(self, name: str) -> None:
        i = self.pick("b" if name == "not" else "fi")
        if i is None:
            return
        if name == "floor":
            self._settle(i)
        t, a = self.pool[i]
        f = a.astype(np.float32) if a.dtype.kind != "f" else a
        if name == "exp":
            t, f = t.minimum(3.0), np.minimum(f, np.float32(3))
        made = {
            "neg": lambda: (-t, -a), "abs": lambda: (t.abs(), np.abs(a)), "relu": lambda: (t.relu(), np.maximum(a, 0)),
            "exp": lambda: (t.exp(), np.exp(f)), "tanh": lambda: (t.tanh(), np.tanh(f)),
            "sqrt_abs": lambda: (t.abs().sqrt(), np.sqrt(np.abs(f))), "sigmoid": lambda: (t.sigmoid(), 1 / (1 + np.exp(-f))),
            "floor": lambda: (t.floor(), np.floor(a) if a.dtype.kind == "f" else a.copy()), "not": lambda: (~t, ~a),
            "square": lambda: (t**2, a * a), "half": lambda: (t * 0.5, f * np.float32(0.5)),
        }[name]()  # fmt: skip
        self._add(f"{name}({i})", *made)

    def _two(self, kinds: str, is_exact: bool):
        i, k = self.pick(kinds), self.pick(kinds)
        if i is None or k is None:
            return None
        if is_exact:  # one ulp before a comparison is another answer after it
            self._settle(i)
            self._settle(k)
        (t, a), (u, b) = self.pool[i], self.pool[k]
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            if self.rng.random() < 0.5 or not a.ndim:
                if is_exact and b.dtype.kind == "f":
                    return None
                u, b = u.sum().to(u.dtype) if b.dtype.kind != "b" else u.any(), np.asarray(b.sum(dtype=b.dtype) if b.dtype.kind != "b" else b.any())
                k = f"sum({k})"
            else:
                number = float(self.rng.integers(1, 5)) if a.dtype.kind == "f" else int(self.rng.integers(1, 5))
                return i, number, t, number, a, np.asarray(number, a.dtype if a.dtype.kind != "b" else np.int32)
        return i, k, t, u, a, b

    def _binary(self, name: str) -> None:
        found = self._two("fi", name in ("lt", "ge", "eq"))
        if found is None:
            return
        i, k, t, u, a, b = found
        if a.dtype != b.dtype and "f" in (a.dtype.kind, b.dtype.kind):
            a, b = a.astype(np.float32), b.astype(np.float32)
        if name in ("floordiv", "mod"):
            if a.dtype.kind == "f":
                return  # one ulp before a quotient is another whole number after it
            u, b = (u.abs() + 1 if isinstance(u, eas.Tensor) else u), np.abs(b) + b.dtype.type(1) if isinstance(u, eas.Tensor) else b
        if name == "div":
            u, b = (u * u + 1 if isinstance(u, eas.Tensor) else u), (b * b + b.dtype.type(1) if isinstance(u, eas.Tensor) else b)
            a, b = a.astype(np.float32), b.astype(np.float32)
        with np.errstate(all="ignore"):
            made = {
                "add": lambda: (t + u, a + b), "sub": lambda: (t - u, a - b), "mul": lambda: (t * u, a * b),
                "max": lambda: (t.maximum(u), np.maximum(a, b)), "min": lambda: (t.minimum(u), np.minimum(a, b)),
                "div": lambda: (t / u, a / b), "lt": lambda: (t < u, a < b), "ge": lambda: (t >= u, a >= b),
                "eq": lambda: (t == u, a == b), "floordiv": lambda: (t // u, a // b), "mod": lambda: (t % u, a % b),
                "where": lambda: ((t > u).where(t, u), np.where(a > b, a, b)),
            }[name]()  # fmt: skip
        lazy, array = made
        if array.dtype == np.int64 and lazy.dtype is eas.base.dtypes.i32:
            array = array.astype(np.int32)
        self._add(f"{name}({i}, {k})", lazy, array)

    def _reduce(self, name: str) -> None:
        i = self.pick("b" if name in ("any", "all") else "fi")
        if i is None:
            return
        t, a = self.pool[i]
        if not a.size and name not in ("sum", "any", "all", "prod"):
            return
        axes = [x for x in range(a.ndim) if self.rng.random() < 0.5]
        axis = None if not axes else tuple(axes)
        keep = bool(self.rng.random() < 0.4)
        f = a.astype(np.float32) if a.dtype.kind != "f" else a
        if name in ("argmax", "argmin", "softmax"):
            if not a.ndim:
                return
            axis = int(self.rng.integers(a.ndim))
        if name == "prod" and (a.dtype.kind != "f" or a.size > 50):
            return
        if name in ("softmax", "logsumexp"):
            t, f = t.clip(-20.0, 20.0), np.clip(f, -20, 20)
            powers = np.exp(f - f.max(axis, keepdims=True))
            total = powers.sum(axis, keepdims=True)
        made = {
            "sum": lambda: (t.sum(axis, keep), a.sum(axis, keepdims=keep, dtype=None if a.dtype.kind != "f" else np.float32)),
            "max": lambda: (t.max(axis, keep), a.max(axis, keepdims=keep)), "min": lambda: (t.min(axis, keep), a.min(axis, keepdims=keep)),
            "mean": lambda: (t.mean(axis, keep), f.mean(axis, keepdims=keep)), "var": lambda: (t.var(axis, keep), f.var(axis, keepdims=keep)),
            "argmax": lambda: (t.argmax(axis, keep), a.argmax(axis, keepdims=keep).astype(np.int32)),
            "argmin": lambda: (t.argmin(axis, keep), a.argmin(axis, keepdims=keep).astype(np.int32)),
            "any": lambda: (t.any(axis, keep), a.any(axis, keepdims=keep)), "all": lambda: (t.all(axis, keep), a.all(axis, keepdims=keep)),
            "softmax": lambda: (t.softmax(axis), powers / total), "prod": lambda: (t.prod(axis, keep), a.prod(axis, keepdims=keep)),
            "logsumexp": lambda: (t.logsumexp(axis, True), np.log(total) + f.max(axis, keepdims=True)),
        }[name]()  # fmt: skip
        if name.startswith("arg") and a.dtype.kind == "f":
            self._settle(i)  # nearly equal elements: both sides look at the same ones
            t = self.pool[i][0]
            fn = np.argmax if name == "argmax" else np.argmin
            made = (getattr(t, name)(axis, keep), fn(self.pool[i][1], axis, keepdims=keep).astype(np.int32))
        self._add(f"{name}({i}, {axis}, {keep})", *made)

    def _settle(self, i: int) -> None:
        """Make both sides of a pair bit for bit the same; they are close already."""
        t, a = self.pool[i]
        self.check(i)
        if a.flags.writeable:
            a[...] = t.numpy()
        else:  # what expand gives
            self.pool[i] = eas.tensor(t.numpy().copy()), t.numpy().copy()

    def _move(self, name: str) -> None:
        i = self.pick()
        if i is None:
            return
        t, a = self.pool[i]
        rng = self.rng
        if name == "reshape":
            sizes, left = [], a.size
            for p in (2, 3, 5):
                if left % p == 0 and left and rng.random() < 0.6:
                    sizes.append(p)
                    left //= p
            shape = (*sizes, left) if rng.random() < 0.5 else (left, *sizes)
            self._add(f"reshape({i}, {shape})", t.reshape(*shape), a.reshape(shape), True)
        elif name == "permute":
            axes = [int(x) for x in rng.permutation(a.ndim)]
            self._add(f"permute({i}, {axes})", t.permute(axes), a.transpose(axes), True)
        elif name == "slice" and a.ndim:
            index = tuple(slice(int(rng.integers(0, max(n, 1))), None, int(rng.choice([1, 1, 2, 3]))) if rng.random() < 0.6 else slice(None, None, -1) if rng.random() < 0.2 and n else slice(None) for n in a.shape)
            self._add(f"slice({i}, {index})", t[index], a[index], True)
        elif name == "index" and a.ndim and a.shape[0]:
            at = int(rng.integers(-a.shape[0], a.shape[0]))
            self._add(f"index({i}, {at})", t[at], a[at, ...], True)
        elif name == "flip" and a.ndim:
            axis = int(rng.integers(a.ndim))
            self._add(f"flip({i}, {axis})", t.flip(axis), np.flip(a, axis), True)
        elif name == "expand":
            shape = (int(rng.integers(1, 4)), *a.shape)
            self._add(f"expand({i}, {shape})", t.expand(*shape), np.broadcast_to(a, shape), True)
        elif name == "pad" and a.ndim:
            widths = [(int(rng.integers(0, 3)), int(rng.integers(0, 3))) for _ in a.shape]
            self._add(f"pad({i}, {widths})", t.pad(widths), np.pad(a, widths))
        elif name == "roll" and a.ndim:
            axis, shift = int(rng.integers(a.ndim)), int(rng.integers(-3, 4))
            self._add(f"roll({i}, {shift}, {axis})", t.roll(shift, axis), np.roll(a, shift, axis))
        elif name == "cat" and a.ndim:
            axis = int(rng.integers(a.ndim))
            self._add(f"cat({i}, {axis})", eas.Tensor.cat([t, t + 1 if a.dtype.kind != "b" else ~t, t], axis), np.concatenate([a, a + a.dtype.type(1) if a.dtype.kind != "b" else ~a, a], axis))
        elif name == "split" and a.ndim and a.shape[0] > 1:
            at = int(rng.integers(1, a.shape[0]))
            self._add(f"split({i}, {at})", t.split([at, a.shape[0] - at])[1], a[at:], True)
        elif name == "stack":
            axis = int(rng.integers(a.ndim + 1))
            self._add(f"stack({i}, {axis})", eas.Tensor.stack([t, t.flip()], axis), np.stack([a, np.flip(a)], axis))
        elif name == "gather" and a.ndim and a.size:
            axis = int(rng.integers(a.ndim))
            at = rng.integers(0, a.shape[axis], (*a.shape[:axis], 3, *a.shape[axis + 1 :])).astype(np.int32)
            self._add(f"gather({i}, {axis})", t.gather(axis, eas.tensor(at)), np.take_along_axis(a, at, axis))
        elif name == "arrays" and a.ndim and a.size:
            parts = [rng.integers(-n, n, 3) if rng.random() < 0.5 else slice(None, None, -1) if rng.random() < 0.5 else slice(None) for n in a.shape]
            if a.ndim < 3 and rng.random() < 0.3:
                parts = [rng.random(a.shape) < 0.5]
            self._add(f"arrays({i}, {parts})", t[tuple(parts)], a[tuple(parts)], is_view=not any(isinstance(part, np.ndarray) for part in parts))
        elif name == "take" and a.ndim:
            axis = int(rng.integers(a.ndim))
            if not a.shape[axis]:
                return
            at = rng.integers(-a.shape[axis], a.shape[axis], (3,)).astype(np.int32)
            self._add(f"take({i}, {at}, {axis})", t.take(eas.tensor(at), axis), np.take(a, at, axis))

    def _other(self, name: str) -> None:
        rng = self.rng
        i = self.pick("fi" if name in ("matmul", "batched", "cumsum", "in_place") else "i" if name == "one_hot" else "fib")
        if i is None:
            return
        t, a = self.pool[i]
        if name == "matmul" and a.ndim:
            k = int(rng.choice([1, 4, 30]))
            b = rng.integers(-3, 3, (a.shape[-1], k)).astype(a.dtype) if rng.random() < 0.8 else rng.integers(-3, 3, a.shape[-1]).astype(a.dtype)
            self._add(f"matmul({i}, {b.shape})", t @ eas.tensor(b), a @ b)
        elif name == "batched" and a.ndim > 1:
            b = rng.integers(-3, 3, (2, *(1,) * (a.ndim - 2), a.shape[-1], 4)).astype(a.dtype)
            self._add(f"batched({i}, {b.shape})", t @ eas.tensor(b), a @ b)
        elif name == "cumsum" and a.ndim:
            axis = int(rng.integers(a.ndim))
            self._add(f"cumsum({i}, {axis})", t.cumsum(axis), np.cumsum(a, axis, dtype=a.dtype if a.dtype.kind == "f" else np.int64))
        elif name == "one_hot" and a.size < 500:
            self._add(f"one_hot({i})", t.one_hot(6), (a[..., None] == np.arange(6)).astype(np.int32))
        elif name == "assign" and a.ndim and a.shape[0] and a.flags.writeable:
            at = slice(int(rng.integers(0, a.shape[0])), None, int(rng.choice([1, 2])))
            value = rng.integers(0, 5, a[at].shape[1:]).astype(a.dtype)
            self.log.append(f"{i}[{at}] = {value.tolist()}")
            t[at] = eas.tensor(value) if rng.random() < 0.5 else eas.tensor(value) ^ False if a.dtype.kind == "b" else eas.tensor(value) + 0
            a[at] = value
        elif name == "assign_view" and a.ndim and a.size and a.flags.writeable:
            axis = int(rng.integers(a.ndim))
            how = str(rng.choice(["flip", "T", "slice", "reshape"]))
            half = slice(None, None, 2)
            view, seen = {"flip": lambda: (t.flip(axis), np.flip(a, axis)), "T": lambda: (t.T, a.T), "slice": lambda: (t[half], a[half]), "reshape": lambda: (t.reshape(-1), a.reshape(-1))}[how]()
            value = view[-1] + (1 if a.dtype.kind != "b" else False)
            value = value if a.dtype.kind != "b" else value > 0
            self.log.append(f"{how} of {i}, [0] = [-1] + 1")
            view[0] = value
            seen[0] = np.array(seen[-1]) + a.dtype.type(1) if a.dtype.kind != "b" else np.array(seen[-1])
        elif name == "in_place" and a.flags.writeable:
            self.log.append(f"{i} += {i} flipped")
            t += t.flip()
            a += np.flip(a).copy()
        elif name == "view_assign" and a.ndim and a.shape[0] and a.dtype.kind == "f":
            lazy, array = t * 2, np.array(a * 2, order="C")
            view, seen = (lazy.T, array.T) if rng.random() < 0.5 else (lazy[1:], array[1:])
            reader, want = view + 1, seen + 1
            lazy[0] = 3
            array[0] = 3
            self._add(f"written({i})", lazy, array, True)
            self._add(f"view of written({i})", view, seen, True)
            self._add(f"reader before written({i})", reader, want)
        elif name == "realize":
            self.log.append(f"realize {i}")
            t.realize()
        elif name == "alias" and a.ndim:
            self._add(f"alias {i}", t[...], a[...], True)
        elif name == "inplace_mask" and a.dtype.kind == "f":
            self._settle(i)
            t, a = self.pool[i]
            lazy, array = t + 0, np.array(a + 0)
            lazy[lazy > 0] = -1
            array[array > 0] = -1
            self._add(f"masked({i})", lazy, array)

    # --- the verdict ---

    def check(self, i: int) -> None:
        t, a = self.pool[i]
        got, want = t.numpy(), a
        where = f"\n{chr(10).join(self.log)}\nnumber {i}"
        assert got.shape == want.shape, where
        if want.dtype.kind == "f":
            scale = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=0.0)))
            np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-4 * scale, err_msg=where)
        else:
            np.testing.assert_array_equal(got, want, err_msg=where)


def run(seed: int, n_steps: int = 14) -> None:
    """One random graph; every tensor of it equals its NumPy array."""
    with np.errstate(all="ignore"):
        graph = Graph(seed, n_steps)
        for i in np.random.default_rng(seed).permutation(len(graph.pool)):
            graph.check(int(i))


def main() -> int:
    """Check many graphs through kernels; 1 if some differ from NumPy."""
    parser = argparse.ArgumentParser(description="random lazy graphs against NumPy")
    parser.add_argument("graphs", type=int)
    parser.add_argument("--backend", default="cpu", choices=["interp", "cpu", "sim"])
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=14)
    asked = parser.parse_args()
    os.environ["EAS_BACKEND"] = asked.backend
    realise.HOT = 0
    begin, wrong = time.monotonic(), []
    for seed in range(asked.first, asked.first + asked.graphs):
        try:
            run(seed, asked.steps)
        except Exception as error:
            wrong.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    print(f"{asked.graphs} graphs on {asked.backend}, {len(wrong)} wrong {wrong[:20]}, {time.monotonic() - begin:.0f} s")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
