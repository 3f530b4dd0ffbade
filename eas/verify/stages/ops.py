"""Stage "ops": every row of the op table in every dtype, on a backend and on the interpreter, which is the judge."""

from __future__ import annotations

from eas.base import dtypes
from eas.base.errors import Unsupported
from eas.verify import switching
from eas.verify.events import Recorder
from eas.verify.stages.op_blocks import block_cases
from eas.verify.stages.op_cases import Case, elementwise_cases
from eas.verify.stages.op_values import Values, contents, copied, difference

METAL = ("mps", "sim")
SHORT_ONE_IN = 60


def cases(backend: str) -> list[Case]:
    """All launches that a backend can be asked for: Metal has no f64."""
    known = tuple(d for d in dtypes.ALL if backend not in METAL or d is not dtypes.f64)
    return [*elementwise_cases(known), *block_cases(known)]


def run(record: Recorder, backend: str) -> None:
    """Each case is a check; its detail says what differs."""
    todo = cases(backend)[:: SHORT_ONE_IN if record.is_short else 1]
    for n, case in enumerate(todo):
        if record.seconds_left < 0:
            record.skipped(f"{len(todo) - n} cases", "no time left; --full runs all of them")
            return
        check(record, case, backend)
        record.progress(n + 1, len(todo))


def check(record: Recorder, case: Case, backend: str) -> None:
    """One case; an op that a GPU lacks by what is known of it is skipped."""
    try:
        want, got = launch(case, "interp"), launch(case, backend)
    except Unsupported as refusal:
        if backend not in METAL or "has no 64-bit atomic" not in refusal.message:
            record.failed(case.name, f"refused: {refusal.message}")
        else:
            record.skipped(case.name, refusal.message)
        return
    except Exception as error:  # one case must not end the others
        record.failed(case.name, f"{type(error).__name__}: {error}")
        return
    wrong = []
    labels = case.labels or tuple(map(str, case.outs))
    for label, index in zip(labels, case.outs, strict=False):
        dtype, ulps = case.outs[index]
        said = difference(got[index], want[index], dtype, ulps, backend in METAL)
        if said:
            wrong.append(f"{label}: {said}")
    record.check(case.name, not wrong, "\n".join(wrong))


def launch(case: Case, backend: str) -> dict[int, Values]:
    """The outputs of a case on a backend."""
    args = [copied(a) for a in case.args]
    with switching.backend(backend):
        case.kernel[case.grid](*args, **case.meta)
    return {index: contents(args[index], dtype) for index, (dtype, _) in case.outs.items()}
