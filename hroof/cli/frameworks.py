"""Which framework a verb uses where it is not said, and what to do where there is none."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
from dataclasses import dataclass

from hroof import integration
from hroof.errors import MissingError
from hroof.integration import Integration


@dataclass(frozen=True)
class Framework:
    """One that hroof can measure, and measure with.

    Attributes:
        name: Of its integration.
        title: As its makers call it.
        computes: The module without which nothing can be computed.
        packages: Distributions that may hold this module.
        remedy: What installs it.
    """

    name: str
    title: str
    computes: str
    packages: tuple[str, ...]
    remedy: str

    @property
    def installed(self) -> bool:
        """Whether it is here; it is not imported, which would take long."""
        try:
            return importlib.util.find_spec(self.computes) is not None
        except ValueError:  # a module that somebody put there by hand
            return True

    @property
    def version(self) -> str:
        """Of the distribution that is installed."""
        for package in self.packages:
            try:
                return importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
        return "installed, version unknown"


TORCH = Framework("torch", "PyTorch", "torch", ("torch",), "pip install 'hroof[torch]'")
KERAS = Framework(
    "keras",
    "TensorFlow",
    "tensorflow",
    ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly", "tf-nightly-cpu"),
    "pip install 'hroof[keras]' tensorflow",
)
KNOWN = (TORCH, KERAS)
"""In order of preference."""


def default() -> Framework:
    """The first that is installed; where none is, the first."""
    return next((one for one in KNOWN if one.installed), KNOWN[0])


def add_framework(parser: argparse.ArgumentParser) -> None:
    """``--framework``: by its own name, or that of its integration."""
    parser.add_argument(
        "--framework", metavar="NAME",
        help=f"{' or '.join(one.name for one in KNOWN)} (default: the first that is installed)",
    )  # fmt: skip


def load(name: str | None) -> Integration:
    """An integration, for verbs that cannot do without.

    Args:
        name: As asked for; None for the default.

    Raises:
        MissingError: It, or its framework, is not there.
    """
    if name is None:
        chosen = default()
        if not chosen.installed:
            choices = ", or ".join(one.remedy for one in KNOWN)
            raise MissingError(
                f"{' or '.join(one.title for one in KNOWN)} is needed, and none is installed.",
                f"Install one with: {choices}.",
            )
        name = chosen.name
    if name not in integration.known():
        raise MissingError(
            f"The {name} integration is not installed.",
            f"Install it with: pip install 'hroof[{name}]'.",
        )
    return integration.load(name)
