"""Why a program ran, but nothing was captured: the likely causes in order."""

from __future__ import annotations

from collections.abc import Iterator

from hroof.cli.results import Results
from hroof.errors import CaptureError
from hroof.integration import known


def nothing_captured(results: Results, *, skip: int, steps: int) -> CaptureError:
    """The error that says what was asked for, what was seen and what would help.

    Args:
        results: Where the program left its notes.
        skip: Steps that were to pass first.
        steps: Steps that were to be timed.
    """
    reasons = list(_reasons(results))
    listed = "".join(f"\n  {number}. {text}" for number, text in enumerate(reasons, start=1))
    return CaptureError(
        f"No kernels or ops were captured. The filter was --skip {skip} --steps {steps}: "
        f"{skip} steps skipped, then 1 counted and {steps} timed.",
        f"The likely causes:{listed}",
    )


def _reasons(results: Results) -> Iterator[str]:
    said = str(results.reason().get("reason") or "")
    if said:
        yield said
    ended = results.progress()
    if ended:
        yield _ended_within(str(ended[0].get("doing") or "under way"))
        return
    notes = results.evidence()
    if not notes:
        yield from _never_started()
        return
    lacking = [note["executable"] for note in notes if note.get("problem")]
    for executable in lacking:
        yield f"{executable} has no hroof: install it there, {executable} -m pip install hroof."
    if not any(note.get("framework") for note in notes) and len(lacking) < len(notes):
        yield f"The program never imported {' or '.join(sorted(known())) or 'a framework'}."
    elif not said and not lacking:
        yield (
            "It opened no region, took no optimizer step, called no module with parameters and ran no Keras model: "
            "put the work into a block of `with hroof.region():` and call hroof.step() in it."
        )
    yield (
        "A child process does the work, and children are not watched: "
        "open a region there, with hroof.region()."
    )


def _never_started() -> Iterator[str]:
    yield "The program is not Python, or its interpreter is another one that has no hroof."
    yield "Python was started with -I, -S or -E, which ignore what hroof run sets up."
    yield (
        "PYTHONPATH did not reach it (sudo, a container, a job scheduler): "
        "run hroof inside, or open a region in the program with hroof.region()."
    )


def _ended_within(doing: str) -> str:
    return (
        f"The program was ended after the region had begun ({doing}); nothing is saved before the "
        "last timed step. Lower --skip or --steps."
    )
