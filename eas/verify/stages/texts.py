"""Stages "refused" and "corpus": Metal texts through the compiler of this machine, with what it says."""

from __future__ import annotations

import os
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from eas.verify import corpus, raw_metal
from eas.verify.corpus import Text, Twins
from eas.verify.events import Recorder
from eas.verify.stages.refused_texts import REFUSED, TAKEN, whole

SHORT_TEXTS = 3
MOST_TOLD = 40  # texts whose diagnostics are kept, per language


def run_refused(record: Recorder, backend: str) -> None:
    """Texts that Metal forbids are refused, and their valid neighbours are taken; then the pairs of which we are less sure."""
    _clear_cases(record, backend)
    _twins(record, backend)


def _clear_cases(record: Recorder, backend: str) -> None:
    taken = list(TAKEN.items())[: 1 if record.is_short else None]
    refused = list(REFUSED.items())[:: 12 if record.is_short else 1]
    total = len(taken) + len(refused)
    for n, (name, text) in enumerate(taken):
        said = raw_metal.compiled(backend, whole(text), "k")
        record.check(f"takes {name}", said.is_taken, said.text)
        record.progress(n, total)
    for n, (name, text) in enumerate(refused):
        said = raw_metal.compiled(backend, whole(text), "k")
        record.check(f"refuses {name}", not said.is_taken, "this compiler takes it: the software Metal is too strict" if said.is_taken else said.text)
        record.progress(len(taken) + n, total)


def _twins(record: Recorder, backend: str) -> None:
    """What this compiler thinks of the pairs of our tests: where it differs, the software Metal is wrong, not this machine."""
    pairs = corpus.read_twins()[:: 150 if record.is_short else 30 if raw_metal.is_software(backend) else 1]
    pairs = [p for p in pairs if raw_metal.why_no_language(p.language, backend) is None]

    def taken(pair: Twins) -> list[bool]:
        return [raw_metal.compiled(backend, text, _kernel_of(text), pair.language).is_taken for text in (pair.refused, pair.taken)]

    told: list[tuple[Twins, list[bool]]] = []
    pieces = iter(pairs)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while record.seconds_left > 0 and (piece := list(islice(pieces, 4 * (os.cpu_count() or 1)))):
            told += zip(piece, pool.map(taken, piece), strict=True)
    if len(told) < len(pairs):
        record.skipped(f"{len(pairs) - len(told)} pairs", "no time left; --full asks about all of them")
    strict, lax = [p for p, (first, _) in told if first], [p for p, (_, second) in told if not second]
    record.fact("compiler.takes_what_we_refuse", len(strict), f"of {len(told)} texts", expected=0)
    record.fact("compiler.refuses_what_we_take", len(lax), f"of {len(told)} texts", expected=0)
    names = [f"takes {p.name}" for p in strict] + [f"refuses the valid twin of {p.name}" for p in lax]
    record.passed(f"asked about {len(told)} pairs", "\n".join(names))


def _kernel_of(text: str) -> str:
    """The name of the last kernel of a text, or "k" if none is to be seen."""
    names: list[str] = re.findall(r"\bkernel\s+\w+\s+(\w+)\s*\(", text)
    return names[-1] if names else "k"


def run_corpus(record: Recorder, backend: str) -> None:
    """Every text compiles at every language level of this machine; as many as the time allows."""
    texts = corpus.read()
    if record.is_short:
        texts = texts[:SHORT_TEXTS]
    elif raw_metal.is_software(backend):
        texts = texts[: 40 * SHORT_TEXTS]  # our own tests have compiled and run each of them
    languages = ("3.1",) if record.is_short else raw_metal.LANGUAGES
    for language in languages:
        why = raw_metal.why_no_language(language, backend)
        if why is not None:
            record.skipped(f"Metal {language}", why)
    levels = [x for x in languages if raw_metal.why_no_language(x, backend) is None]
    reserve = 0.1 * record.seconds_left
    tried: dict[str, list[Compiled]] = {x: [] for x in levels}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pieces = iter(texts)
        while record.seconds_left > reserve and (piece := list(islice(pieces, 2 * (os.cpu_count() or 1)))):
            for language in levels:
                said = pool.map(lambda text, language=language: _timed(backend, text, language), piece)
                tried[language] += said
            record.progress(len(tried[levels[0]]), len(texts))
    for language in levels:
        _tell(record, language, tried[language], len(texts))


class Compiled(NamedTuple):
    """What came of a text."""

    text: Text
    said: raw_metal.Said
    seconds: float


def _timed(backend: str, text: Text, language: str) -> Compiled:
    start = time.perf_counter()
    said = raw_metal.compiled(backend, text.source, text.kernel, language, text.math_mode)
    return Compiled(text, said, time.perf_counter() - start)


def _tell(record: Recorder, language: str, tried: list[Compiled], total: int) -> None:
    wrong = [c for c in tried if not c.said.is_taken]
    warned = [c for c in tried if c.said.is_taken and c.said.text]
    record.check(f"Metal {language}: {len(tried)} texts", not wrong, f"{len(wrong)} do not compile" if wrong else "all compile")
    for c in wrong[:MOST_TOLD]:
        record.failed(f"{c.text.kernel} ({language})", f"{c.said.text}\n{c.text.source}")
    for c in warned[:MOST_TOLD]:
        record.passed(f"{c.text.kernel} ({language}): warnings", f"{c.said.text}\n{c.text.source}")
    record.fact(f"compile.{language}.warnings", len(warned), "texts", expected=0)
    if len(tried) < total:
        record.skipped(f"Metal {language}: {total - len(tried)} texts", "no time left; --full compiles all of them")
    record.point("texts compiled", "compiled", language, len(tried) - len(wrong))
    record.point("texts compiled", "refused", language, len(wrong))
    if tried:
        milliseconds = sorted(1e3 * c.seconds for c in tried)
        record.fact(f"compile.{language}.median", round(statistics.median(milliseconds), 1), "ms")
        record.fact(f"compile.{language}.slowest", round(milliseconds[-1], 1), "ms")
