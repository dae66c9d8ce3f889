"""One line around a training loop: which layers waste the machine?

Run it with: python examples/01_minimal.py
"""

import torch
from torch import nn

import hroof


def main() -> hroof.Run:
    """Train a small convolutional net for ten steps and report."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))

    with hroof.region("train", skip=3) as run:  # the one line
        for _ in range(8):
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return run


if __name__ == "__main__":
    main()
