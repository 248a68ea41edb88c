#!/usr/bin/env python3
"""lode against NumPy, numexpr, PyTorch and JAX on the CPU.

    pip install -r bench/requirements.txt
    eval "$(make -s env)"; python3 bench/versus_cpu.py [--quick] [--out FILE.json]

The last lines say which bars are met. Nothing else should run meanwhile. harness.py says how it is
measured, programs.py and programs.lua what, peers.py in which mode of each peer. The cost is timed replayed
by lode.graph too.
"""
from harness import arguments, bar, by_dtype, compare, figure, geometric_mean, of_copy, twelve, worst
from peers import ON_CPU

GROUPS = {
    "best": [kind.name for kind in ON_CPU],
    "compilers": ["numexpr", "torch.compile", "jax"],
}
MODES = {("smoothness", "1000"): ("replayed",)}


def bars(rows):
    lines = []
    for dtype, ours, cost in by_dtype(rows):

        def numpy(row):
            return figure(row, "peers", "numpy")

        def compilers(row):
            return figure(row, "groups", "compilers")

        others = twelve(ours)
        lines += [
            bar(f"{dtype} smoothness, 1000: to NumPy", numpy(cost("1000")), 0.12),
            bar(f"{dtype} smoothness, 1000: to the best peer", figure(cost("1000"), "groups", "best"), 0.2),
            bar(f"{dtype} smoothness, 100 000: to NumPy", numpy(cost("100000")), 0.05),
            bar(f"{dtype} smoothness, 1 000 000: to NumPy", numpy(cost("1000000")), 0.03),
            bar(f"{dtype} smoothness, 1 000 000: bandwidth to a copy's", of_copy(cost("1000000")), 0.6, at_least=True),
        ]
        for peer in ("torch", "torch.compile", "jax"):
            lines.append(bar(f"{dtype} smoothness, 1 000 000: to {peer}", figure(cost("1000000"), "peers", peer), 0.15))
        lines += [
            bar(f"{dtype} the twelve: geometric mean to NumPy", geometric_mean(others, numpy), 0.25),
            bar(f"{dtype} the twelve: geometric mean to the best of numexpr, torch.compile, jax",
                geometric_mean(others, compilers), 0.5),
            bar(f"{dtype} the twelve: the worst to NumPy", worst(others, numpy), 1),
            bar(f"{dtype} the twelve: the worst to the best of numexpr, torch.compile, jax",
                worst(others, compilers), 1),
        ]
    return lines


if __name__ == "__main__":
    compare(arguments(__doc__.split("\n")[0], rounds=9), "cpu", ON_CPU, GROUPS, bars, MODES)
