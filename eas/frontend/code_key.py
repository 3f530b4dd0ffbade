"""A text that changes whenever a kernel might be traced differently; refused for what no text can hold."""

from __future__ import annotations

import hashlib
import opcode
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from eas.dtypes import DType
from eas.frontend.globals_read import Dependencies, is_trusted_module, names_of

_DEPTH = 6
_MAX_ARRAY_NBYTES = 1 << 20
_IMPORT = opcode.opmap["IMPORT_NAME"]
_LANGUAGE = ("eas.mk", "eas.dtypes")
_PURE = ("math", "cmath", "operator")  # libraries whose functions depend on their arguments only
# What the language itself is made of; whatever else of eas a kernel calls may read settings.
_OURS = ("eas.mk", "eas.dtypes", "eas.frontend", "eas.lib")
# They read or tell what is outside of the function, or depend on the process.
_IMPURE = frozenset({
    "__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "getattr", "globals", "hash", "id",
    "input", "locals", "memoryview", "open", "print", "setattr", "static_print", "vars",
})  # fmt: skip


class NotKeyed(Exception):
    """A kernel depends on something that has no text."""


class Walk:
    """Visits what a kernel can reach; afterwards `dependencies` holds all that was looked at."""

    def __init__(self) -> None:
        self.dependencies = Dependencies()
        self._functions: dict[FunctionType, int] = {}
        self._names: set[str] = set()  # that the functions described so far mention

    def value(self, value: object, depth: int = _DEPTH) -> str:
        """The text of one value; functions get a number, and are described by `everything`."""
        kind = type(value)
        if value is None or kind in (int, bool, str, bytes):
            return f"{kind.__name__} {value!r}"
        if kind in (float, complex):
            return f"{kind.__name__} {value!r}"  # exact, and tells -0.0 from 0.0
        if depth == 0:
            raise NotKeyed
        if isinstance(value, (tuple, list, dict, set, frozenset)):
            return self._container(value, depth - 1)
        if isinstance(value, FunctionType):
            return self._function(value)
        if kind.__module__ in ("eas.kernel", "eas.autotune") and hasattr(value, "__eas_kernel_function__"):
            return f"kernel {self.value(value.__eas_kernel_function__, depth - 1)}"
        return _leaf(value)

    def _container(self, value: Any, depth: int) -> str:
        kind = type(value)
        if kind not in (tuple, list, dict, set, frozenset):
            raise NotKeyed
        items = value.items() if kind is dict else value
        texts = [self.value(item, depth) for item in items]
        if kind in (set, frozenset):
            texts.sort()
        return f"{kind.__name__}({len(texts)}: {', '.join(texts)})"

    def _function(self, fn: FunctionType) -> str:
        module = fn.__module__ or ""
        if module.startswith(_OURS) and not module.startswith("eas.lib"):
            return f"ours {module}.{fn.__qualname__}"
        number = self._functions.get(fn)
        if number is None:
            number = self._functions[fn] = len(self._functions)
            self.dependencies.add(fn)
        return f"function {number}"

    def everything(self) -> Iterator[str]:
        """The texts of all functions met, and of what they read, which may be more functions."""
        described = 0
        reads = self.dependencies.reads()
        while True:
            for fn in list(self._functions)[described:]:
                described += 1
                yield self._description(fn)
            found = next(reads, None)
            if found is None:
                return
            name, value = found
            if isinstance(value, ModuleType):
                self._check_module(value)
                yield f"{name} = module {value.__name__}"
            else:
                yield f"{name} = {self.value(value)}"

    def _description(self, fn: FunctionType) -> str:
        names = set(names_of(fn.__code__))
        self._names |= names
        for name in sorted(names):
            if name in _IMPURE and name not in fn.__globals__:
                raise NotKeyed
            found = fn.__globals__.get(name)
            if isinstance(found, ModuleType):
                self._check_module(found)
        defaults = self.value((fn.__defaults__, fn.__kwdefaults__))
        return f"{fn.__module__}.{fn.__qualname__} {_digest(fn.__code__)} {defaults}"

    def _check_module(self, module: ModuleType, depth: int = _DEPTH) -> None:
        """Refuse a module of which the functions met may call what reads anything that changes."""
        if module.__name__ in _LANGUAGE or module.__name__ in _PURE:
            return
        trusted = is_trusted_module(module)  # of these `dependencies` records nothing
        known = {*vars(module), *dir(module)} if trusted else vars(module).keys()  # NumPy loads parts when asked
        for name in sorted(self._names & known):
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                if depth == 0 or (trusted and value.__name__ not in _LANGUAGE):
                    raise NotKeyed
                self._check_module(value, depth - 1)
            elif not trusted:
                if not self.dependencies.has_name(vars(module), name):
                    raise NotKeyed
            elif isinstance(value, FunctionType) and not (value.__module__ or "").startswith(_OURS):
                raise NotKeyed
            else:
                self.value(value)


def _leaf(value: object) -> str:
    """A value without parts."""
    if isinstance(value, DType):
        return f"dtype {value.name}"
    if isinstance(value, np.dtype):
        return f"np.dtype {value.str} {value.descr if value.names else ''}"
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return f"np.{value.dtype.str} {value.tobytes().hex()}"
    if type(value) is np.ndarray and value.dtype.kind in "biufc" and value.nbytes <= _MAX_ARRAY_NBYTES:
        return f"array {value.dtype.str} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, np.ufunc):
        return f"ufunc {value.__name__}"
    if isinstance(value, type):
        if value.__module__ in ("builtins", "numpy") or value.__module__.startswith("eas."):
            return f"type {value.__module__}.{value.__qualname__}"
        raise NotKeyed
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType):
        home = value.__self__.__name__
        if home in _PURE or (home == "builtins" and value.__name__ not in _IMPURE):
            return f"builtin {home}.{value.__name__}"
    raise NotKeyed


def _digest(code: CodeType) -> str:
    digest = hashlib.sha256()
    _feed(digest, code)
    return digest.hexdigest()


def _feed(digest: Any, code: CodeType) -> None:
    """Everything of a code object; lines and columns count too, since errors show them."""
    if _IMPORT in code.co_code[::2]:
        raise NotKeyed
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_firstlineno)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_name, code.co_filename)
    digest.update(repr((counts, names)).encode("utf-8", "surrogatepass"))
    for raw in (code.co_code, code.co_linetable, getattr(code, "co_exceptiontable", b"")):
        digest.update(b"%d:" % len(raw) + raw)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            _feed(digest, const)
        else:
            digest.update(f"{_constant(const)}\0".encode("utf-8", "surrogatepass"))


def _constant(const: object) -> str:
    if isinstance(const, frozenset):
        return f"frozenset {sorted(map(_constant, const))}"  # its order differs from process to process
    if isinstance(const, tuple):
        return f"tuple {[_constant(item) for item in const]}"
    return f"{type(const).__name__} {const!r}"
