#!/usr/bin/env python3
"""lode against NumPy on the CPU: the trajectory cost and the dense solve.

    eval "$(make -s env)"; python3 bench/versus_numpy.py [--out FILE.json] [--rounds N]

One lode process and this one are timed in turns on the same random data: per round, some calls of
one, then of the other, in changing order. What is reported is the median over rounds of the seconds
per call, and of the ratio within a round. Results are compared too. Nothing else should run.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

DIM, NDOF = 20, 2


def lag(v):
    return np.concatenate((v[:, :NDOF], v[:, : DIM - NDOF]), axis=1)


def smoothness(x):
    x1 = lag(x)
    k = x + lag(x1) - 2 * x1
    return (k**2).sum(axis=1)


def seconds_per_call(function, calls):
    start = time.perf_counter()
    for i in range(calls):
        function(i)
    return (time.perf_counter() - start) / calls


class Lode:
    def __init__(self, lua, device="cpu"):
        self.process = subprocess.Popen(
            [lua, "bench/worker.lua", device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the lode process ended")
        seconds, path = line.split()
        return float(seconds), path


def in_turns(rounds, ours, theirs, peer="numpy"):
    """Medians of both, and of their ratio round by round. `peer` names the other side."""
    pairs = []
    for i in range(rounds):
        if i % 2:
            second, first = theirs(), ours()
        else:
            first, second = ours(), theirs()
        pairs.append((first, second))
    ratios = sorted(a / b for a, b in pairs)
    return {
        "lode_s": statistics.median(a for a, _ in pairs),
        peer + "_s": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(ratios),
        "ratio_quartiles": [ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]],
        "rounds": rounds,
    }


def cost_row(lode, folder, samples, dtype, rounds):
    generator = np.random.default_rng(samples)
    nsets = max(1, min(8, 40_000_000 // (samples * DIM)))
    calls = max(2, min(2000, 2_000_000 // samples))
    numpy_type = {"f32": np.float32, "f64": np.float64}[dtype]
    sets = [generator.random((samples, DIM)).astype(numpy_type) for _ in range(nsets)]
    path = os.path.join(folder, "cost.bin")
    with open(path, "wb") as file:
        for x in sets:
            file.write(x.tobytes())

    def ours():
        seconds, result = lode.ask("cost", samples, dtype, calls, path)
        got, want = np.fromfile(result, dtype=numpy_type), smoothness(sets[-1])
        np.testing.assert_allclose(got, want, rtol=1e-4 if dtype == "f32" else 1e-11)
        return seconds

    def theirs():
        smoothness(sets[0])
        return seconds_per_call(lambda i: smoothness(sets[i % nsets]), calls)

    row = {"what": "cost", "samples": samples, "dim": DIM, "ndof": NDOF, "dtype": dtype, "calls": calls}
    return {**row, **in_turns(rounds, ours, theirs)}


def relative_residual(a, x, b):
    return float(np.abs(a @ x - b).max() / (np.abs(a).sum(axis=1).max() * np.abs(x).max()))


def solve_row(lode, folder, n, kind, rounds):
    generator = np.random.default_rng(n)
    a, b = generator.standard_normal((n, n)), generator.standard_normal(n)
    if kind == "spd":
        a = a @ a.T / n + np.eye(n)
    path = os.path.join(folder, "solve.bin")
    with open(path, "wb") as file:
        file.write(a.tobytes())
        file.write(b.tobytes())
    calls = 2 if n >= 1000 else 20
    residual = {}

    def ours():
        seconds, result = lode.ask("solve", n, kind, calls, path)
        residual["lode"] = relative_residual(a, np.fromfile(result), b)
        return seconds

    def theirs():
        residual["numpy"] = relative_residual(a, np.linalg.solve(a, b), b)
        return seconds_per_call(lambda i: np.linalg.solve(a, b), calls)

    row = {"what": "solve", "n": n, "kind": kind, "dtype": "f64", "calls": calls}
    return {**row, **in_turns(rounds, ours, theirs), "residual": residual}


def commit():
    run = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return run.stdout.strip()


def processor():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--lua", default="luajit")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--small", action="store_true", help="small sizes only: to see that it works")
    options = parser.parse_args()
    lode, rows = Lode(options.lua), []
    samples = [1000, 10_000] if options.small else [1000, 10_000, 100_000, 1_000_000]
    sizes = [256] if options.small else [500, 2000]
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("f32", "f64"):
            for n in samples:
                rows.append(cost_row(lode, folder, n, dtype, options.rounds))
        for n in sizes:
            for kind in ("general", "spd"):
                rows.append(solve_row(lode, folder, n, kind, options.rounds))
    for row in rows:
        size = "%d x %d" % (row["samples"], DIM) if row["what"] == "cost" else "%d %s" % (row["n"], row["kind"])
        residual = row.get("residual")
        tail = "  residuals %.1e %.1e" % (residual["lode"], residual["numpy"]) if residual else ""
        print(
            "%-6s %-15s %-4s lode %10.1f us  numpy %10.1f us  ratio %.3f [%.3f, %.3f]%s"
            % (row["what"], size, row["dtype"], row["lode_s"] * 1e6, row["numpy_s"] * 1e6, row["ratio"],
               *row["ratio_quartiles"], tail)
        )
    if options.out:
        report = {
            "command": "python3 bench/versus_numpy.py", "commit": commit(), "processor": processor(),
            "cpus": os.cpu_count(), "numpy": np.__version__, "lua": options.lua, "rows": rows,
        }
        with open(options.out, "w") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
