"""The peers: how each is given a program and its inputs, what a timed call of it is, and how it is waited for.

A peer that is not there, or cannot do a program, raises Absent with the reason; its row says so.
"""
import functools
import importlib
import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64}


class Absent(Exception):
    pass


class Peer:
    """The arrays are NumPy's own unless `place` says otherwise; `wait` is for those that return before the end."""

    module = None
    forms = ()  # names of a program's methods, the best first

    def __init__(self, device):
        self.device = device
        try:
            self.xp = importlib.import_module(self.module)
        except ImportError:
            raise Absent("not installed") from None
        self.start()

    def start(self):
        pass

    def version(self):
        return importlib.import_module(self.module.split(".")[0]).__version__

    def place(self, array):
        return array

    def read(self, array):
        return np.asarray(array)

    def wait(self, results):
        pass

    def function(self, program):
        for form in self.forms:
            if hasattr(program, form):
                return functools.partial(getattr(program, form), self.xp)
        raise Absent("cannot be said in it")

    def prepare(self, program, sets):
        """A function of i that runs the program on one of the sets, and returns when it is done."""
        if program.peers and self.name not in program.peers:
            raise Absent("not compared")
        return self.repeated(self.function(program), [[self.place(array) for array in inputs] for inputs in sets])

    def repeated(self, function, sets):
        def call(i):
            results = function(*sets[i % len(sets)])
            self.wait(results)
            return results

        return call

    def forget(self):
        """After a program: what is kept for it may go."""


class NumPy(Peer):
    name, module, forms = "numpy", "numpy", ("numpy", "arrays")


@functools.cache
def compiled(numexpr, expression, names, dtype):
    kind = {"f": float, "d": np.double}[dtype]  # numexpr's names of f32 and f64
    return numexpr.NumExpr(expression, [(name, kind) for name in names])


def evaluate(numexpr, expression, **inputs):
    """numexpr without its own lookup by frames. Numbers become scalars of the inputs' dtype: else all is f64."""
    dtype = next(value.dtype for value in inputs.values() if isinstance(value, np.ndarray))
    values = [np.asarray(value, dtype) for value in inputs.values()]
    return compiled(numexpr, expression, tuple(inputs), dtype.char)(*values)


class Numexpr(Peer):
    name, module, forms = "numexpr", "numexpr", ("numexpr",)

    def start(self):
        self.xp.set_num_threads(len(os.sched_getaffinity(0)))

    def function(self, program):
        if not hasattr(program, "numexpr"):
            raise Absent("cannot be said in it")
        return functools.partial(program.numexpr, functools.partial(evaluate, self.xp))


class Torch(Peer):
    name, module, forms = "torch", "torch", ("torch_eager", "torch", "arrays")

    def start(self):
        if self.device == "cuda" and not self.xp.cuda.is_available():
            raise Absent("sees no GPU")
        self.xp.set_grad_enabled(False)

    def place(self, array):
        return self.xp.from_numpy(array).to(self.device)

    def read(self, array):
        return array.cpu().numpy()

    def wait(self, results):
        if self.device == "cuda":
            self.xp.cuda.synchronize()

    def forget(self):
        if self.device == "cuda":
            self.xp.cuda.empty_cache()


class TorchCompile(Torch):
    """Compiled for the shapes at hand, which is its best mode for one size."""

    name, forms = "torch.compile", ("torch", "arrays")

    def function(self, program):
        return self.xp.compile(super().function(program), dynamic=False)

    def forget(self):
        self.xp.compiler.reset()
        super().forget()


class TorchGraph(Torch):
    """A CUDA graph of the eager form for each set: replaying copies no inputs."""

    name = "torch graph"

    def repeated(self, function, sets):
        torch, graphs = self.xp, []
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        for inputs in sets:
            with torch.cuda.stream(side):
                function(*inputs)
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                results = function(*inputs)
            graphs.append((graph, results))

        def call(i):
            graph, results = graphs[i % len(graphs)]
            graph.replay()
            torch.cuda.synchronize()
            return results

        return call


class CuPy(Peer):
    name, module, forms = "cupy", "cupy", ("cupy", "arrays")

    def start(self):
        try:
            self.xp.cuda.runtime.getDeviceCount()
        except Exception:
            raise Absent("sees no GPU") from None

    def place(self, array):
        return self.xp.asarray(array)

    def read(self, array):
        return self.xp.asnumpy(array)

    def wait(self, results):
        self.xp.cuda.Device().synchronize()

    def function(self, program):
        function = super().function(program)
        if not program.fuse:
            return function
        # cupy.fuse asks for a function with a name and as many parameters as it is called with.
        fused = {1: lambda x: function(x), 2: lambda x, y: function(x, y)}[len(program.shapes(1000))]
        return self.xp.fuse()(fused)

    def forget(self):
        self.xp.get_default_memory_pool().free_all_blocks()


class Jax(Peer):
    name, module, forms = "jax", "jax", ("jax", "arrays")

    def start(self):
        self.xp.config.update("jax_enable_x64", True)
        platform = "gpu" if self.device == "cuda" else "cpu"
        try:
            self.where = self.xp.devices(platform)[0]
        except RuntimeError:
            raise Absent("sees no GPU") from None

    def place(self, array):
        return self.xp.device_put(array, self.where)

    def wait(self, results):
        self.xp.block_until_ready(results)

    def function(self, program):
        if hasattr(program, "jax"):
            return self.xp.jit(functools.partial(program.jax, self.xp))
        return self.xp.jit(functools.partial(program.arrays, self.xp.numpy))


class Copy(Peer):
    """Not a peer but the measure: a copy of as many bytes as a program must move, half read and half written.

    On the CPU by as many threads as there are processors, where there is enough to share; on a GPU
    from device to device. Several pairs in turn, so that the last-level cache does not hold them.
    """

    name, module = "copy", "numpy"

    def start(self):
        if self.device == "cuda":
            self.torch = Torch("cuda")
        self.threads = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def prepare_bytes(self, moved, count):
        half = moved // 8  # of f32
        if self.device == "cuda":
            torch = self.torch.xp
            pairs = [(torch.rand(half, device="cuda"), torch.empty(half, device="cuda")) for _ in range(count)]

            def call(i):
                source, target = pairs[i % count]
                target.copy_(source)
                torch.cuda.synchronize()

            return call
        parts = self.threads._max_workers if moved >= 1_000_000 else 1
        pairs = [
            (np.array_split(np.random.rand(half).astype("f4"), parts), np.array_split(np.ones(half, "f4"), parts))
            for _ in range(count)
        ]

        def call(i):
            sources, targets = pairs[i % count]
            if parts == 1:
                np.copyto(targets[0], sources[0])
            else:
                list(self.threads.map(np.copyto, targets, sources))

        return call

    def forget(self):
        if self.device == "cuda":
            self.torch.forget()


ON_CPU = (NumPy, Numexpr, Torch, TorchCompile, Jax)
ON_GPU = (Torch, TorchCompile, TorchGraph, CuPy, Jax)


def gather(kinds, device):
    """Peers that are there, and by name why others are not."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the GPU's memory is shared by all
    warnings.filterwarnings("ignore", category=UserWarning)
    there, absent = [], {}
    for kind in kinds:
        try:
            there.append(kind(device))
        except Absent as reason:
            absent[kind.name] = str(reason)
    return there, absent
