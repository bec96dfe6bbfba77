"""What sequences of calls happen in: sessions, the values bound in them, the kernels that are called, and
what plain NumPy says that all memory holds after a call."""

from __future__ import annotations

import copy
import ctypes
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from finchlang import FinchError, Kernel, Session, Tensor, kernel

FORMATS = (
    *("Dense(Element(0.0))", "SparseList(Element(0.0))", "SparseByteMap(Element(0.0))"),
    *("SparseCOO{1}(Element(0.0))", "RunList(Element(0.0))", "SparseRunList(Element(0.0))"),
    *("SparseBlockList(Element(0.0))", "SparseHash{1}(Element(0.0))", "PackBits(Element(0.0))"),
    *("SparseBand(Element(0.0))", "SparseList{Int8}(Element(0.0))"),
)
MATRIX_FORMATS = (
    *("Dense(Dense(Element(0.0)))", "Dense(SparseList(Element(0.0)))"),
    *("SparseCOO{2}(Element(0.0))", "SparseList(SparseByteMap(Element(0.0)))"),
    *("SparseHash{2}(Element(0.0))", "Dense(SparseRunList(Element(0.0)))"),
    "Dense(SparseList{Int16}(Element(0.0)))",
)
VECTORS, MATRICES = ("x", "y", "z"), ("A", "B", "C")
#: a view is a name for others' memory, that kernels only read
VIEWS = ("v", "V")


class Finding(AssertionError):
    """Something is not as NumPy says."""


# ------------------------------------------------------------------------------------------ kernels

Dense = dict[str, np.ndarray]


class Refused(Exception):
    """The call must end in an error of one of these kinds."""

    def __init__(self, *kinds: str):
        self.kinds = kinds


@dataclass(frozen=True)
class Program:
    """A kernel: `compute` takes what its names hold, dense, and gives what those it writes must hold
    afterwards. Raises Refused."""

    text: str
    names: tuple[str, ...]
    writes: tuple[str, ...]
    compute: Callable[[Dense], Dense]


def loop(
    target: str,
    sign: str,
    value: str,
    reads: str,
    compute: Callable[..., Any],
    loops: str = "i = _",
) -> Program:
    """`target[..] sign value` in loops: a target that `compute` takes first keeps its size."""
    declared, at = target not in reads, "i, j" if "j" in loops else "i"
    first = f"{target} .= 0\n" if declared else ""
    text = f"@finch begin\n{first}for {loops}\n {target}[{at}] {sign} {value}\nend\nend"

    def work(given: Dense) -> Dense:
        taken = [given[name] for name in reads]
        alike(*taken)
        return {target: compute(*taken)}

    return Program(text, tuple(dict.fromkeys((*reads, target))), (target,), work)


def alike(*arrays: np.ndarray) -> None:
    if len({array.shape for array in arrays}) > 1:
        raise Refused("dimension")


def multiply(given: Dense) -> Dense:
    if given["A"].shape[1:] != given["x"].shape:
        raise Refused("dimension")
    return {"y": given["A"] @ given["x"]}


def two(given: Dense) -> Dense:
    return {"y": given["x"] * 2.0, "z": np.where(given["x"] > 2, given["x"], 0.0)}


def leads_out(k: np.ndarray, of: np.ndarray) -> None:
    if k.size and (k.min() < 1 or k.max() > of.size):
        raise Refused("bounds")


def scatter(given: Dense) -> Dense:
    x, y, k = given["x"], given["y"], given["k"].astype(np.int64)
    alike(x, k)
    leads_out(k, y)
    np.add.at(y, k - 1, x)
    return {"y": y}


def gather(given: Dense) -> Dense:
    x, k = given["x"], given["k"].astype(np.int64)
    leads_out(k, x)
    return {"z": x[k - 1]}


def too_large(given: Dense) -> Dense:
    raise Refused("resource", "dimension")


