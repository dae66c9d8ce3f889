"""Timed ops, counted work and layers → rows of the launch table; the same for every framework."""

from hroof.launches.table import LOSS, LOSS_NAME, DeviceWork, Label, Row, Table, scaled
from hroof.launches.work import NO_TOUCH, Counts, Unit, Work

__all__ = [
    "LOSS",
    "LOSS_NAME",
    "NO_TOUCH",
    "Counts",
    "DeviceWork",
    "Label",
    "Row",
    "Table",
    "Unit",
    "Work",
    "scaled",
]
