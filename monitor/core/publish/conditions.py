"""Conditions that hold now, as pages and the API show them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StandingCondition:
    """Condition of an alert that holds now, whether or not the alert has been sent yet.

    Attributes:
        condition: label ``condition`` of its alert; the alert's name if it has none.
        sentence: what is wrong, in the words of the alert.
        runbook: address of the section of the runbook.
    """

    condition: str
    sentence: str
    runbook: str
