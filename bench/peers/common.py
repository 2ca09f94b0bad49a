"""What every peer script shares: one thread, the command line, the loop over problems and seeds, and the result lines."""
import argparse
import contextlib
import io
import json
import os
import time
import traceback

# One thread, set before numpy, JAX and PyTensor are imported.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import problems  # noqa: E402


class Skip(Exception):
    """A run that is not worth starting, or was stopped; the text says why."""


class Clock:
    """CPU seconds of this process since `start`."""

    def __init__(self):
        self.start = time.process_time()

    def __call__(self):
        return time.process_time() - self.start


def check_limit(used, done, limit):
    """Stops a run that would take longer than the limit: `used` CPU seconds went into the fraction `done`."""
    if used / done > limit:
        raise Skip(f"would take about {used / done:.0f} CPU s, more than the limit of {limit:.0f}")


def significant(value, digits=6):
    """A number for the result file, short but with enough digits."""
    return None if value is None else float(f"{value:.{digits}g}")


def run(tool, version, settings, fit):
    """Command line of a peer: runs fit(problem, setting, seed, limit) for the chosen settings, problems and seeds.

    `settings` maps a label to (options, is_tuned), defaults first; `fit` gives a dictionary with mean, factor or covariance,
    gradients, values, cpu_seconds, compile_seconds, said. Every run appends one line to the result file as it ends.
    """
    parser = argparse.ArgumentParser(description=f"Runs {tool} on the benchmark problems.")
    parser.add_argument("--data", default=problems.REPO_DATA, help="directory of the problems")
    parser.add_argument("--out", default=None, help="result file (JSON lines, appended); absent: printed only")
    parser.add_argument("--problem", action="append", help="problem name, may be repeated")
    parser.add_argument("--setting", action="append", help=f"one of {list(settings)}, may be repeated")
    parser.add_argument("--group", choices=["default", "tuned"], help="only the default or only the tuned settings")
    parser.add_argument("--seeds", type=int, default=3, help="runs per problem; one only where a run takes more than 30 CPU s")
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds above which a run is skipped")
    args = parser.parse_args()
    done = already(args.out)
    for setting, (options, tuned) in settings.items():
        if args.setting and setting not in args.setting or args.group == ("default" if tuned else "tuned"):
            continue
        for name in args.problem or problems.available(args.data):
            problem = problems.Problem(name, args.data)
            for seed in range(args.seeds):
                if (tool, setting, name, seed) in done:
                    continue
                line = {"tool": tool, "version": version, "setting": setting, "tuned": tuned, "problem": name, "seed": seed}
                quiet = io.StringIO()
                try:
                    with contextlib.redirect_stdout(quiet):
                        result = fit(problem, options, seed, args.limit)
                except Skip as why:
                    write(args.out, line | {"skipped": str(why)})
                    break
                except Exception as error:  # a peer that fails is a result
                    traceback.print_exc()
                    write(args.out, line | {"skipped": f"{type(error).__name__}: {error}".splitlines()[0][:300]})
                    break
                gap = problem.gap(result["mean"], result.get("factor"), result.get("covariance"))
                line |= {
                    "gradients": int(result["gradients"]),
                    "values": int(result.get("values", 0)),
                    "cpu_seconds": significant(result["cpu_seconds"], 4),
                    "compile_seconds": significant(result.get("compile_seconds", 0.0), 3),
                    "gap": significant(gap),
                    "said": result["said"],
                }
                write(args.out, line | result.get("more", {}))
                if result["cpu_seconds"] > 30:
                    break


def already(out):
    """Keys of the lines a result file has, so that an interrupted benchmark can go on."""
    if not out or not os.path.exists(out):
        return set()
    with open(out) as f:
        lines = [json.loads(line) for line in f if line.strip()]
    return {(x["tool"], x["setting"], x["problem"], x.get("seed")) for x in lines}


def write(out, line):
    """Appends one line and shows it."""
    text = json.dumps(line)
    print(text, flush=True)
    if out:
        with open(out, "a") as f:
            f.write(text + "\n")
