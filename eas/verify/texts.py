"""Stages "refused" and "corpus": Metal texts through the compiler of this machine, with what it says."""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from eas.verify import corpus, raw_metal
from eas.verify.corpus import Text
from eas.verify.events import Recorder
from eas.verify.refused_texts import REFUSED, TAKEN, whole

SHORT_TEXTS = 3
MOST_TOLD = 40  # texts whose diagnostics are kept, per language


def run_refused(record: Recorder, backend: str) -> None:
    """Texts that Metal forbids are refused, and their valid neighbours are taken."""
    taken = list(TAKEN.items())[: 1 if record.is_short else None]
    refused = list(REFUSED.items())[:: 12 if record.is_short else 1]
    total = len(taken) + len(refused)
    for n, (name, text) in enumerate(taken):
        said = raw_metal.diagnostics(backend, whole(text), "k")
        record.check(f"takes {name}", said is None, said or "")
        record.progress(n, total)
    for n, (name, text) in enumerate(refused):
        said = raw_metal.diagnostics(backend, whole(text), "k")
        record.check(f"refuses {name}", said is not None, said or "this compiler takes it: the software Metal would be too strict")
        record.progress(len(taken) + n, total)


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
    tried: dict[str, list[tuple[Text, str | None, float]]] = {x: [] for x in levels}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pieces = iter(texts)
        while record.seconds_left > reserve and (piece := list(islice(pieces, 2 * (os.cpu_count() or 1)))):
            for language in levels:
                said = pool.map(lambda text, language=language: _timed(backend, text, language), piece)
                tried[language] += [(text, *answer) for text, answer in zip(piece, said, strict=True)]
            record.progress(len(tried[levels[0]]), len(texts))
    for language in levels:
        _tell(record, language, tried[language], len(texts))


def _timed(backend: str, text: Text, language: str) -> tuple[str | None, float]:
    start = time.perf_counter()
    said = raw_metal.diagnostics(backend, text.source, text.kernel, language, text.math_mode)
    return said, time.perf_counter() - start


def _tell(record: Recorder, language: str, tried: list[tuple[Text, str | None, float]], total: int) -> None:
    wrong = [(text, said) for text, said, _ in tried if said is not None]
    record.check(f"Metal {language}: {len(tried)} texts", not wrong, f"{len(wrong)} do not compile" if wrong else "all compile")
    for text, said in wrong[:MOST_TOLD]:
        record.failed(f"{text.kernel} ({language})", f"{said}\n{text.source}")
    if len(tried) < total:
        record.skipped(f"Metal {language}: {total - len(tried)} texts", "no time left; --full compiles all of them")
    record.point("texts compiled", "compiled", language, len(tried) - len(wrong))
    record.point("texts compiled", "refused", language, len(wrong))
    if tried:
        milliseconds = sorted(1e3 * seconds for *_, seconds in tried)
        record.fact(f"compile.{language}.median", round(statistics.median(milliseconds), 1), "ms")
        record.fact(f"compile.{language}.slowest", round(milliseconds[-1], 1), "ms")
