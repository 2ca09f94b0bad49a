"""Small data sets that the tests share, made from fixed seeds."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def df() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    n = 400
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.normal(size=n) + 2.0,
            "city": rng.choice(["Delft", "Leiden", "Utrecht"], n),
            "site": rng.choice([f"s{k}" for k in range(8)], n),
            "old": rng.random(n) < 0.4,
            "day": pd.Timestamp("2024-02-28") + pd.to_timedelta(rng.integers(0, 30, n), unit="D"),
        }
    )
    t = 0.3 + 0.8 * frame.a - 0.4 * frame.b + 0.5 * (frame.city == "Leiden")
    frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-t))).astype(int)
    frame["n"] = rng.integers(1, 9, n)
    frame["hits"] = rng.binomial(frame.n, 1 / (1 + np.exp(-t)))
    frame["count"] = rng.poisson(np.exp(0.5 * t))
    frame["value"] = t + 0.7 * rng.normal(size=n)
    return frame