BY_COLUMNS, BY_ROWS = "j = _, i = _", "i = _, j = _"
PROGRAMS = (
    loop("y", "=", "x[i]", "x", lambda x: x),
    loop("x", "=", "y[i]", "y", lambda y: y),
    loop("y", "+=", "2.5 * x[i]", "x", lambda x: 2.5 * x),
    loop("z", "=", "x[i] + y[i]", "xy", lambda x, y: x + y),
    loop("x", "=", "y[i] * z[i]", "yz", lambda y, z: y * z),
    loop("y", "+=", "x[i]", "yx", lambda y, x: y + x),
    loop("x", "+=", "y[i]", "xy", lambda x, y: x + y),
    loop("z", "*=", "0.5", "z", lambda z: z * 0.5),
    loop("y", "=", "3 * v[i]", "v", lambda v: 3 * v),
    Program(
        "@finch begin\ny .= 0\nz .= 0\nfor i = _\n y[i] = x[i] * 2.0\n"
        " if x[i] > 2\n  z[i] = x[i]\n end\nend\nend",
        *(("x", "y", "z"), ("y", "z"), two),
    ),
    *(
        loop(target, "=", value, reads, compute, order)
        for order in (BY_COLUMNS, BY_ROWS)
        for target, value, reads, compute in (
            ("C", "A[i, j]", "A", lambda A: A),
            ("C", "A[i, j] + B[i, j]", "AB", lambda A, B: A + B),
            ("B", "3.0 * C[i, j]", "C", lambda C: 3.0 * C),
            ("C", "V[i, j] + 1.0", "V", lambda V: V + 1.0),
        )
    ),
    *(
        Program(
            f"@finch begin\ny .= 0\nfor {order}\n y[i] += A[i, j] * x[j]\nend\nend",
            *(("A", "x", "y"), ("y",), multiply),
        )
        for order in (BY_COLUMNS, BY_ROWS)
    ),
)
SCATTER = Program("@finch for i = _\n y[k[i]] += x[i]\nend", ("x", "k", "y"), ("y",), scatter)
GATHER = Program(
    "@finch begin\nz .= 0\nfor i = _\n z[i] = x[k[i]]\nend\nend", ("x", "k", "z"), ("z",), gather
)
TOO_LARGE = Program(
    f"@finch begin\ny .= 0\nfor i = 1:{2**62}\n y[i] = x[1]\nend\nend",
    *(("x", "y"), ("y",), too_large),
)
FUNCTION = f"function scaled(y, x)\n{PROGRAMS[2].text}\ny\nend"
KERNEL: Kernel[..., Any] = kernel(FUNCTION)
DUPLICATES = {"pickle": lambda v: pickle.loads(pickle.dumps(v)), "deepcopy": copy.deepcopy}


# -------------------------------------------------------------------------------------------- memory


def parts(value: Any) -> Iterator[np.ndarray]:
    """The user's arrays that a value consists of."""
    if isinstance(value, np.ndarray):
        yield value
    elif sp.issparse(value):
        yield from (value.data, value.indices, value.indptr)


