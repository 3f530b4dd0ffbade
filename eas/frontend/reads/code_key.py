"""A text that changes whenever a kernel might be traced differently; refused for what no text can hold."""

from __future__ import annotations

import builtins
import hashlib
import os
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from eas.base.dtypes import DType
from eas.frontend.reads.code_names import imports, matches_classes
from eas.frontend.reads.frozen import MISSING
from eas.frontend.reads.globals_read import Dependencies, is_eas_module, is_library_name

_DEPTH = 6
_MAX_ARRAY_NBYTES = 1 << 20
_PURE = ("math", "cmath", "_operator")  # libraries of C whose functions depend on their arguments only
# What the language itself is made of; whatever else of eas a kernel calls may read settings.
_OURS = ("eas.mk.", "eas.base.dtypes.", "eas.frontend.", "eas.triton.language.")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
# They read or tell what is outside of the function, or depend on the process.
_IMPURE = frozenset({
    "__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "getattr", "globals", "hasattr", "hash", "id",
    "input", "locals", "memoryview", "open", "print", "setattr", "vars",
})  # fmt: skip
_BY_STRING = frozenset({"format", "format_map"})  # "{0.argv}".format(sys) reads an attribute that no code names
_LANGUAGE = ("eas.mk", "eas.base.dtypes")
_HARMLESS = frozenset({"__name__", "__version__", "__debug__"})  # of the names that look behind objects
_NUMPY_TYPES = (np.dtype, np.ndarray, np.finfo, np.iinfo)


class NotKeyed(Exception):
    """A kernel depends on something that has no text."""


class Walk:
    """Visits what a kernel can reach; afterwards `dependencies` holds all that was looked at."""

    def __init__(self) -> None:
        self.dependencies = Dependencies()
        self._functions: dict[FunctionType, int] = {}

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
        if kind.__module__.startswith("eas.") and hasattr(value, "__eas_kernel_function__"):
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
        if _is_in(module, _OURS) and fn.__code__.co_filename.startswith(_PACKAGE):
            return f"ours {module}.{fn.__qualname__}"
        if _is_library(module):
            raise NotKeyed
        number = self._functions.get(fn)
        if number is None:
            number = self._functions[fn] = len(self._functions)
            self.dependencies.add(fn)
        return f"function {number}"

    def everything(self) -> Iterator[str]:
        """The texts of all functions met, and of what they read, which may be more functions."""
        described = 0
        modules: list[ModuleType] = []
        reads = self.dependencies.reads()
        while True:
            for fn in list(self._functions)[described:]:
                described += 1
                yield self._description(fn)
            found = next(reads, None)
            if found is None:
                break
            if isinstance(found.value, ModuleType):
                modules.append(found.value)
            yield f"{found.owner}.{found.name} = {self._read(found.value)}"
        names = set(self.dependencies.attributes)
        for module in modules:
            self._check_module(module, names)
        if len(self._functions) > described:
            raise NotKeyed
        if any(name in _BY_STRING or name == "static_print" or (name[:2] == "__" == name[-2:] and name not in _HARMLESS) for name in names):
            raise NotKeyed

    def _read(self, value: object) -> str:
        if value is MISSING:
            return "missing"
        return f"module {value.__name__}" if isinstance(value, ModuleType) else self.value(value)

    def _description(self, fn: FunctionType) -> str:
        defaults = self.value((fn.__defaults__, fn.__kwdefaults__))
        language = type(getattr(fn, "__eas_hooks__", None)).__name__
        return f"{(fn.__module__, fn.__qualname__, fn.__name__)!r} {language} {_digest(fn.__code__)} {defaults}"

    def _check_module(self, module: ModuleType, names: set[str]) -> None:
        """Refuse a module that may give what `dependencies` does not record."""
        if module.__name__ in _LANGUAGE:
            return
        if is_eas_module(module):
            for name in sorted(names & {*dir(module)}):
                value = getattr(module, name)  # parts of eas are loaded when they are asked for
                self._check_module(value, names - {name}) if isinstance(value, ModuleType) else self.value(value)
            return
        if type(module) is not ModuleType:
            raise NotKeyed
        if "__getattr__" not in vars(module):
            return
        if not is_library_name(module.__name__) or not names.isdisjoint({*dir(module)} - vars(module).keys()):
            raise NotKeyed  # of a library, a part that is loaded when it is asked for


def _is_in(module: str, packages: str | tuple[str, ...]) -> bool:
    """Whether a module is one of these, which end with a dot, or part of one."""
    return f"{module}.".startswith(packages)


def _is_library(module: str) -> bool:
    """Whether a function of this module may read what its code does not show; `eas.lib` holds kernels."""
    return is_library_name(module) and not _is_in(module, "eas.lib.")


def _leaf(value: object) -> str:
    """A value without parts."""
    if isinstance(value, DType):
        return f"dtype {value.name}"
    if type(value).__module__.startswith("eas.") and hasattr(value, "__eas_key__"):
        return f"{type(value).__qualname__} {value.__eas_key__}"
    if isinstance(value, np.dtype) and value.metadata is None:
        return f"np.dtype {value.str} {value.descr if value.names else ''}"
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return f"np.{value.dtype.str} {value.tobytes().hex()}"
    if type(value) is np.ndarray and value.dtype.kind in "biufc" and value.nbytes <= _MAX_ARRAY_NBYTES:
        return f"array {value.dtype.str} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, np.ufunc) and getattr(np, str(value.__name__), None) is value:  # not one of np.frompyfunc
        return f"ufunc {value}"
    if isinstance(value, type) and _is_known_type(value):
        return f"type {value.__module__}.{value.__qualname__}"
    if value is NotImplemented or value is Ellipsis:
        return repr(value)
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType):
        home = value.__self__.__name__
        if home in _PURE or (home == "builtins" and value.__name__ not in _IMPURE):
            return f"builtin {home}.{value.__name__}"
    raise NotKeyed


def _is_known_type(kind: type) -> bool:
    """Whether objects of a type hold what they are given and nothing else."""
    if kind.__module__ == "builtins":
        return getattr(builtins, kind.__name__, None) is kind and kind.__name__ not in _IMPURE
    return kind in _NUMPY_TYPES or (kind.__module__ == "numpy" and issubclass(kind, np.generic)) or kind.__module__.startswith("eas.")


def _digest(code: CodeType) -> str:
    digest = hashlib.sha256()
    _feed(digest, code)
    return digest.hexdigest()


def _feed(digest: Any, code: CodeType) -> None:
    """Everything of a code object; lines and columns count too, since errors show them."""
    if imports(code) or matches_classes(code):
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
