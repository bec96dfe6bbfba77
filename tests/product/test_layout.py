"""The layout contract: who may import whom, how long a file may be, what each file opens with; and how far
tests lean on what is not public."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import finchlang
import finchlang.grammar
import finchlang.repl
from finchlang.operators import operator_table
from finchlang.operators.operator_table import FAMILIES, OPERATORS
from finchlang.syntax.nodes import Variable
from finchlang.syntax.types import ALIASES, TYPES
from finchlang.tensors.formats import LEVELS

# Reading order = import order = data order. A module imports only modules of the rooms above its
# own, or of its own room.
ROOMS: tuple[str, ...] = (
    "base",
    "syntax",
    "text",
    "host",
    "optimize",
    "operators",
    "levels",
    "wrappers",
    "tensors",
    "algebra",
    "normalize",
    "rules",
    "functions",
    "denote",
    "native",
    "calls",
    "array",
    "files",
    "script",
    "python",
    "testing",
    "",  # finchlang/__init__.py: the public names
    "repl",
)
POSITIONS = {name: k for k, name in enumerate(ROOMS)}
APART = (  # the first never imports the second
    *(("rules", "native"), ("native", "rules")),
    *(
        ("denote", room)
        for room in ("operators", "host", "optimize", "algebra", "normalize", "rules")
    ),
)
#: class names in two files
TWICE = {"Scalar": "a tensor, and its format; both are called so in programs"}
#: who may import the oracle, besides those that compare engines: what runs it alone as `--engine denote`
ORACLE = ("finchlang.python.session",)
LONGEST = 600
TESTS = Path(__file__).parents[1]
#: what tests may import of the package, and where they may import the rest of it
PUBLIC = (
    *("finchlang", "finchlang.python.session", "finchlang.calls.runner"),
    *("finchlang.array", "finchlang.base.errors"),
)
PUBLIC_ROOMS = ("finchlang.testing", "finchlang.repl.__main__", "finchlang.text")
INNER = ("contracts", "units", "benchmarks", "campaigns")


def _folders() -> dict[str, Path]:
    """Each package by its dotted name: in a checkout `grammar` and `repl` stand beside the rest."""
    top = Path(finchlang.__file__).parent
    folders = {
        ".".join(("finchlang", *p.parent.relative_to(top).parts)): p.parent
        for p in top.rglob("__init__.py")
    }
    for package in (finchlang.grammar, finchlang.repl):
        folders[package.__name__] = Path(package.__path__[0])
    return folders


@cache
def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found = {}
    for package, folder in _folders().items():
        for path in folder.glob("*.py"):
            found[package if path.stem == "__init__" else f"{package}.{path.stem}"] = path
    return found


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text("utf-8"))


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Whatever `module` imports, absolute and as precisely as the import tells, with its line."""
    return imports_in(tree_of(module), module, modules()[module].name == "__init__.py")