def root(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def overlap(one: Any, other: Any) -> bool:
    """Whether two values share memory."""
    pairs = ((a, b) for a in parts(one) for b in parts(other))
    return any(np.may_share_memory(a, b) and np.shares_memory(a, b) for a, b in pairs)


def _bytes(owner: np.ndarray) -> bytes:
    return ctypes.string_at(address(owner), owner.nbytes) if owner.nbytes else b""


def _same(what: str, found: np.ndarray, wanted: np.ndarray) -> None:
    if found.shape != wanted.shape:
        raise Finding(f"{what} is of shape {found.shape}, not {wanted.shape}")
    if not np.allclose(found, wanted, equal_nan=True):
        at = tuple(np.argwhere(~np.isclose(found, wanted, equal_nan=True))[0])
        raise Finding(f"{what} holds {found[at]} at {at}, not {wanted[at]}")


def check_sound(value: Any) -> None:
    """Raises Finding for a tensor or a matrix that is broken."""
    try:
        if isinstance(value, Tensor):
            value.checked = False
            value.validate()
            if not (value.shape > value.entries()[0].T).all():
                raise Finding(f"a {value.format} has coordinates out of range")
        elif sp.issparse(value):
            value.check_format(full_check=True)
    except (FinchError, ValueError, IndexError) as error:
        raise Finding(f"a {getattr(value, 'format', type(value))} is broken: {error}") from None


class World:
    """Sessions and what is bound in them: one that inserts workspaces, one that does not."""

    def __init__(self) -> None:
        self.sessions = [Session(), Session(workspaces=False)]
        self.tensors: dict[int, tuple[Tensor, np.ndarray]] = {}  # with what they must hold
        self.views: dict[int, tuple[Any, Any, Callable]] = {}  # of what value, and which part
        self.handed: list[tuple[Tensor, np.ndarray, np.ndarray]] = []  # of which, a part, a copy
        self.past: list[Any] = []
        numbers = np.arange(1.0, 6.0)
        for session in self.sessions:
            for name in (*VECTORS, "v"):
                session[name] = numbers.copy()
            for name in (*MATRICES, "V"):
                session[name] = sp.csc_array(np.diag(numbers))
            session.run(FUNCTION)

    def bind(self, number: int, name: str, value: Any) -> None:
        self.remember(self.sessions[number][name])
        self.sessions[number][name] = value

    def remember(self, value: Any) -> None:
        self.past = [*self.past[-11:], value]

    def keep(self, tensor: Tensor, dense: np.ndarray) -> Tensor:
        """Note what a tensor holds."""
        self.tensors[id(tensor)] = tensor, dense
        return tensor

    def values(self) -> list[Any]:
        """All that is or was bound, each once."""
        bound = [s[n] for s in self.sessions for n in (*VECTORS, *MATRICES, *VIEWS)]
        return list({id(v): v for v in (*bound, *self.past)}.values())

    def base(self, value: Any) -> Any:
        """What a view is of, or the value itself."""
        return self.base(self.views[id(value)][1]) if id(value) in self.views else value

    def dense(self, value: Any) -> np.ndarray:
        """What a value holds, in memory of its own."""
        if id(value) in self.views:
            return self.views[id(value)][2](self.dense(self.views[id(value)][1])).copy()
        if isinstance(value, Tensor):
            return self.tensors[id(value)][1].copy()
        return np.asarray(value.toarray() if sp.issparse(value) else value).astype(float)

    def forget(self, array: np.ndarray) -> None:
        """Drop old values that share memory with an array."""
        self.past = [v for v in self.past if not overlap(self.base(v), array)]

    def is_alone(self, array: np.ndarray) -> bool:
        """Whether nothing else that is bound shares its memory."""
        return not any(v is not array and overlap(self.base(v), array) for v in self.values())


class Snapshot:
    """What all memory of a world holds, and what it must hold after a call."""

    def __init__(self, world: World):
        self.world = world
        self.roots: dict[int, tuple[np.ndarray, bytearray]] = {}
        self.matrices: dict[int, tuple[Any, np.ndarray]] = {}
        self.tensors = {n: (t, a.copy()) for n, (t, a) in world.tensors.items()}
        for value in world.values():
            if isinstance(value, np.ndarray):
                owner = root(value)
                self.roots[id(owner)] = owner, bytearray(_bytes(owner))
            elif sp.issparse(value):
                self.matrices[id(value)] = value, value.toarray()

    def expect(self, value: Any, dense: np.ndarray) -> None:
        """`value` will hold `dense`."""
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value, dense
        elif isinstance(value, np.ndarray):
            owner = root(value)
            offset, memory = address(value) - address(owner), self.roots[id(owner)][1]
            view = np.ndarray(value.shape, value.dtype, memory, offset, value.strides)  # type: ignore
            view[...] = dense
        else:
            self.matrices[id(value)] = value, dense

    def give_up(self, value: Any) -> None:
        """`value` is bound no more, and may hold anything that is whole."""
        for memory in (self.roots, self.matrices):
            memory.pop(id(root(value) if isinstance(value, np.ndarray) else value), None)  # type: ignore
        check_sound(value)

    def compare(self) -> None:
        """Raises Finding if something differs."""
        for owner, memory in self.roots.values():
            if (now := _bytes(owner)) != memory:
                _same("an array", *(np.frombuffer(b, owner.dtype) for b in (now, bytes(memory))))
        for matrix, wanted in self.matrices.values():
            check_sound(matrix)
            _same("a matrix", matrix.toarray(), wanted)
        for tensor, wanted in self.tensors.values():
            check_sound(tensor)
            _same(f"a {tensor.format}", tensor.to_numpy(), wanted)
        for _, handed, wanted in self.world.handed:
            _same("an array that a tensor handed out", handed, wanted)
        self.world.tensors = self.tensors


# ------------------------------------------------------------------------------------------- calling


def run(session: Session, text: str) -> FinchError | None:
    """The error that a script ends in."""
    try:
        session.run(text)
    except FinchError as error:
        return error
    return None


def call(world: World, number: int, program: Program, how: str = "run") -> None:
    """Call a program, as a script, a function or a kernel, and compare all memory with what NumPy makes
    of it. Raises Finding."""
    session = world.sessions[number]
    values = {name: session[name] for name in program.names}
    if not all(_is_taken(world, name, value, program) for name, value in values.items()):
        return
    before, expected = Snapshot(world), {}
    due = _refusals(world, program, values)
    try:
        expected = program.compute({name: world.dense(value) for name, value in values.items()})
    except Refused as refused:
        due |= set(refused.kinds)
    for name, dense in expected.items():
        if "{Int8}" in _format(values[name]) and len(dense) > 127:
            due.add("dimension")
    is_ordered = not session.workspaces and not all(_is_random(values[n]) for n in program.writes)
    may = {"access order"} if is_ordered else set()
    if due and any("{Int8}" in _format(values[n]) for n in program.writes):
        may.add("dimension")  # of two errors that are due it may be either
    error = _perform(session, program, values, how)
    if error is not None and error.kind not in due | may:
        raise Finding(f"an error that none expects: {error}")
    if error is None and due:
        raise Finding(f"no error, where one of {due} is due")
    changed = [values[n] for n in program.writes if f"{n} .= 0" not in program.text]
    world.handed = [h for h in world.handed if all(h[0] is not value for value in changed)]
    for name, dense in expected.items() if error is None else ():
        _take_over(world, number, name, values[name], dense, before)
    before.compare()


def _perform(
    session: Session, program: Program, values: dict[str, Any], how: str
) -> FinchError | None:
    if how == "run":
        return run(session, program.text)
    if how == "function":
        return run(session, "y = scaled(y, x)")
    own = KERNEL if how == "kernel" else DUPLICATES[how](KERNEL)
    try:
        session["y"] = own(values["y"], values["x"])
    except FinchError as error:
        return error
    return None


def _is_taken(world: World, name: str, value: Any, program: Program) -> bool:
    """Whether it is of the right order and, if it is written, takes floats."""
    order = 1 if name in (*VECTORS, "v", "k") else 2
    if (value.order if hasattr(value, "order") else value.ndim) != order:
        return False
    is_float = getattr(value, "dtype", None) in (np.dtype("<f8"), np.dtype(">f8"))
    return name not in program.writes or (is_float and id(value) not in world.views)


def _is_random(value: Any) -> bool:
    """Whether it may be written in any order."""
    formats = ("Dense(Element", "Dense(Dense(", "SparseHash", "SparseByteMap(Element")
    return isinstance(value, np.ndarray) or str(value.format).startswith(formats)


def _format(value: Any) -> str:
    return str(getattr(value, "format", ""))


def _refusals(world: World, program: Program, values: dict[str, Any]) -> set[str]:
    """The errors that are due to memory that is shared, or may not be written."""
    kinds = set()
    for name in program.writes:
        mine = values[name]
        if not all(array.flags.writeable for array in parts(mine)):
            kinds.add("type")
        for other, value in values.items():
            base = world.base(value)
            if other != name and (base is mine or overlap(mine, base)):
                kinds.add("life cycle")
    return kinds


def _take_over(
    world: World, number: int, name: str, value: Any, dense: np.ndarray, before: Snapshot
) -> None:
    """What `name` is bound to after a call: the same object, or another if the size is another."""
    now = world.sessions[number][name]
    if isinstance(value, Tensor) or dense.shape == value.shape:
        if now is not value:
            raise Finding(f"{name} is bound to another object than before")
        before.expect(value, dense)
        return
    before.give_up(value)
    if now is not value:
        world.remember(value)
    _same(name, now.toarray() if sp.issparse(now) else np.asarray(now), dense)
