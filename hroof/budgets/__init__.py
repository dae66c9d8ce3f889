"""Budgets: limits for numbers of a run, in a file, in a test, or as far as another run goes."""

from hroof.budgets.budget import Budget, Kind, Limit, losses
from hroof.budgets.checking import Check, Row, check, merged
from hroof.budgets.judging import Judged, Verdict
from hroof.budgets.quantities import QUANTITIES, Quantity, Reading
from hroof.budgets.subjects import KEYS, Scope
from hroof.budgets.summary import summary
from hroof.budgets.writing import first_budget

__all__ = [
    "KEYS",
    "QUANTITIES",
    "Budget",
    "Check",
    "Judged",
    "Kind",
    "Limit",
    "Quantity",
    "Reading",
    "Row",
    "Scope",
    "Verdict",
    "check",
    "first_budget",
    "losses",
    "merged",
    "summary",
]
