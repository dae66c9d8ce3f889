"""Draws the pictures of the page that stand in the README and in docs, from three real runs.

Run it with: python tests/browser/pictures.py [--paper FOLDER] [--gpt RUN] [--cnn RUN] [OUT]

FOLDER is that of examples/paper; without it there is no picture of the paper's data. Needs PyTorch and Chromium.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "paper")]

from hroof.machine import Ceiling, Machine  # noqa: E402
from hroof.profile import Profile  # noqa: E402
from hroof.report.html import render  # noqa: E402
from hroof.units import MemoryLevel, Pipe, Precision  # noqa: E402
from tests.browser import chromium  # noqa: E402

CONFIGURATION = {
    "PT-fp32-O1-Adam-fw": "forward",
    "PT-fp32-O1-Adam-bw": "backward",
    "PT-fp32-O1-Adam-opt": "optimizer",
}
TITLES = {"gpt": "A small transformer", "cnn": "A small convolutional net"}
UNITS = {"tensor": "matrix_fp16", "fp16": "vector_fp16", "fp32": "vector_fp32"}


def trained(name: str, saved: Path | None) -> str:
    """The page of one of the two workloads of the tests: of a saved run of it, else trained here."""
    import hroof

    if saved is not None:
        profile, machine = Profile.load(saved), Machine.load(saved / "machine.json")
    else:
        workload = getattr(
            importlib.import_module("tests.integrations.hroof_torch.workloads"), name
        )()
        with (
            tempfile.TemporaryDirectory() as out,
            hroof.region(TITLES[name], skip=3, steps=3, out=f"{out}/run", show=False) as run,
        ):
            for _ in range(8):
                workload.step()
        profile, known = run.profile, run.machine()
        assert known is not None
        machine = known
    said = {"name": TITLES[name], "program": ["python", "train.py"]}
    return render(profile.replace(run=profile.run | said), machine)


def v100() -> Machine:
    """The paper's machine, with the roofs that its authors draw."""
    measured: Any = {"how": "measured"}
    return Machine(
        "Tesla V100-SXM2-16GB", "cuda:0",
        {
            (Pipe.MATRIX, Precision.FP16): Ceiling(106.496e12, how="datasheet", note="80 × 1024 × 1.3 GHz"),
            (Pipe.VECTOR, Precision.FP16): Ceiling(29.1816e12, **measured),
            (Pipe.VECTOR, Precision.FP32): Ceiling(15.1582e12, **measured),
        },
        {
            MemoryLevel.L1: Ceiling(14336e9, how="datasheet", note="80 × 128 × 1.4 GHz"),
            MemoryLevel.L2: Ceiling(2996.77e9, **measured),
            MemoryLevel.DRAM: Ceiling(828.76e9, **measured),
        },
    )  # fmt: skip


def paper(folder: Path) -> str:
    """The page of DeepCAM on a V100, from the authors' counters."""
    deepcam: Any = importlib.import_module("deepcam")
    rows: list[dict[str, Any]] = []
    for name, table in deepcam.load(folder).items():
        for row in (
            deepcam.work(table, deepcam.CORRECTED).to_dict("records")
            if name in CONFIGURATION
            else ()
        ):
            work = {
                f"flop_{kind}_{unit}": row[column]
                for column, unit in UNITS.items() for kind in ("nominal", "least")
            }  # fmt: skip
            rows.append(work | {f"bytes_{level}": row[level] for level in ("l1", "l2", "dram")} | {
                "kernel": row["kernel"], "launches": row["launches"], "duration": row["time"],
                "phase": CONFIGURATION[name], "device": "cuda:0", "step": 0,
                **{f"source_{what}": "counter" for what in ("time", "flop", "l1", "l2", "dram")},
            })  # fmt: skip
    run = {
        "name": "DeepCAM, PyTorch, AMP O1", "device_name": "Tesla V100-SXM2-16GB", "framework": "torch",
        "how": "Nsight Compute counters of arXiv 2009.05257",
    }  # fmt: skip
    return render(Profile.from_rows(rows, run), v100(), ("kernel",))


def take(pages: dict[str, str], out: Path) -> list[Path]:
    """A picture of the head of each page, and of each chart in the dark with the numbers of its longest point."""
    found, taken = chromium.program(), []
    if found is None:
        raise SystemExit("There is no Chromium on PATH, and HROOF_CHROMIUM names none.")
    with tempfile.TemporaryDirectory() as folder, chromium.started(found, Path(folder)) as make:
        for name, text in pages.items():
            written = Path(folder) / f"{name}.html"
            written.write_text(text, encoding="utf-8")
            page = make(width=1280, height=1480).open(written.as_uri())
            taken.append(page.picture(out / f"page-{name}.png"))
            page.media(prefers_color_scheme="dark")
            page.run("document.querySelector('svg.plot').focus()")
            page.press("ArrowDown")
            taken.append(page.picture(out / f"roofline-{name}.png", "#roofline"))
            page.close()
    for path in taken:
        smaller(path)
    return taken


def smaller(path: Path) -> None:
    """The same picture in a palette: drawings have few colours."""
    from PIL import Image  # comes with matplotlib

    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(
            256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    few.save(path, optimize=True)


def main() -> None:
    """Train, render, take pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--paper", type=Path, help="the folder of examples/paper")
    for name in TITLES:
        parser.add_argument(f"--{name}", type=Path, help="a saved run of it, with its machine.json")
    parser.add_argument("out", type=Path, nargs="?", default=ROOT / "docs")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    pages = {
        "transformer": trained("gpt", arguments.gpt),
        "convolutions": trained("cnn", arguments.cnn),
    }
    if arguments.paper is not None:
        pages["paper"] = paper(arguments.paper)
    for path in take(pages, arguments.out):
        print(f"{path} {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
