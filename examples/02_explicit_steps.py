"""Inference has no optimizer: say yourself where a step ends.

Run it with: python examples/02_explicit_steps.py
"""

import torch
from torch import nn

import hroof


def main() -> hroof.Run:
    """Run a small transformer encoder ten times and report by layer and op."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    tokens = torch.randn(8, 32, 64)

    with hroof.region("inference", skip=2, steps=3) as run, torch.inference_mode():
        for _ in range(8):
            net(tokens)
            hroof.step()
    return run


if __name__ == "__main__":
    print(main().report(by=("layer", "op")))
