"""Regression models on data frames and matrices."""
from __future__ import annotations
from typing import Any

class Model:
    _model: Any

def linear(*a: Any, **k: Any) -> Model: raise NotImplementedError
logistic = binomial = probit = poisson = negative_binomial = linear
