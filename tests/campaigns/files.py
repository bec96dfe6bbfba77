"""Files that are damaged: `python -m tests.campaigns.files --files N --seed S`.

Files of every kind that is read, scripts and entries of the compile cache are changed at random and read
in child processes of little memory. Each ends in a value or in a FinchError of a kind that a file may end
in, and what was bound before is untouched; anything else, a crash or a hang is a finding, of which the
file is kept.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]  # the tests import one another by bare names

from in_child import in_child  # noqa: E402

from finchlang import FinchError, Session, Tensor  # noqa: E402
from finchlang.native.compiler import compile_plainly  # noqa: E402

KINDS = (
    *("I/O", "syntax", "unknown name", "type", "dimension", "life cycle", "access order"),
    *("bounds", "resource", "user", "interrupted"),
)
#: bytes of address space that a child may take beside what it has, and seconds of processor time a file
MEMORY, SECONDS = 3 << 30, 20
BATCH = 250  #: files that share a child
DONE, REFUSED = ".", "-"

MATRIX = np.array([[0, 0.25, 0, -1e-300], [3, 0, 0, 1 / 3], [0, 0, 0, 0]])
FORMATS = (
    *("Dense(Dense(Element(0.0)))", "Dense(SparseList(Element(0.0)))"),
    *("SparseCOO{2}(Element(0.0))", "SparseList(SparseList(Element(0.0)))"),
)
SYMMETRIC = "%%MatrixMarket matrix coordinate integer symmetric\n% text\n3 3 2\n1 1 5\n3 1 -7\n"
SUFFIXES = (".mtx", ".ttx", ".tns", ".npy", ".bsp.h5", ".bsp.npz")
EXTREMES = (
    *("0", "-1", "1", "9223372036854775807", "-9223372036854775808", "18446744073709551616"),
    *("1e999", "nan", "-0.0", "4611686018427387904", "99999", "1" * 400, "0x10", "1.5"),
)


def whole_files(folder: Path) -> dict[str, list[bytes]]:
    """Undamaged files by suffix: of tensors, and scripts that run in no time."""
    session, found = Session(), {".mtx": [SYMMETRIC.encode()]}
    for suffix in SUFFIXES:
        for value in (*(Tensor.from_numpy(MATRIX, f) for f in FORMATS), MATRIX != 0):
            session["value"], path = value, folder / f"whole{suffix}"
            session.run(f'fwrite("{path}", value)')
            found.setdefault(suffix, []).append(path.read_bytes())
    programs = sorted((TESTS / "programs").rglob("*.finch"))
    texts = [p.read_bytes() for p in programs if p.stat().st_size < 1500]
    found[".finch"] = [t for t in texts if b"while" not in t and b"fwrite" not in t]
    return found


def damaged(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The content with some damage of one to three kinds."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = rng.choice(DAMAGES)(content, others, rng) or b"\n"
    return content


def _bytes(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(rng.choice((1, 2, 20))):
        found[rng.randrange(len(found))] = rng.choice((0, 255, 57, 45, 10, rng.randrange(256)))
    return bytes(found)


def _cut(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.choice((1, 4, 30, len(content))) :]


def _inserted(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    at, start = rng.randrange(len(content)), rng.randrange(len(content))
    more = rng.choice((rng.randbytes(rng.randrange(1, 9)), content[start : start + 40]))
    return content[:at] + more + content[at:]


def _number(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    places = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not places:
        return content
    at = rng.choice(places)
    return content[: at.start()] + rng.choice(EXTREMES).encode() + content[at.end() :]


def _lines(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    return b"".join(
        rng.choice((lines[:at] + lines[to:], lines[: at + 1] + lines[at:], lines[::-1]))
    )


def _head(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    other, at = rng.choice(others), rng.choice((20, 60, 200))
    return other[:at] + content[at:]


def _encoding(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    text = content.decode("latin-1")
    return rng.choice((text.encode("utf-16"), text.encode("utf-8-sig"), text.upper().encode()))


DAMAGES = (_bytes, _cut, _inserted, _number, _number, _lines, _head, _encoding)
KERNEL = "@finch begin\ny .= 0\nfor i = _\n y[i] = {number} * x[i] + b\nend\nend"


def check_read(path: Path) -> str:
    """Read a file, or run it as a script, in a session where values are bound."""
    x, A = np.arange(5.0), sp.csc_array(np.eye(4))
    session = Session(output=lambda text: None)
    bound = {"kept1": x, "kept2": A, "kept3": Tensor.from_numpy(x, "SparseList(Element(0.0))")}
    for name, value in bound.items():
        session[name] = value
    said = DONE
    try:
        if path.suffix == ".finch":
            session.run_file(path)
        else:
            session.run(f'found = fread("{path}")')
            if isinstance(session["found"], Tensor):
                session["found"].validate()
    except FinchError as error:
        assert error.kind in KINDS and error.message and "Traceback" not in error.message, error
        said = REFUSED
    assert all(session[name] is value for name, value in bound.items())
    assert x.tolist() == [0, 1, 2, 3, 4] and np.array_equal(A.toarray(), np.eye(4))
    assert bound["kept3"].to_numpy().tolist() == x.tolist()
    return said


def check_cache(folder: Path, number: int, rng: random.Random) -> str:
    """Damage the entries of the compile cache: what is not as it was written is a miss. The kernel is a new
    one, which this process has not compiled before."""
    kernel = KERNEL.format(number=number)
    session = Session()
    session["x"], session["y"], session["b"] = np.arange(4.0), np.zeros(4), 1.0
    session.run(kernel)
    files = [p for p in folder.glob("*") if p.is_file()]
    contents = [p.read_bytes() for p in files]
    for path, content in zip(files, contents, strict=True):
        path.write_bytes(damaged(content, contents, rng))
    session = Session()
    session["x"], session["y"], session["b"] = np.arange(4.0), np.zeros(4), 1.0
    session.run(kernel)
    assert session["y"].tolist() == [number * n + 1 for n in range(4)]
    for path in folder.glob("*"):  # or what was damaged is damaged again, and grows
        path.unlink()
    return DONE


def check_file(number: int, suffix: str, whole: dict[str, list[bytes]], folder: Path) -> str:
    rng = random.Random(number)
    if suffix == "cache":
        return check_cache(Path(os.environ["FINCH_CACHE_DIR"]), number, rng)
    others = [rng.choice(files) for files in whole.values()]
    path = folder / f"a{suffix}"
    path.write_bytes(damaged(rng.choice(whole[suffix]), others, rng))
    return check_read(path)


def batch(
    numbers: range, suffixes: tuple[str, ...], whole: dict[str, list[bytes]], folder: Path
) -> Iterator[tuple[int, str]]:
    """Read damaged files in children; for each child, how many ended well and what was found."""
    first = numbers.start
    while first < numbers.stop:

        def work(report: Callable[[str], None], first: int = first) -> None:
            warnings.simplefilter("ignore")
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
            signal.signal(signal.SIGPROF, signal.default_int_handler)  # as Ctrl-C for a long script
            for number in range(first, numbers.stop):
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                report(check_file(number, suffixes[number % len(suffixes)], whole, folder))

        ended = in_child(work, 60 + SECONDS * len(numbers))
        done = len(re.match(rf"[{DONE}{REFUSED}]*", ended.said).group())  # type: ignore[union-attr]
        first += done + (not ended)
        number = first - 1
        found = f"{number} ({suffixes[number % len(suffixes)]}): {ended.fault}\n{ended.said[done:]}"
        yield done, "" if ended else found


def main() -> int:
    """Run the command; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="tests.campaigns.files", description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start, found, count = time.monotonic(), 0, 0
    compile_plainly()
    kept = Path(tempfile.mkdtemp(prefix="damaged-files-"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["FINCH_CACHE_DIR"] = str(folder / "cache")
        whole = whole_files(folder)
        suffixes = (*whole, "cache")
        for first in range(options.seed, options.seed + options.files, BATCH):
            numbers = range(first, min(first + BATCH, options.seed + options.files))
            for done, finding in batch(numbers, suffixes, whole, folder):
                count += done + bool(finding)
                if finding:
                    found += 1
                    print(f"{finding[:1500]}\n", flush=True)
                    for path in folder.glob("a.*"):
                        (kept / f"{found}-{path.name}").write_bytes(path.read_bytes())
            print(f"{count} files, {found} findings, {time.monotonic() - start:.0f} s", flush=True)
    print(f"findings are in {kept}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
