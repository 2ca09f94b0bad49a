"""clock.py NAME COMMAND...: runs a fit of ours and prints its CPU and clock seconds, its memory and what it found."""

import json
import resource
import subprocess
import sys
import time

name, *command = sys.argv[1:]
start = time.perf_counter()
found = subprocess.run([*command, "--json", "--quiet"], stdout=subprocess.PIPE, check=False)
clock = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
fit = json.loads(found.stdout)
scales = {p["name"]: round(p["mean"], 5) for p in fit["parameters"] if p["name"].startswith(("sd(", "cor(", "sigma"))}
value = (fit.get("criterion") or {}).get("value")
print(
    f"{name:16s} {used.ru_utime + used.ru_stime:8.2f} s of CPU, {clock:.2f} s, {used.ru_maxrss / 1e6:.2f} GB, exit {found.returncode}, "
    f"-2 log L {value:.4f}, {scales}",
    flush=True,
)
