"""The table of stages, safest first: what each looks at, where, and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Where = Literal["once", "metal", "primary", "every"]
"""`once`: no backend; `metal`: the best one that takes Metal text; `primary`: the fastest one; `every`: all there are."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One row; `run` is "module:function" of `eas.verify`, called with a `Recorder` and the name of a backend."""

    name: str
    title: str
    run: str
    where: Where
    seconds: int
    short_seconds: int = 20

    def limit(self, is_short: bool, is_full: bool) -> float:
        """After so many seconds the stage has to be over; a full run waits twenty times as long."""
        return self.short_seconds if is_short else self.seconds * (20 if is_full else 1)


STAGES = (
    Stage("build", "build and API", "build:run", "once", 60),
    Stage("probe", "torch probe", "probe:run", "once", 60),
    Stage("refused", "Metal texts that must be refused", "texts:run_refused", "metal", 40),
    Stage("corpus", "Metal texts of our tests", "texts:run_corpus", "metal", 90),
    Stage("facts", "facts of the GPU", "facts:run", "metal", 60),
    Stage("ops", "every op and dtype against the interpreter", "ops:run", "every", 120),
    Stage("lib", "eas.lib against the interpreter", "library:run", "every", 90),
    Stage("examples", "examples", "examples:run", "every", 90),
    Stage("streams", "asynchronous launches and streams", "streams:run", "every", 40),
    Stage("torch", "torch tensors, layers A and B", "torch_layers:run", "once", 90, 60),  # torch alone takes seconds to load, on a busy machine many
    Stage("validation", "a part again under the validation layers", "validation:run", "metal", 60, 40),
    Stage("speed", "launch cost, bandwidth, shapes of threadgroups", "speed:run", "primary", 40),
    Stage("benchmarks", "beside torch and MLX", "peers:run", "primary", 60),
)

VALIDATION_ENV = {"MTL_DEBUG_LAYER": "1", "MTL_SHADER_VALIDATION": "1", "EAS_SANITIZE": "1"}
"""Of the stage "validation": Apple's layers on a Mac, our sanitizer where the Metal is a software one."""


@dataclass(frozen=True, slots=True)
class Job:
    """A stage on a backend, or why it cannot run."""

    stage: Stage
    backend: str
    why_not: str = ""

    @property
    def key(self) -> str:
        return f"{self.stage.name}-{self.backend}" if self.backend else self.stage.name

    @property
    def env(self) -> Mapping[str, str]:
        """What the process of the job has in its environment beside ours."""
        return VALIDATION_ENV if self.stage.name == "validation" else {}

    @property
    def title(self) -> str:
        return f"{self.stage.title} ({self.backend})" if self.backend else self.stage.title


def plan(backends: Mapping[str, str | None], only: frozenset[str] = frozenset(), *, is_short: bool = False) -> list[Job]:
    """The jobs for the backends of a machine, given with the reason why one is not available.

    A short run asks every backend for the ops, and the best one for the rest.
    """
    usable = [name for name, why in backends.items() if why is None]
    jobs: list[Job] = []
    for stage in STAGES:
        if only and stage.name not in only:
            continue
        if stage.where == "once":
            jobs.append(Job(stage, ""))
        elif stage.where == "every":
            best = next(name for name in ("mps", "sim", *usable) if name in usable)
            jobs += [Job(stage, name) for name in usable if not is_short or stage.name == "ops" or name == best]
        elif stage.where == "metal":
            jobs.append(_on_metal(stage, backends))
        else:
            jobs.append(Job(stage, "mps" if "mps" in usable else "cpu"))
    return jobs


def _on_metal(stage: Stage, backends: Mapping[str, str | None]) -> Job:
    reasons = []
    for name in ("mps", "sim"):
        why = backends.get(name, "not asked for")
        if why is None:
            return Job(stage, name)
        reasons.append(f"{name}: {why}")
    return Job(stage, "", "; ".join(reasons))
