"""The public surface as one text, tests/golden/api.txt: a change of the API is always deliberate."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType

import numpy as np

import eas
from eas import mk
from eas.base.dtypes import DType

# Part of every class, or of no interest to a caller.
BOILERPLATE = {
    "__abstractmethods__", "__annotations__", "__class_getitem__", "__dataclass_fields__", "__dataclass_params__",
    "__delattr__", "__dict__", "__doc__", "__eq__", "__firstlineno__", "__getstate__", "__hash__", "__match_args__",
    "__module__", "__non_callable_proto_members__", "__parameters__", "__protocol_attrs__", "__qualname__", "__reduce__",
    "__replace__", "__repr__", "__setattr__", "__setstate__", "__slots__", "__static_attributes__", "__subclasshook__",
    "__weakref__",
}  # fmt: skip


def api() -> str:
    """Every public name with its signature, one per line."""
    sections = [
        ("eas", [n for n in eas.__all__ if n not in eas.base.errors.__all__], eas),
        ("eas.base.errors", eas.base.errors.__all__, eas.base.errors),
        ("eas.mk", mk.__all__, mk),
        ("eas.runtime", eas.runtime.__all__, eas.runtime),
        ("eas.testing", _own_names(_testing()), _testing()),
    ]
    lines = []
    for title, names, module in sections:
        lines.append(f"# {title}")
        lines += [line for name in sorted(set(names)) for line in _describe(name, getattr(module, name))]
        lines.append("")
    for title, instance in _instances():
        lines.append(f"# {title}")
        lines += sorted(name for name in vars(instance) if not name.startswith("_"))
        lines += _members(type(instance)) if title == "an autotuned kernel" else []
        lines.append("")
    return "\n".join(lines)


def _testing() -> ModuleType:
    from eas import testing

    return testing


def _instances() -> Iterator[tuple[str, object]]:
    @eas.kernel
    def copy(x, y, N, BLOCK: eas.constexpr):
        offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(y, offs, mk.load(x, offs, offs < N), offs < N)

    x = np.zeros(8, np.float32)
    yield "attributes of a kernel", copy
    yield "an autotuned kernel", eas.autotune(configs=[eas.Config({"BLOCK": 8})])(copy)
    yield "attributes of a compiled kernel", copy.compile(x, x.copy(), 8, BLOCK=8)


def _own_names(module: ModuleType) -> list[str]:
    return [n for n, v in vars(module).items() if not n.startswith("_") and getattr(v, "__module__", "") == module.__name__]


def _describe(name: str, value: object) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"{name}: module"
    elif isinstance(value, type) and issubclass(value, BaseException):
        yield f"{name}({', '.join(base.__name__ for base in value.__bases__)})"
    elif isinstance(value, type):
        yield f"{name}{_constructor(value)}"
        yield from (f"    {line}" for line in _members(value))
    elif callable(value) and not isinstance(value, DType):
        yield f"{name}{_signature(value)}"
    elif isinstance(value, DType):
        yield f"{name}: dtype {value}"
    else:
        yield f"{name}: {type(value).__name__}"


def _constructor(cls: type) -> str:
    own = vars(cls).get("__init__")
    return _signature(own, skip_self=True) if inspect.isfunction(own) and own.__name__ == "__init__" else ""


def _members(cls: type) -> Iterator[str]:
    members: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "eas":
            members |= dict.fromkeys(inspect.get_annotations(base)) | vars(base)
    for name in sorted(members):
        is_dunder = name.startswith("__") and name.endswith("__")
        if (name.startswith("_") and not is_dunder) or name in BOILERPLATE or name == "__init__":
            continue
        yield _member(name, members[name])


def _member(name: str, value: object) -> str:
    if isinstance(value, property | cached_property):
        getter = value.fget if isinstance(value, property) else value.func
        annotation = inspect.get_annotations(getter).get("return", "Any") if getter else "Any"
        return f"{name}: property {_annotation(annotation)}"
    if isinstance(value, staticmethod | classmethod):
        return f"{type(value).__name__} {name}{_signature(value.__func__, skip_self=isinstance(value, classmethod))}"
    if inspect.isfunction(value):
        return f"{name}{_signature(value, skip_self=True)}"
    return name


class _Text:
    """Printed by `inspect.Signature` as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _signature(fn: object, skip_self: bool = False) -> str:
    assert callable(fn)
    signature = inspect.signature(fn)
    parameters = [_parameter(p) for p in signature.parameters.values()]
    returns = signature.return_annotation
    returns = returns if returns is signature.empty else _Text(_annotation(returns))
    return str(signature.replace(parameters=parameters[1 if skip_self else 0 :], return_annotation=returns))


def _parameter(p: inspect.Parameter) -> inspect.Parameter:
    annotation = p.empty if p.annotation is p.empty else _Text(_annotation(p.annotation))
    default = p.empty if p.default is p.empty else _Text(_default(p.default))
    return p.replace(annotation=annotation, default=default)


def _annotation(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: object) -> str:
    """Without addresses, and the same in every process."""
    if value is None or isinstance(value, (str, int, float, tuple, DType)):
        return repr(value)
    return str(getattr(value, "__qualname__", f"<{type(value).__name__}>"))


def test_public_surface_is_the_snapshot(golden):
    golden("api.txt", api())


def test_snapshot_is_deterministic():
    text = api()
    assert text == api()
    assert not re.search(r"0x[0-9a-f]{6,}", text)


def test_every_public_name_is_there():
    for module in (eas, mk, eas.base.errors, eas.runtime):
        assert [n for n in module.__all__ if not hasattr(module, n)] == []
        assert len(set(module.__all__)) == len(module.__all__)


def test_functions_stay_over_modules_of_the_same_name():
    import importlib

    for name in ("kernel", "tensor"):
        importlib.import_module(f"eas.{name}")
        assert not isinstance(getattr(eas, name), ModuleType)