def imports_in(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                kept = parts[: len(parts) - node.level + is_package]
                base = ".".join((*kept, *([node.module] if node.module else [])))
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield (whole if whole in modules() else base), node.lineno


@cache
def ours(module: str) -> list[tuple[str, int]]:
    """The modules of ours that one imports, also those that it has the name of in a text."""
    found = [(name, line) for name, line in imports(module) if name.split(".")[0] == "finchlang"]
    if room_of(module) in ("", "repl"):
        return found
    texts = [n for n in ast.walk(tree_of(module)) if isinstance(n, ast.Constant)]
    named = [(n.value, n.lineno) for n in texts if isinstance(n.value, str) and n.value in MODULES]
    return found + [(name, line) for name, line in named if name != "finchlang"]


def room_of(module: str) -> str:
    """The part of the name the contract speaks of: `finchlang.host.ir` stands in `host`."""
    return (module.split(".") + [""])[1]


def position(module: str) -> int:
    return POSITIONS[room_of(module)]


MODULES = sorted(name for name in modules() if room_of(name) != "grammar")


def test_every_module_has_a_room() -> None:
    homeless = [module for module in MODULES if room_of(module) not in POSITIONS]
    assert not homeless, f"say in ROOMS where in the order these stand: {homeless}"


def test_a_module_imports_only_what_stands_before_it() -> None:
    wrong = [
        f"{module}, line {line}: {name}"
        for module in MODULES
        for name, line in ours(module)
        if room_of(name) != room_of(module) and position(name) > position(module)
    ]
    assert not wrong


def test_only_the_face_imports_by_name() -> None:
    asked = ("import_module", "__import__")
    found = set()
    for module in MODULES:
        called = [n.func for n in ast.walk(tree_of(module)) if isinstance(n, ast.Call)]
        if any(_last(f) in asked for f in called):
            found.add(module)
    assert found == {"finchlang"}


def test_no_name_is_there_twice() -> None:
    """Of a file or a class, so that it says which."""
    inside = [m for m in MODULES if room_of(m) != "repl"]
    files: dict[str, list[str]] = {}
    classes: dict[str, set[str]] = {}
    for module in inside:
        files.setdefault(modules()[module].name, []).append(module)
        for n in ast.walk(tree_of(module)):
            if isinstance(n, ast.ClassDef):
                classes.setdefault(n.name, set()).add(module)
    assert not {n: f for n, f in files.items() if len(f) > 1 and n != "__init__.py"}
    twice = {name: found for name, found in classes.items() if len(found) > 1}
    assert twice.keys() == TWICE.keys(), twice


def test_a_module_has_one_name() -> None:
    """Wherever it is imported as a whole: `ast.Call` is the same thing in every file, but for those that
    read Python."""
    called: dict[str, set[str]] = {}
    for module in MODULES:
        for n in ast.walk(tree_of(module)):
            for alias in n.names if isinstance(n, ast.ImportFrom) else ():
                if (whole := f"{n.module}.{alias.name}") in MODULES:
                    called.setdefault(whole, set()).add(alias.asname or alias.name)
    twice = {module: names for module, names in called.items() if len(names) > 1}
    assert twice == {"finchlang.syntax.nodes": {"ast", "syntax"}}


def test_there_are_at_most_twenty_rooms() -> None:
    assert len({room_of(m) for m in MODULES} - {"", "repl", "testing"}) <= 20


@pytest.mark.parametrize(("room", "other"), APART)
def test_rooms_that_never_meet(room: str, other: str) -> None:
    wrong = [
        m for m in MODULES if room_of(m) == room and any(room_of(n) == other for n, _ in ours(m))
    ]
    assert not wrong


def test_nothing_leans_on_the_oracle() -> None:
    """What checks the rest is imported where it is run alone: by the engine of its name, and by what
    compares engines; also within functions, and by no name in a text."""
    for module in MODULES:
        if room_of(module) in ("denote", "testing") or module in ORACLE:
            continue
        texts = [n.value for n in ast.walk(tree_of(module)) if isinstance(n, ast.Constant)]
        found = [name for name, _ in ours(module)] + [t for t in texts if isinstance(t, str)]
        assert not any(name.startswith("finchlang.denote") for name in found), module


def test_modules_do_not_import_one_another_in_circles() -> None:
    """Also within a room: `a` before `b` before `a` is no reading order."""
    unfinished: list[str] = []
    finished: set[str] = set()

    def visit(module: str) -> None:
        assert module not in unfinished, " -> ".join([*unfinished, module])
        if module in finished:
            return
        unfinished.append(module)
        for name, _ in ours(module):
            if name in modules() and name != module:
                visit(name)
        finished.add(unfinished.pop())

    for module in MODULES:
        visit(module)


def test_ctypes_stays_in_native() -> None:
    users = {m for m in MODULES if any(n.split(".")[0] == "ctypes" for n, _ in imports(m))}
    assert {room_of(module) for module in users} <= {"native"}


def test_scipy_is_imported_where_it_is_needed() -> None:
    """It would take a quarter of the time to start."""
    for module in MODULES:
        at_once = [n for n in tree_of(module).body if isinstance(n, (ast.Import, ast.ImportFrom))]
        found = " ".join(map(ast.unparse, at_once))
        assert "import scipy" not in found and "from scipy" not in found, module


def test_a_module_opens_with_a_sentence() -> None:
    def opening(module: str) -> str:
        return (ast.get_docstring(tree_of(module)) or "").split("\n\n")[0].strip()

    silent = [module for module in modules() if not opening(module).endswith((".", ":"))]
    assert not silent, "these do not say what they are"


def length(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_no_file_is_too_long() -> None:
    """Of the project, and of the tests."""
    long = [str(path) for path in (*modules().values(), *_tests()) if length(path) > LONGEST]
    assert not long, "split these"


def _tests() -> list[Path]:
    """The files of tests but those that measure."""
    return [
        p for p in sorted(TESTS.rglob("*.py")) if "benchmarks" not in p.relative_to(TESTS).parts
    ]


def test_tests_speak_to_what_is_public() -> None:
    """So that what is not can be changed without them: but for a tenth, as those with goldens."""
    outer = [p for p in _tests() if p.relative_to(TESTS).parts[0] not in INNER]
    leaning = []
    for path in outer:
        found = {name for name, _ in imports_in(ast.parse(path.read_text("utf-8")), "", False)}
        ours = {name for name in found if name.split(".")[0] == "finchlang"} - {*PUBLIC}
        if not all(name.startswith(PUBLIC_ROOMS) for name in ours):
            leaning.append(path.name)
    assert 10 * len(leaning) <= len([p for p in _tests() if p.stem.startswith("test_")]), leaning


def test_the_packages_listed_are_the_packages_there_are() -> None:
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["setuptools"]["packages"] == sorted(_folders())


def test_the_contract_has_no_room_twice() -> None:
    assert len(ROOMS) == len({*ROOMS})


#: rooms whose files decide what is done by facts that rows and levels declare; the others are the rows
#: and levels themselves, how programs are written, host operations, and what shares nothing with these
DECIDING = ("algebra", "normalize", "rules", "calls", "array")
#: where one is asked for by name nevertheless, and why
BY_NAME = {
    "array.elementwise": "`fld` and `div`, of which NumPy's functions say something else",
    "array.concatenation": "the sign of a triangle, which is its own",
    "calls.substitute": "whether there is a fill to be replaced",
    "rules.derived.joint_cases": "host operations",
    "algebra.bounds": "host operations",
    "algebra.sparsity_pattern": "a region is written with `&`, `|` and `~`",
}


def _named_in(node: ast.AST, names: set[str], known: dict[str, set[str]]) -> set[str]:
    """Those of `names` in a piece of source, also by names of constants."""
    found = set()
    for n in ast.walk(node):
        if isinstance(n, ast.Constant) and n.value in names:
            found.add(n.value)
        else:
            found |= known.get(_last(n), set())
    return found


def _last(node: Any) -> str:
    """The name of a thing, also where it is one of a module: `ast.Call` is a `Call`."""
    return getattr(node, "id", getattr(node, "attr", ""))


def _asked_by_name(tree: ast.Module) -> Iterator[str]:
    """Operators and levels that source asks for by name: where it compares, matches or looks up."""
    operators = {*OPERATORS, *FAMILIES} - {*TYPES, *ALIASES, "first", "last"}
    levels = {*LEVELS} - {"Scalar"}  # which tensors are called, too
    constants = {  # those of the table, by whatever is imported, and its own
        name: {node.name}
        for name, node in vars(operator_table).items()
        if isinstance(node, Variable) and node.name in operators
    } | {
        target.id: _named_in(n.value, operators, {})
        for n in tree.body
        if isinstance(n, ast.Assign)
        for target in n.targets
        if isinstance(target, ast.Name)
    }
    for n in ast.walk(tree):
        name = _last(getattr(n, "func", None))
        is_asked = isinstance(n, ast.Compare) or name == "is_call"
        if isinstance(n, ast.match_case):
            yield from _named_in(n.pattern, operators, constants)
        elif isinstance(n, ast.Subscript):
            yield from _named_in(n.value, operators, constants)
        elif is_asked:
            yield from _named_in(n, operators, constants)
        elif isinstance(n, ast.Call) and name in ("isinstance", "issubclass"):
            yield from {_last(x) for x in ast.walk(n.args[1])} & levels


def test_no_operator_or_level_is_asked_for_by_its_name() -> None:
    """What is special about one is a fact in its row, or of its class, and read by whoever needs it."""
    deciding = [m for m in MODULES if room_of(m) in DECIDING]
    found = {m: set(_asked_by_name(tree_of(m))) for m in deciding}
    asked = {m.removeprefix("finchlang."): names for m, names in found.items() if names}
    assert asked.keys() == BY_NAME.keys(), {m: asked.get(m) for m in asked.keys() ^ BY_NAME.keys()}
