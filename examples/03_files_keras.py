"""Keep a run, read it again, and write a chart, a page and a table.

Run it with: python examples/03_files_keras.py FOLDER
"""

import sys
from pathlib import Path

import keras
import numpy as np

import hroof
import hroof_keras


def main(folder: str = "hroof-example-keras") -> list[Path]:
    """Measure a small net and write everything that there is to see of it."""
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense
    net = keras.Sequential([keras.Input((256,)), dense(512, "gelu", name="up"), dense(256)])
    net.compile("adamw", "mse")
    batches = np.random.default_rng(0).standard_normal((6 * 64, 256), dtype="float32")

    roofline = hroof_keras.RooflineCallback(skip=2, steps=3, name="mlp", show=False)
    net.fit(batches, batches, batch_size=64, verbose=0, callbacks=[roofline])

    written = [
        Path(folder) / name for name in ("roofline.png", "report.html", "layers.csv", "report.json")
    ]
    for path in written:
        roofline.report(path, by=("layer", "phase"), force=True)
    again = hroof.load(roofline.run.save(f"{folder}/run", force=True)).profile
    print(f"{again.step_count} steps, {len(again.launches)} rows, {', '.join(map(str, written))}")
    return written


if __name__ == "__main__":
    main(*sys.argv[1:])
