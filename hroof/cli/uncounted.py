"""Why a program ran under Nsight Compute, but none of its kernels was profiled."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from hroof.cli.results import Results
from hroof.collect.nsight import Request
from hroof.errors import CaptureError

_SHOWN = 8
_KINDS = "RSPL"  # regions, steps, phases, layers: what messages begin with


def nothing_profiled(
    results: Results, request: Request, names: Mapping[str, Any], *, skip: int, steps: int
) -> CaptureError:
    """The error that says what the filter was, what ranges there were, and what would help.

    Args:
        results: Where the program left its notes.
        request: What was asked for.
        names: The ranges that the program emitted, as ``hroof.collect.nvtx.names()`` has them.
        skip: Steps that were to pass first.
        steps: Steps that were to be profiled.
    """
    filters = " ".join(f"--nvtx-include '{one}'" for one in request.include)
    reasons = [*_seen(results, names), *_possible(skip, bool(names))]
    listed = "".join(f"\n  {number}. {text}" for number, text in enumerate(reasons, start=1))
    return CaptureError(
        f"No kernels were profiled, though the program ran. The filter was {filters} "
        f"(--skip {skip} --steps {steps}). {_emitted(names)}",
        f"The likely causes:{listed}",
    )


def _emitted(names: Mapping[str, Any]) -> str:
    if not names:
        return "No range of the domain hroof is known to have been emitted."
    shown = ", ".join(sorted(names, key=lambda message: _KINDS.find(message[0]))[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"The program emitted the ranges {shown}{more}."


def _seen(results: Results, names: Mapping[str, Any]) -> Iterator[str]:
    """What the program's own notes say; this is certain."""
    said = str(results.reason().get("reason") or "")
    if said:
        yield said
    for note in results.evidence():
        if note.get("problem"):
            where = note["executable"]
            install = f"{shlex.quote(where)} -m pip install hroof"
            yield f"{where} has no hroof: install it there, {install}."
    if names and not any(entry.get("kind") == "step" for entry in names.values()):
        yield "None of these ranges is a step (S…): the region ended before the first step to be profiled."


def _possible(skip: int, emitted: bool) -> Iterator[str]:
    """What it may be otherwise, the likeliest first."""
    yield (
        "The ranges do not match the filter in name or scope: push/pop ranges hold for their own thread only, and "
        "backward launches from another. hroof marks steps as start/end ranges; "
        + ("they were emitted." if emitted else "without the package nvtx (0.2.13 or newer) it emits none.")
    )  # fmt: skip
    yield "The program calls cudaProfilerStop, or never cudaProfilerStart where it disables profiling first."
    yield f"The program takes fewer steps than are skipped: lower --skip {skip}."
    yield "The steps ran on the CPU only, or each one as a CUDA graph that this ncu does not look into."
    yield (
        "A child process does the work: it opens no region by itself, so put hroof.region() into it; and it is not "
        "followed into a container, to a scheduler or another machine."
    )
