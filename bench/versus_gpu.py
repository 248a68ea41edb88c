#!/usr/bin/env python3
"""lode against PyTorch, CuPy and JAX on a CUDA GPU.

    pip install -r bench/requirements.txt
    eval "$(make -s env)"; python3 bench/versus_gpu.py [--quick] [--out FILE.json]

The last lines say which bars are met. Nothing else should run on the GPU meanwhile. harness.py says
how it is measured, programs.py and programs.lua what, peers.py in which mode of each peer. The cost is
compared with an empty kernel too, and lode with itself: enqueued without a wait, replayed by lode.graph,
its result read, and its samples uploaded before.
"""
from harness import arguments, bar, by_dtype, compare, figure, geometric_mean, of_copy, twelve, worst
from peers import ON_GPU

GROUPS = {"best": [kind.name for kind in ON_GPU]}
MODES = {("smoothness", "1000"): ("enqueue", "replayed", "read", "upload", "empty")}


def bars(rows):
    lines = []
    for dtype, ours, cost in by_dtype(rows):

        def compiled(row):
            return figure(row, "peers", "torch.compile")

        modes = cost("1000").get("modes", {})
        enqueued, replayed, empty = (modes.get(name, {}).get("s") for name in ("enqueue", "replayed", "empty"))
        least = {"f32": 0.92, "f64": 0.88}[dtype]
        others = twelve(ours)
        memory = [row for row in others if row["size"] == "memory"]
        lines += [
            bar(f"{dtype} smoothness, 1000: to an empty kernel", figure(cost("1000"), "modes", "empty"), 1.7),
            bar(f"{dtype} smoothness, 1000: to torch.compile", compiled(cost("1000")), 0.35),
            bar(f"{dtype} smoothness, 1000: enqueued, us", enqueued and enqueued * 1e6, 9),
            bar(f"{dtype} smoothness, 1000: replayed to an empty kernel", replayed and empty and replayed / empty, 1.3),
            bar(f"{dtype} smoothness, 1 000 000: to torch.compile", compiled(cost("1000000")), 0.4),
            bar(f"{dtype} smoothness, 10 000 000: bandwidth to a copy's", of_copy(cost("10000000")), least,
                at_least=True),
            bar(f"{dtype} smoothness, 10 000 000: to torch.compile", compiled(cost("10000000")), 0.7),
            bar(f"{dtype} smoothness, 10 000 000: to torch", figure(cost("10000000"), "peers", "torch"), 0.05),
            bar(f"{dtype} the twelve: geometric mean to torch.compile", geometric_mean(others, compiled), 0.6),
            bar(f"{dtype} the twelve: the worst to torch.compile", worst(others, compiled), 1.05),
            bar(f"{dtype} the twelve, memory: the least bandwidth to a copy's",
                worst(memory, of_copy, at_least=True), 0.8, at_least=True),
        ]
    return lines


if __name__ == "__main__":
    compare(arguments(__doc__.split("\n")[0], rounds=7), "cuda", ON_GPU, GROUPS, bars, MODES)
