"""Facts of a report that later processes use: kept per GPU in the cache directory."""

from __future__ import annotations

from eas.runtime.gpu import facts as gpu_facts
from eas.verify.report import Report

NAMES = (*gpu_facts.KINDS, "fragment_map")


def keep(report: Report) -> None:
    """Write what was measured on the Metal device of this report; a report without one changes nothing."""
    facts = report.facts()
    stages = [o for o in report.outcomes if o.backend == "mps" and o.stage in ("facts", "speed")]
    if "device.name" not in facts or not any(o.stage == "facts" and o.status == "passed" for o in stages):
        return
    gpu = str(facts["device.name"].value)
    measured = {f.name: f.value for o in stages for f in o.facts if f.name in NAMES}
    path = gpu_facts.write(gpu, gpu_facts.read(gpu) | measured)
    report.machine["facts kept in"] = str(path) if path else "nowhere: the disk cache is off or not writable"
