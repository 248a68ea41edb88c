"""What the comparisons share: lode's process, rounds in turns, rows, the table and the report.

A row is one program at one size and dtype. Its inputs are random and new in every run. In each round
lode, every peer and a copy of the same bytes are timed one after the other, in changing order: each
call by itself, and the median of the calls is what the round gives. What counts is the median over
rounds of the ratio within a round (below 1: lode takes less time). Means are of all calls; they hold
the collectors, and whatever else ran on the machine.
"""
import argparse
import functools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import peers as peers_
from peers import Absent, TYPES
from programs import PROGRAMS

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = {"f32": 1e-4, "f64": 1e-11}
RESIDUAL = 1e-15  # of a solve, relative to |A| |x|
PAUSE = 0.005     # seconds: threads of the one that was timed before have stopped spinning


class Lode:
    name = "lode"

    def __init__(self, lua, device):
        self.command = [lua, os.path.join(HERE, "worker.lua"), device]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ok":
            sys.exit("lode does not start: %s" % " ".join(self.command))

    def ask(self, *words):
        if self.process.poll() is not None:
            self.start()
        print(*words, file=self.process.stdin, flush=True)
        status, _, answer = self.process.stdout.readline().strip().partition(" ")
        if not status:
            self.process.wait()
        if status != "ok":
            raise Absent(answer or "its process ended")
        return answer

    def load(self, program, dtype, sets, folder):
        path = os.path.join(folder, "inputs")
        with open(path, "wb") as file:
            for array in (array for inputs in sets for array in inputs):
                array.tofile(file)
        shapes = ["x".join(map(str, array.shape)) for array in sets[0]]
        self.ask("load", program.name, dtype, len(sets), path, *shapes)
        os.remove(path)

    def results(self, dtype, like, folder):
        path = os.path.join(folder, "results")
        self.ask("result", path)
        numbers, results, at = np.fromfile(path, TYPES[dtype]), [], 0
        for array in like:
            results.append(numbers[at : at + array.size])
            at += array.size
        os.remove(path)
        return results

    def seconds(self, mode, calls, warm):
        return tuple(map(float, self.ask("time", mode, calls, warm).split()))


