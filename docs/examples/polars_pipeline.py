"""A pipeline of Polars: from a log of events to a table for the people on shift, with a model in the middle. Which pumps fail more often than their hours explain?"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import certus

folder = Path(tempfile.mkdtemp())

# What another program would have left: one row per shift of a pump, hours and stops.
rng = np.random.default_rng(7)
pumps, shifts = 40, 30
temper = rng.normal(0.0, 0.7, pumps)
pump = np.repeat(np.arange(pumps), shifts)
hours = rng.uniform(2, 12, pumps * shifts)
hot = rng.random(pumps * shifts) < 0.3
stops = rng.poisson(hours * np.exp(-2.0 + 0.6 * hot + temper[pump]))
log = pl.DataFrame({"pump": [f"P{k:02d}" for k in pump], "hours": hours, "hot": hot, "stops": stops})
log.write_parquet(folder / "shifts.parquet")

# Lazy: what is not needed is not read.
per_pump = (
    pl.scan_parquet(folder / "shifts.parquet")
    .filter(pl.col("hours") > 0)
    .group_by("pump", "hot")
    .agg(pl.col("stops").sum(), pl.col("hours").sum())
    .sort("pump", "hot")
    .collect()
)

# Counts with an exposure; pumps differ, and by how much is inferred.
fit = certus.poisson("stops ~ hot + (1 | pump)", data=per_pump, exposure="hours").fit()
print(fit)
assert fit.status == "reached" and "proved" in fit.sentences[0]

# Hot shifts multiply the rate by e^0.6 = 1.8.
row = fit.summary().loc["hot"]
assert abs(row["mean"] - 0.6) < 4 * row["sd"]

# Back to Polars: the pumps whose rate is above that of an average pump with a probability of 95 %.
effects = pl.from_pandas(fit.groups.reset_index())
worst = effects.filter(pl.col("q05") > 0).sort("mean", descending=True)
print(worst)
worst.write_parquet(folder / "attention.parquet")

# The pumps that were named do stop more often than others.
true = {f"P{k:02d}": temper[k] - temper.mean() for k in range(pumps)}
assert worst.height >= 3 and min(true[name] for name in worst["group"]) > 0
