#!/usr/bin/env python3
"""lode on a CUDA GPU against PyTorch on the same one: the trajectory cost and the dense solve.

    eval "$(make -s env)"; python3 bench/versus_torch.py [--out FILE.json] [--rounds N]

Both sides are timed in turns, as in versus_numpy.py. The cost is compared with a copy from device to
device that moves the same bytes (half of them read, half written), and with lode itself where samples
are uploaded and costs read on every call. Solves are torch.linalg.solve, and cholesky_ex with
cholesky_solve. Nothing else should run on the GPU.
"""
import argparse
import json
import os
import tempfile
import time

import numpy as np
import torch

from versus_numpy import DIM, NDOF, Lode, commit, in_turns, processor, relative_residual

GPU = torch.device("cuda")
ITEM = {"f32": 4, "f64": 8}


def waited(function, calls):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for i in range(calls):
        function(i)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def copy_row(lode, samples, dtype, rounds):
    """The resident cost, enqueued with one wait at the end, against a copy of as many bytes."""
    moved = samples * (DIM + 1) * ITEM[dtype]
    half = moved // 8
    pairs = [
        (torch.rand(half, device=GPU), torch.empty(half, device=GPU))
        for _ in range(max(2, min(16, 256_000_000 // moved)))
    ]
    calls = max(20, min(2000, 2_000_000_000 // moved))

    def theirs():
        return waited(lambda i: pairs[i % len(pairs)][1].copy_(pairs[i % len(pairs)][0]), calls)

    row = {"what": "resident cost, copy of the same bytes", "samples": samples, "dim": DIM, "ndof": NDOF,
           "dtype": dtype, "calls": calls, "bytes": moved}
    return {**row, **in_turns(rounds, lambda: lode.ask("resident", samples, dtype, calls, "-")[0], theirs, "copy")}


def upload_row(lode, samples, dtype, rounds):
    """Cost read on every call: resident samples against samples uploaded on every call; both are lode."""
    row = {"what": "cost read, resident against uploaded", "samples": samples, "dim": DIM, "ndof": NDOF,
           "dtype": dtype, "calls": 1000}
    return {**row, **in_turns(rounds, lambda: lode.ask("read", samples, dtype, 1000, "-")[0],
                              lambda: lode.ask("upload", samples, dtype, 1000, "-")[0], "uploaded")}


def solve_row(lode, folder, n, kind, rounds):
    generator = np.random.default_rng(n)
    a, b = generator.standard_normal((n, n)), generator.standard_normal(n)
    if kind == "spd":
        there = torch.from_numpy(a).to(GPU)
        a = ((there @ there.T) / n + torch.eye(n, dtype=torch.float64, device=GPU)).cpu().numpy()
    path = os.path.join(folder, "solve.bin")
    with open(path, "wb") as file:
        file.write(a.tobytes())
        file.write(b.tobytes())
    there, right = torch.from_numpy(a).to(GPU), torch.from_numpy(b).to(GPU)
    calls = 3 if n >= 4000 else 20
    residual = {}

    def torch_solve(_):
        if kind == "general":
            return torch.linalg.solve(there, right)
        factor = torch.linalg.cholesky_ex(there)[0]
        return torch.cholesky_solve(right[:, None], factor)[:, 0]

    def ours():
        seconds, result = lode.ask("solve", n, kind, calls, path)
        residual["lode"] = relative_residual(a, np.fromfile(result), b)
        return seconds

    def theirs():
        residual["torch"] = relative_residual(a, torch_solve(0).cpu().numpy(), b)

        def call(i):
            torch_solve(i)
            torch.cuda.synchronize()

        return waited(call, calls)

    row = {"what": "solve", "n": n, "kind": kind, "dtype": "f64", "calls": calls}
    return {**row, **in_turns(rounds, ours, theirs, "torch"), "residual": residual}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--lua", default="luajit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 10_000])
    options = parser.parse_args()
    lode, rows = Lode(options.lua, "cuda"), []
    for dtype in ("f32", "f64"):
        for samples in (1000, 100_000, 1_000_000, 10_000_000):
            rows.append(copy_row(lode, samples, dtype, options.rounds))
        rows.append(upload_row(lode, 1000, dtype, options.rounds))
    with tempfile.TemporaryDirectory() as folder:
        for n in options.sizes:
            for kind in ("general", "spd"):
                rows.append(solve_row(lode, folder, n, kind, options.rounds))
    for row in rows:
        size = "%d %s" % (row["n"], row["kind"]) if row["what"] == "solve" else "%d x %d" % (row["samples"], DIM)
        peer = next(key for key in row if key.endswith("_s") and key != "lode_s")
        residual = row.get("residual")
        tail = "  residuals %.2e %.2e" % (residual["lode"], residual["torch"]) if residual else ""
        print("%-38s %-14s %-4s lode %10.1f us  %-8s %10.1f us  ratio %.3f [%.3f, %.3f]%s" % (
            row["what"], size, row["dtype"], row["lode_s"] * 1e6, peer[:-2], row[peer] * 1e6, row["ratio"],
            *row["ratio_quartiles"], tail))
    if options.out:
        report = {
            "command": "python3 bench/versus_torch.py", "commit": commit(), "gpu": torch.cuda.get_device_name(),
            "processor": processor(), "cpus": os.cpu_count(), "torch": torch.__version__, "lua": options.lua,
            "rows": rows,
        }
        with open(options.out, "w") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
