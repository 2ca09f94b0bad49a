"""make.py logistic|linear GROUPS ROWS PARQUET CSV: y ~ x + (x | g) with sds 1 and 0.7 and a correlation of 0.4, to two files."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

kind, groups, rows, parquet, csv = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
rng = np.random.default_rng(20261118)
g = np.repeat(np.arange(groups), rows)
x = rng.normal(size=g.size)
u = rng.normal(size=(2, groups))
slope = 0.7 * (0.4 * u[0] + np.sqrt(1 - 0.4**2) * u[1])
t = -0.5 + 0.8 * x + u[0][g] + slope[g] * x
y = t + rng.normal(size=g.size) if kind == "linear" else (rng.random(g.size) < 1 / (1 + np.exp(-t))).astype(int)
table = pa.table({"y": y, "x": x, "g": g})
pa.parquet.write_table(table, parquet)
pa.csv.write_csv(table, csv)
