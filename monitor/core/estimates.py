"""Rates of all slices of one group-by at once (DESIGN: rates under sampled labels)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.cells import Int64s
from monitor.core.contract import Metric

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RateColumns:
    """One metric of all slices, arrays of shape (S,); NaN stands for undefined inside the core.

    Attributes:
        metric: which rate.
        value: the point; NaN without trials or where it is not identified.
        lower: lower bound of the two-sided interval; NaN without trials. Where the point is
            not identified, lower and upper still bound it by the unlabelled share.
        upper: upper bound.
        support: n_eff, the trials the interval rests on; plain counts where all is labelled.
        hits: counted trials behind the numerator (decisions for selection and blocked;
            labelled ready in auto_serve for TPR, labelled not ready in auto_serve for FPR;
            labelled ready for READY).
        misses: counted trials behind numerator's complement.
        route_labels: smallest number of labels among the routes (auto_serve, human_review)
            that have decisions in the slice; number of decisions for unlabelled metrics.
    """

    metric: Metric
    value: Floats
    lower: Floats
    upper: Floats
    support: Floats
    hits: Int64s
    misses: Int64s
    route_labels: Int64s