class Timed:
    """One of those that are timed in turns. `time(calls, warm)` gives median and mean of its seconds per call."""

    def __init__(self, name, time, budget):
        self.name, self.time, self.rounds, self.means = name, time, [], []
        time(1, 1)
        tries = []
        while len(tries) < 5 and sum(tries) < budget:
            tries.append(time(1, 0)[0])
        self.calls = max(1, min(5000, int(budget / min(tries))))
        self.warm = min(50, self.calls // 5)

    def turn(self):
        time.sleep(PAUSE)
        median, mean = self.time(self.calls, self.warm)
        self.rounds.append(median)
        self.means.append(mean)


def timer_of(call):
    def timer(calls, warm):
        for i in range(warm):
            call(i)
        times = []
        for i in range(calls):
            start = time.perf_counter()
            call(i)
            times.append(time.perf_counter() - start)
        return statistics.median(times), statistics.fmean(times)

    return timer


def tuple_of(results):
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def check(program, dtype, inputs, got, want):
    """That results agree, up to rounding; of a solve, that the residual is small."""
    if hasattr(program, "residual"):
        residual = program.residual(inputs, [np.ravel(array) for array in got])
        return None if residual < RESIDUAL else "residual %.1e" % residual
    for a, b in zip(got, want, strict=True):
        a, b = np.ravel(a), np.ravel(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return "another shape or dtype"
        error = float(np.max(np.abs(a - b)) / np.max(np.abs(b)))
        if not error <= TOLERANCE[dtype]:
            return "results differ: %.1e of the largest" % error
    return None


def statistics_of(lode, rounds, means):
    """Of what another one's rounds gave."""
    ratios = sorted(a / b for a, b in zip(lode.rounds, rounds))
    return {
        "s": statistics.median(rounds), "mean_s": statistics.fmean(means), "ratio": statistics.median(ratios),
        "ratio_quartiles": [ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]],
        "ratio_of_means": statistics.fmean(lode.means) / statistics.fmean(means),
    }


def best_of(several):
    """Round by round."""
    return [[min(each) for each in zip(*lists)]
            for lists in ([one.rounds for one in several], [one.means for one in several])]


def cell(figures):
    """A ratio; marked where half of the rounds lie further apart than a factor of two: something else ran."""
    if "ratio" not in figures:
        return "%12s " % "-"
    low, high = figures["ratio_quartiles"]
    return "%12.3f%s" % (figures["ratio"], "~" if high > 2 * low else " ")


class Comparison:
    """`groups`: names for the best of several peers, round by round. `modes`: what else lode's process is timed at, by
    program and size."""

    def __init__(self, options, device, kinds, groups, modes):
        self.options, self.device, self.groups, self.modes = options, device, groups, modes
        if options.peers is not None:
            kinds = [kind for kind in kinds if kind.name in options.peers]
        self.peers, self.absent = peers_.gather(kinds, device)
        self.names = [kind.name for kind in kinds]
        try:
            self.copy = peers_.Copy(device)
        except Absent:
            self.copy = None
        self.lode = Lode(options.lua, device)
        self.seed = int.from_bytes(os.urandom(6), "little")
        self.random = np.random.default_rng(self.seed)

    def inputs(self, program, dtype, elements):
        """Several sets, so that inputs of the largest size come from memory, and two at least."""
        shapes = program.shapes(elements)
        moved = sum(math.prod(shape) for shape in shapes) * np.dtype(TYPES[dtype]).itemsize
        count = max(2, min(4, 64_000_000 // moved)) if elements <= 20_000 else 2
        return [
            program.prepare(*(self.random.random(shape, dtype=TYPES[dtype]) for shape in shapes)) for _ in range(count)
        ]

    def prepare_peer(self, peer, program, dtype, sets, want):
        """What to time, or why not."""
        try:
            call = peer.prepare(program, sets)
            got = [peer.read(array) for array in tuple_of(call(len(sets) - 1))]
        except Absent as reason:
            return None, str(reason)
        except Exception as error:  # a peer that fails has a row that says so
            return None, "failed: %s" % str(error).strip().split("\n")[0][:200]
        wrong = check(program, dtype, sets[-1], got, want)
        return (Timed(peer.name, timer_of(call), self.options.budget), None) if not wrong else (None, wrong)

    def reference(self, program, dtype, inputs):
        """In f64: NumPy's sums of many f32 along the first axis are one by one, and off by more than is allowed here."""
        exact = peers_.NumPy("cpu").prepare(program, [[array.astype("f8") for array in inputs]])
        return tuple(np.asarray(array, TYPES[dtype]) for array in tuple_of(exact(0)))

    def row(self, program, dtype, size, elements, folder):
        sets = self.inputs(program, dtype, elements)
        want = self.reference(program, dtype, sets[-1])
        moved = sum(array.nbytes for array in (*sets[0], *want))
        row = {
            "program": program.name, "size": size, "dtype": dtype, "shapes": [array.shape for array in sets[0]],
            "sets": len(sets), "bytes": moved, "peers": {name: {"absent": self.absent[name]} for name in self.absent},
        }
        try:
            self.lode.load(program, dtype, sets, folder)
            wrong = check(program, dtype, sets[-1], self.lode.results(dtype, want, folder), want)
            if wrong:
                raise Absent(wrong)
            timed = [Timed("lode", lambda *n: self.lode.seconds("wait", *n), self.options.budget)]
        except Absent as reason:
            row["error"] = str(reason)
            return row
        for mode in self.modes.get((program.name, size), ()):
            try:
                timed.append(Timed(mode, lambda *n, mode=mode: self.lode.seconds(mode, *n), self.options.budget))
            except Absent as reason:
                row.setdefault("modes", {})[mode] = {"absent": str(reason)}
        for peer in self.peers:
            if self.options.quick and peer.name == "torch.compile":
                one, reason = None, "left out by --quick"
            else:
                one, reason = self.prepare_peer(peer, program, dtype, sets, want)
            if one:
                timed.append(one)
            else:
                row["peers"][peer.name] = {"absent": reason}
        if self.copy and program.bytes_bound:
            timed.append(Timed("copy", timer_of(self.copy.prepare_bytes(moved, len(sets))), self.options.budget))
        try:
            self.run(timed)
            self.summarize(row, timed)
        except Absent as reason:
            row["error"] = str(reason)
        for peer in self.peers:
            peer.forget()
        return row

    def run(self, timed):
        for i in range(self.options.rounds):
            for one in timed[i % len(timed) :] + timed[: i % len(timed)]:
                one.turn()

    def summarize(self, row, timed):
        lode, others = timed[0], {one.name: one for one in timed[1:]}
        row["lode_s"], row["lode_mean_s"] = statistics.median(lode.rounds), statistics.fmean(lode.means)
        row["calls"] = {one.name: one.calls for one in timed}
        row["gb_per_s"] = row["bytes"] / row["lode_s"] / 1e9
        for name, one in others.items():
            place = row if name == "copy" else row["peers"] if name in self.names else row.setdefault("modes", {})
            place[name] = statistics_of(lode, one.rounds, one.means)
        for group, names in self.groups.items():
            there = [others[name] for name in names if name in others]
            if there:
                row.setdefault("groups", {})[group] = statistics_of(lode, *best_of(there))

    def rows(self, done):
        options, rows = self.options, []
        with tempfile.TemporaryDirectory() as folder:
            for program in PROGRAMS:
                if options.only and not any(name in (program.name, program.family) for name in options.only):
                    continue
                for dtype in (dtype for dtype in program.dtypes if dtype in options.dtypes):
                    sizes = program.sizes(self.device).items()
                    for size, elements in list(sizes)[: 1 if options.quick else None]:
                        if options.sizes and size not in options.sizes:
                            continue
                        rows.append(self.row(program, dtype, size, elements, folder))
                        print(self.line(rows[-1]), flush=True)
                        done(rows)
        return rows

    # ---- what is printed -------------------------------------------------------

    def head(self):
        lines = ["%s: %s" % (name, reason) for name, reason in self.absent.items()]
        lines += ["ratios of lode's time to each peer's, below 1 where lode takes less (~: quartiles are more than a",
                  "factor of two apart); results of all agree where a ratio stands; GB/s of the bytes of inputs and",
                  "results, and the same over a copy's", ""]
        columns = ["%12s " % name for name in (*self.names, *self.groups)]
        return "\n".join(lines + ["%-16s %-8s %-4s %11s" % ("program", "size", "", "lode us") + "".join(columns)
                                  + "%9s %6s" % ("GB/s", "/copy")])

    def line(self, row):
        text = "%-16s %-8s %-4s" % (row["program"], row["size"], row["dtype"])
        if "error" in row:
            return text + " lode: " + row["error"]
        notes = ["%s: %s" % (name, row["peers"][name]["absent"]) for name in self.names
                 if name not in self.absent and "absent" in row["peers"][name]]
        cells = [cell(row["peers"][name]) for name in self.names]
        cells += [cell(row.get("groups", {}).get(group, {})) for group in self.groups]
        text += "%12.1f" % (row["lode_s"] * 1e6) + "".join(cells)
        if "copy" in row:
            text += "%9.2f %6.2f" % (row["gb_per_s"], 1 / row["copy"]["ratio"])
        for mode, figures in row.get("modes", {}).items():
            notes.append("%s: %s" % (mode, figures.get("absent") or "%.1f us" % (figures["s"] * 1e6)))
        return text + ("  (%s)" % "; ".join(notes) if notes else "")


# ---- bars: figures that rows must reach --------------------------------------


def figure(row, kind, name):
    """A ratio of a row, or None: of kind "peers", "groups" or "modes"."""
    return row.get(kind, {}).get(name, {}).get("ratio")


def of_copy(row):
    return 1 / row["copy"]["ratio"] if "copy" in row else None


def twelve(rows):
    """The rows of the programs that geometric means are taken of."""
    programs = {program.name: program for program in PROGRAMS}
    return [row for row in rows if row["program"] != "smoothness" and programs[row["program"]].bytes_bound]


def geometric_mean(rows, value):
    """Over programs; the rows of one, and programs of one family, count as one. None where there are no figures."""
    families = {}
    for row in rows:
        if value(row):
            families.setdefault(row["program"].split(".")[0], []).append(math.log(value(row)))
    return math.exp(statistics.fmean(map(statistics.fmean, families.values()))) if families else None


def bar(text, value, limit, at_least=False):
    """One line of the summary."""
    if value is None:
        return {"bar": text, "limit": limit, "value": None, "met": None}
    return {"bar": text, "limit": limit, "value": value, "met": value >= limit if at_least else value <= limit}


def worst(rows, value, at_least=False):
    values = [value(row) for row in rows if value(row) is not None]
    return (min if at_least else max)(values) if values else None


def bar_line(line):
    verdict = {None: "not measured", True: "met", False: "MISSED"}[line["met"]]
    value = "%.3f" % line["value"] if line["value"] is not None else "-"
    return "%-76s %8s  (%.2f)  %s" % (line["bar"], value, line["limit"], verdict)


# ---- the command -------------------------------------------------------------


def processor():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def load():
    """What else runs: the load before should be near to 0."""
    return round(os.getloadavg()[0], 2)


@functools.cache
def output_of(*command):
    try:
        run = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    except OSError:
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


@functools.cache
def machine(device):
    found = {"processor": processor(), "cpus": len(os.sched_getaffinity(0))}
    if device == "cuda":
        found["gpu"] = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").split("\n")[0]
    return found


def arguments(description, rounds):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", help="a file for the JSON")
    parser.add_argument("--lua", default="luajit")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--budget", type=float, default=0.03, help="seconds of each in a round, or one call")
    parser.add_argument("--only", nargs="+", help="programs, or families of them")
    parser.add_argument("--sizes", nargs="+", help="small, cache, memory; samples of the cost")
    parser.add_argument("--dtypes", nargs="+", default=["f32", "f64"])
    parser.add_argument("--peers", nargs="*", help="only these; none: lode and the copy alone")
    parser.add_argument("--quick", action="store_true", help="smallest sizes, f32, few rounds: to see that it works")
    options = parser.parse_args()
    names = [program.name for program in PROGRAMS]
    unknown = sorted(set(options.only or []) - {*names, *(program.family for program in PROGRAMS)})
    if unknown:
        parser.error("no program is called %s; there are %s" % (", ".join(unknown), ", ".join(names)))
    if options.quick:
        options.rounds, options.budget, options.dtypes = 3, 0.005, ["f32"]
    return options


def by_dtype(rows):
    """For each dtype that has rows: its name, its rows, and the row of the cost of so many samples ({}: none)."""
    for dtype in ("f32", "f64"):
        ours = [row for row in rows if row["dtype"] == dtype]

        def cost(samples):
            return next((row for row in ours if (row["program"], row["size"]) == ("smoothness", samples)), {})

        if ours:
            yield dtype, ours, cost


def command_line(options):
    """What was measured; where it was written to says nothing about it."""
    words = [word for word in sys.argv if word not in ("--out", options.out) and not word.startswith("--out=")]
    return " ".join(["python3", *words])


def save(comparison, lines, before, rows):
    """After each row, so that what is cut short is not lost."""
    options = comparison.options
    if not options.out:
        return
    report = {
        "command": command_line(options), "commit": output_of("git", "describe", "--always", "--dirty"),
        **machine(comparison.device), "lua": options.lua, "seed": comparison.seed, "rounds": options.rounds,
        "load": {"before": before, "after": load()},
        "versions": {**{peer.name: peer.version() for peer in comparison.peers}, "python": platform.python_version()},
        "absent": comparison.absent, "bars": lines,
    }
    with open(options.out, "w") as file:
        head = json.dumps(report, indent=1)[:-2]
        file.write(head + ',\n "rows": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]\n}\n")


def compare(options, device, kinds, groups, bars, modes={}):
    """All of it: the rows as they are measured, the bars, the JSON."""
    comparison = Comparison(options, device, kinds, groups, modes)
    before = load()
    if before > 0.5:
        print("the load is %.1f: something else runs, and peers whose threads spin are stalled by it" % before)
    print(comparison.head(), flush=True)
    rows = comparison.rows(lambda rows: save(comparison, bars(rows), before, rows))
    print("", *map(bar_line, bars(rows)), sep="\n")
