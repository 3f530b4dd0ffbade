"""Every environment variable that eas reads, one row each; `config.backend()` reads it at that moment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from eas.base import backends
from eas.base.errors import InvalidSetting as InvalidSetting

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """What a variable may hold; `parse` raises ValueError for anything else."""

    allowed: str
    parse: Callable[[str], T_co]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting(Generic[T_co]):
    """One environment variable; calling it gives its value now."""

    name: str
    default: str
    kind: Kind[T_co]
    doc: str
    is_used: bool = True

    @property
    def is_set(self) -> bool:
        """An empty variable counts as unset, so that `EAS_DEBUG= python ...` means the default."""
        return bool(os.environ.get(self.name))

    def __call__(self) -> T_co:
        text = os.environ.get(self.name) or self.default
        try:
            return self.kind.parse(text)
        except InvalidSetting:
            raise
        except ValueError:
            raise self._refusal(text) from None

    def describe(self) -> str:
        """The doc line, with a word of honesty for a variable that nothing reads yet."""
        return self.doc if self.is_used else f"{self.doc} (not used yet in this version)"

    def _refusal(self, text: str) -> InvalidSetting:
        near = closest(text.lower(), self.kind.choices)
        hint = f"set {self.name}={near}" if near else f"unset {self.name}"
        return InvalidSetting(f"{self.name}={text!r} is not {self.kind.allowed}", hint=hint)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant."""
    import difflib  # only errors ask

    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def _one_of(*choices: str) -> Kind[str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return Kind("one of " + ", ".join(choices), parse, choices)


def _parse_backend(text: str) -> str:
    if text not in backends.names():  # the manifest of now
        raise ValueError(text)
    return text


def _integer(lo: int, hi: int | None = None) -> Kind[int]:
    def parse(text: str) -> int:
        number = int(text)
        if number < lo or (hi is not None and number > hi):
            raise ValueError(text)
        return number

    return Kind(f"an integer of {lo} or more" if hi is None else f"an integer from {lo} to {hi}", parse)


def _parse_flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError(text)
    return text == "1"


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(sorted({name for part in text.split(",") if (name := part.strip())}))


def _parse_cache_dir(text: str, name: str = "EAS_CACHE_DIR") -> Path:
    try:
        return Path(text).expanduser() if text else _user_cache() / "eas"
    except RuntimeError as error:  # pathlib's answer when there is no home directory
        raise InvalidSetting(
            f"{name}={text!r} gives the disk cache no place: {error}",
            hint=f"set {name} to a directory, or EAS_CACHE=0",
        ) from None


def _parse_sim_cache_dir(text: str) -> Path:
    return _parse_cache_dir(text, "EAS_SIM_CACHE_DIR") if text else cache_dir() / "sim"


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    # The XDG specification: a relative path here is invalid and ignored.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return xdg if xdg.is_absolute() else Path.home() / ".cache"


_FLAG = Kind("0 or 1", _parse_flag, ("0", "1"))
_CACHE_DIR = Kind("a directory", _parse_cache_dir)

backend = Setting(
    "EAS_BACKEND", "auto", Kind("one of " + ", ".join(backends.names()), _parse_backend, backends.names()),
    "where kernels run; auto: where their arguments live; metal is another name for mps",
)
debug = Setting(
    "EAS_DEBUG", "0", _integer(0, 5),
    "what is printed: 1 devices and a summary, 2 launches and copies, 3 the lazy graph, 4 generated code, 5 the IR",
)
cpu = Setting(
    "EAS_CPU", "native", _one_of("native", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
    "the processor that CPU code is made for: all that this one can do, or a lower level: v2 has vectors of 16 bytes, v3 of 32, v4 of 64",
)
noopt = Setting("EAS_NOOPT", "0", _FLAG, "1 leaves the optional passes out: unoptimised, serial code")
verify = Setting("EAS_VERIFY", "0", _FLAG, "1 verifies the IR after every pass and every step of a schedule")
without = Setting("EAS_WITHOUT", "", Kind("names of steps, with commas between them", _parse_names), "optional steps of the schedules that are left out, to see what they are worth")
cache_enabled = Setting("EAS_CACHE", "1", _FLAG, "0 turns the disk cache off")
cache_dir = Setting(
    "EAS_CACHE_DIR", "", _CACHE_DIR,
    "the disk cache; by default ~/.cache/eas, on macOS ~/Library/Caches/eas",
)
check_bounds = Setting("EAS_CHECK_BOUNDS", "0", _FLAG, "1 checks every load, store and gather against its buffer or block")
sim_cache_dir = Setting(
    "EAS_SIM_CACHE_DIR", "", Kind("a directory", _parse_sim_cache_dir),
    "what the software Metal has compiled; by default the folder sim of the disk cache",
)
metal = Setting(
    "EAS_METAL", "native", _one_of("native", "software"),
    "what the mps backend runs on: Apple's Metal, or on Linux a software Metal behind the same runtime",
)
fake_family = Setting("EAS_FAKE_FAMILY", "9", _integer(7, 9), "the Apple GPU family that the software Metal stands for under EAS_METAL=software")
fake_seed = Setting("EAS_FAKE_SEED", "0", _integer(0), "chooses the order of commands that Metal does not order, under EAS_METAL=software")
sanitize = Setting("EAS_SANITIZE", "0", _FLAG, "1 looks for data races and wrong accesses on the software Metal")
fault_handler = Setting("EAS_FAULT_HANDLER", "1", _FLAG, "0 installs no signal handler: a kernel that crashes the process is not named")
num_threads = Setting("EAS_NUM_THREADS", "0", _integer(0), "worker threads of the CPU backend; 0: all cores")
max_in_flight = Setting("EAS_MAX_IN_FLIGHT", "64", _integer(1), "launches with _sync=False that may be pending at once")
max_compiled = Setting("EAS_MAX_COMPILED", "256", _integer(1), "compiled kernels that one kernel keeps in memory: those used last")
torch_mps_sync = Setting("EAS_TORCH_MPS_SYNC", "1", _FLAG, "0 skips the synchronisation before torch MPS tensors are read")
torch_layer = Setting(
    "EAS_TORCH_LAYER", "auto", _one_of("auto", "a", "b"),
    "how torch MPS tensors are reached: a through DLPack, b on torch's own stream; auto: b where torch has torch.mps.compile_shader",
)
torch_threads = Setting("EAS_TORCH_THREADS", "1", _FLAG, "0 keeps operators made by eas.torch_op off the OpenMP threads of torch")

SETTINGS: tuple[Setting[object], ...] = tuple(v for v in list(globals().values()) if isinstance(v, Setting))


def unknown_variables() -> dict[str, str | None]:
    """Variables of the environment that look like ours but are not, each with the closest name."""
    known = [s.name for s in SETTINGS]
    strangers = sorted(n for n in os.environ if n.startswith("EAS_") and n not in known)
    return {n: closest(n, known) for n in strangers}
