"""The programs that are compared, as each peer's users write them; bench/programs.lua has the same ones for lode.

A method is named after the peer whose form it is, and is given that peer's module, then the inputs:
`arrays` serves NumPy, and CuPy, JAX and PyTorch where they have no form of their own. `numexpr` is given
peers.evaluate instead of a module. `shapes` says what the inputs are for about that many elements.
"""
import functools
import math

SIZES = {
    "cpu": {"small": 10_000, "cache": 500_000, "memory": 20_000_000},
    "cuda": {"small": 10_000, "cache": 1_000_000, "memory": 100_000_000},
}
DIM, NDOF = 20, 2


class Program:
    peers = None        # the only ones that it is given to
    dtypes = ("f32", "f64")
    bytes_bound = True  # whether the bytes of inputs and results say what the best time is
    fuse = False        # whether cupy.fuse takes all of `arrays`
    width = None

    def __init__(self, name):
        self.name, self.family = name, name.split(".")[0]

    def sizes(self, device):
        return SIZES[device]

    def shapes(self, elements):
        return [(elements // self.width, self.width)] if self.width else [(elements,)]

    def prepare(self, *inputs):
        """Inputs as they should be, from random ones."""
        return inputs


class Smoothness(Program):
    def sizes(self, device):
        samples = (1000, 100_000, 1_000_000) + ((10_000_000,) if device == "cuda" else ())
        return {str(n): n * DIM for n in samples}

    width = DIM

    def lag(self, xp, v):
        return xp.concatenate((v[:, :NDOF], v[:, : DIM - NDOF]), axis=1)

    def arrays(self, xp, x):
        x1 = self.lag(xp, x)
        k = x + self.lag(xp, x1) - 2 * x1
        return (k**2).sum(axis=1)

    def numexpr(self, evaluate, x):
        import numpy as np

        x1 = self.lag(np, x)
        return evaluate("(x + x2 - 2 * x1)**2", x=x, x1=x1, x2=self.lag(np, x1)).sum(axis=1)


class Chain(Program):
    fuse = True

    def arrays(self, xp, x):
        return xp.sqrt(abs(((x * 1.5 + 0.25) * x - 0.5) * x + 1))

    def numexpr(self, evaluate, x):
        return evaluate("sqrt(abs(((x * a + b) * x - c) * x + 1))", x=x, a=1.5, b=0.25, c=0.5)


class TwoVectors(Program):
    def shapes(self, elements):
        return [(elements,), (elements,)]


class Axpy(TwoVectors):
    fuse = True

    def arrays(self, xp, x, y):
        return 2.5 * x + y

    def numexpr(self, evaluate, x, y):
        return evaluate("a * x + y", a=2.5, x=x, y=y)


@functools.cache
def cupy_sum(cupy, name, element):
    return cupy.ReductionKernel("T x, T y", "T z", element, "a + b", "z = a", "0", name)


class Huber(TwoVectors):
    def arrays(self, xp, x, y):
        r = abs(x - y)
        return xp.where(r <= 0.5, 0.5 * r**2, 0.5 * (r - 0.25)).mean()

    def numexpr(self, evaluate, x, y):
        r = evaluate("abs(x - y)", x=x, y=y)
        return evaluate("where(r <= d, d * r**2, d * (r - e))", r=r, d=0.5, e=0.25).mean()

    def torch(self, torch, x, y):
        return torch.nn.functional.huber_loss(x, y, delta=0.5)

    def cupy(self, cupy, x, y):
        element = "abs(x - y) <= T(0.5) ? T(0.5) * (x - y) * (x - y) : T(0.5) * (abs(x - y) - T(0.25))"
        return cupy_sum(cupy, "huber", element)(x, y) / x.size


class Softmax(Program):
    width = 64

    def arrays(self, xp, x):
        e = xp.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def numexpr(self, evaluate, x):
        e = evaluate("exp(x - m)", x=x, m=x.max(axis=1, keepdims=True))
        return evaluate("e / s", e=e, s=e.sum(axis=1, keepdims=True))

    def torch(self, torch, x):
        return torch.softmax(x, 1)

    def jax(self, jax, x):
        return jax.nn.softmax(x, 1)


class Normalization(Program):
    width = 256

    def arrays(self, xp, x):
        d = x - x.mean(axis=1, keepdims=True)
        return d / xp.sqrt((d**2).mean(axis=1, keepdims=True) + 1e-5)

    def numexpr(self, evaluate, x):
        d = evaluate("x - m", x=x, m=x.mean(axis=1, keepdims=True))
        return evaluate("d / sqrt(v + eps)", d=d, v=evaluate("d * d", d=d).mean(axis=1, keepdims=True), eps=1e-5)

    def torch(self, torch, x):
        return torch.nn.functional.layer_norm(x, (self.width,), eps=1e-5)


class Moments(Program):
    width = 64

    def __init__(self, name, axis):
        super().__init__(name)
        self.axis = axis

    def arrays(self, xp, x):
        return x.mean(axis=self.axis), x.var(axis=self.axis)

    def numpy(self, numpy, x):
        mean = x.mean(axis=self.axis, keepdims=True)
        return mean, x.var(axis=self.axis, mean=mean)

    def numexpr(self, evaluate, x):
        mean = x.mean(axis=self.axis, keepdims=True)
        return mean, evaluate("(x - m)**2", x=x, m=mean).mean(axis=self.axis)

    def torch(self, torch, x):
        return torch.var_mean(x, self.axis, correction=0)[::-1]


class Pairwise(Program):
    """By differences: the form that multiplies matrices cancels where points are near to each other."""

    def shapes(self, elements):
        n = math.isqrt(elements)
        return [(n, 3), (n, 3)]

    def arrays(self, xp, x, y):
        return ((x[:, None] - y[None]) ** 2).sum(-1)

    def numpy(self, numpy, x, y):
        total = numpy.subtract.outer(x[:, 0], y[:, 0]) ** 2
        for i in (1, 2):
            total += numpy.subtract.outer(x[:, i], y[:, i]) ** 2
        return total

    def numexpr(self, evaluate, x, y):
        a, b, c = (x[:, i : i + 1] for i in range(3))
        d, e, f = (y[:, i] for i in range(3))
        return evaluate("(a - d)**2 + (b - e)**2 + (c - f)**2", a=a, b=b, c=c, d=d, e=e, f=f)

    def torch_eager(self, torch, x, y):
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist") ** 2


class Rotation(Program):
    def shapes(self, elements):
        return [(elements // 10, 4), (elements // 10, 3)]

    def prepare(self, q, v):
        q /= (q * q).sum(axis=1, keepdims=True) ** 0.5
        return q, v

    def rotate(self, cross, q, v):
        w, u = q[:, :1], q[:, 1:]
        t = 2 * cross(u, v)
        return v + w * t + cross(u, t)

    def arrays(self, xp, q, v):
        return self.rotate(xp.cross, q, v)

    def torch(self, torch, q, v):
        return self.rotate(torch.linalg.cross, q, v)

    def columns(self, q, v):
        return {name: column for name, column in zip("wijkxyz", (*q.T, *v.T))}

    def numexpr(self, evaluate, q, v):
        named = self.columns(q, v)
        for a, b, c, x, y in (("d", "j", "k", "y", "z"), ("e", "k", "i", "z", "x"), ("f", "i", "j", "x", "y")):
            named[a] = evaluate(f"2 * ({b} * {y} - {c} * {x})", **{s: named[s] for s in (b, c, x, y)})
        result = v.copy()
        for n, (x, a, b, c, y, z) in enumerate((("x", "d", "j", "k", "e", "f"), ("y", "e", "k", "i", "f", "d"),
                                                ("z", "f", "i", "j", "d", "e"))):
            used = {s: named[s] for s in ("w", x, a, b, c, y, z)}
            result[:, n] = evaluate(f"{x} + w * {a} + ({b} * {z} - {c} * {y})", **used)
        return result


class Laplacian(Program):
    def shapes(self, elements):
        n = math.isqrt(elements)
        return [(n, n)]

    def arrays(self, xp, x):
        return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]

    def numexpr(self, evaluate, x):
        return evaluate("a + b + c + d - 4 * x", a=x[:-2, 1:-1], b=x[2:, 1:-1], c=x[1:-1, :-2], d=x[1:-1, 2:],
                        x=x[1:-1, 1:-1])


class Masked(TwoVectors):
    def arrays(self, xp, x, y):
        return xp.where(y > 0.5, x, 0).sum()

    def numexpr(self, evaluate, x, y):
        return evaluate("where(y > h, x, 0)", x=x, y=y, h=0.5).sum()

    def cupy(self, cupy, x, y):
        return cupy_sum(cupy, "masked", "y > T(0.5) ? x : T(0)")(x, y)


class Outer(Program):
    width = 1000

    def arrays(self, xp, x):
        return x.sum(axis=0)


class Logsumexp(Program):
    width = 1000

    def arrays(self, xp, x):
        m = x.max(axis=1, keepdims=True)
        return xp.log(xp.exp(x - m).sum(axis=1, keepdims=True)) + m

    def numexpr(self, evaluate, x):
        m = x.max(axis=1, keepdims=True)
        return evaluate("log(s) + m", s=evaluate("exp(x - m)", x=x, m=m).sum(axis=1, keepdims=True), m=m)

    def torch(self, torch, x):
        return torch.logsumexp(x, 1)

    def jax(self, jax, x):
        return jax.nn.logsumexp(x, 1)


class Solve(Program):
    peers = ("numpy", "torch")
    dtypes = ("f64",)
    bytes_bound = False

    def sizes(self, device):
        return {str(n): n for n in ((500, 2000) if device == "cpu" else (1000, 10_000))}

    def shapes(self, n):
        return [(n, n), (n,)]

    def arrays(self, xp, a, b):
        return xp.linalg.solve(a, b)

    def residual(self, inputs, results):
        (a, b), x = inputs, results[0]
        return float(abs(a @ x - b).max() / (abs(a).sum(axis=1).max() * abs(x).max()))


class SolveSpd(Solve):
    def prepare(self, a, b):
        a = a @ a.T / len(a)
        a.flat[:: len(a) + 1] += 1
        return a, b

    def torch(self, torch, a, b):
        return torch.cholesky_solve(b[:, None], torch.linalg.cholesky_ex(a)[0])[:, 0]


# The twelve of which geometric means are taken are all but the cost and the solves; the three of a family count as one.
PROGRAMS = [
    Smoothness("smoothness"), Chain("chain"), Axpy("axpy"), Huber("huber"), Softmax("softmax"),
    Normalization("normalization"), Moments("moments.rows", 1), Moments("moments.columns", 0),
    Moments("moments.all", (0, 1)), Pairwise("pairwise"), Rotation("rotation"), Laplacian("laplacian"),
    Masked("masked"), Outer("outer"), Logsumexp("logsumexp"), Solve("solve.general"), SolveSpd("solve.spd"),
]
