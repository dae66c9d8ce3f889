"""Keep a run, read it again, and write a chart, a page and a table.

Run it with: python examples/03_files.py FOLDER
"""

import sys
from pathlib import Path

import torch
from torch import nn

import hroof


def main(folder: str = "hroof-example") -> list[Path]:
    """Measure a small net and write everything that there is to see of it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256))
    optimizer = torch.optim.AdamW(net.parameters())
    batch = torch.randn(64, 256)

    with hroof.region("mlp", skip=2, steps=3, show=False) as run:
        for _ in range(6):
            net(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    written = [
        Path(folder) / name for name in ("roofline.png", "report.html", "layers.csv", "report.json")
    ]
    for path in written:
        run.report(path, by=("layer", "phase"), force=True)
    again = hroof.load(run.save(f"{folder}/run", force=True)).profile
    print(f"{again.step_count} steps, {len(again.launches)} rows, {', '.join(map(str, written))}")
    return written


if __name__ == "__main__":
    main(*sys.argv[1:])
