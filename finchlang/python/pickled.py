"""Sessions and functions of scripts in pickles and copies: a session by its names and their values, a
function by its definition and what it uses of the names around it. What is unpickled compiles anew, or
finds its kernels on disk."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from finchlang.base.errors import FinchError
from finchlang.python.callables import Names, function_of
from finchlang.python.kernel_decorator import kernel_of
from finchlang.python.session import Session
from finchlang.script.functions import PREDEFINED, FinchFunction
from finchlang.syntax import nodes as ast
from finchlang.syntax.traversal import EnoughFrames, find_all
from finchlang.tensors.array_base import LazyTensor

#: a pickle of values, and the buffers of their arrays
Pickled = tuple[bytes, list[Any]]
#: stands for the session's evaluator while a function is pickled
_EVALUATOR = object()
#: what stands in a pickle for that, and for the values of the session's names; no name has a blank
_KEYS = "the evaluator", "the values"
#: the names of predefined values, by identity
_PREDEFINED = {id(value): name for name, value in PREDEFINED.items()}
_FAULTS = (pickle.PickleError, TypeError, AttributeError, ValueError, RecursionError, FinchError)


class _Pickler(pickle.Pickler):
    """Pickles values of a script whose names have `values`."""

    def __init__(self, file: Any, values: Any, buffers: list[Any]):
        super().__init__(file, 5, buffer_callback=buffers.append)
        self.values = values

    def persistent_id(self, value: Any) -> str | None:
        if value is _EVALUATOR or value is self.values:
            return _KEYS[value is self.values]
        return _PREDEFINED.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, LazyTensor):
            return value.materialized().__reduce_ex__(5)
        own = isinstance(value, FinchFunction) and value.parent.outermost is self.values
        if not own or isinstance(self.values, Names):
            return NotImplemented
        # filled in later: a function within another is among the values of its own environment
        parts = value.definition, value.scope.parent, value.parent, value.laws, value.is_staged
        return object.__new__, (FinchFunction,), (_EVALUATOR, parts), None, None, _fill


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: Pickled, session: Session):
        super().__init__(io.BytesIO(pickled[0]), buffers=pickled[1])
        known = session._evaluator, session.environment.values
        self.known: dict[str, Any] = dict(zip(_KEYS, known, strict=True))

    def persistent_load(self, key: str) -> Any:
        return self.known[key] if key in self.known else PREDEFINED[key]


def _fill(function: FinchFunction, state: Any) -> None:
    evaluator, (definition, scope, parent, laws, is_staged) = state
    made = evaluator.made(definition, scope)(parent)
    vars(function).update(vars(made), laws=laws, is_staged=is_staged)


def _written(values: Any, chosen: dict[str, Any], protocol: int) -> Pickled:
    """The values chosen, by their names. Raises FinchError "type" that names what cannot be pickled."""
    file, buffers = io.BytesIO(), list[Any]()
    writer = _Pickler(file, values, buffers)
    for name, value in chosen.items():
        try:
            with EnoughFrames():
                writer.dump((name, value))
        except _FAULTS as error:
            raise FinchError("type", f"`{name}` cannot be pickled: {error}") from None
    # before protocol 5 there are no buffers in pickles
    return file.getvalue(), buffers if protocol >= 5 else [bytearray(b.raw()) for b in buffers]


def _read(pickled: Pickled, session: Session) -> Iterator[tuple[str, Any]]:
    reader = _Unpickler(pickled, session)
    with suppress(EOFError), EnoughFrames():
        while True:
            yield reader.load()


# ---------------------------------------------------------------------------------------- sessions


def reduced_session(session: Session, protocol: int) -> Any:
    names = ("engine", "rules", "workspaces", "checked")
    options = {name: getattr(session, name) for name in names}
    options["staging"] = session._evaluator.loops is not None
    values = session.environment.values
    output = {} if session.output is None else {"output": session.output}
    written = [_written(values, content, protocol) for content in (output, values)]
    return _session, (type(session), options, *written)


def _session(
    kind: type[Session], options: dict[str, Any], output: Pickled, pickled: Pickled
) -> Session:
    session = kind(**options, **dict(_read(output, Session())))
    session.environment.values.update(_read(pickled, session))
    return session


# --------------------------------------------------------------------------------------- functions


def reduced_function(function: FinchFunction, protocol: int, text: str | None = None) -> Any:
    """Of a function, or with a `text` of the Kernel that it is."""
    values = function.parent.outermost
    if isinstance(values, Names):  # of a function of Python
        return function_of, (values.function,)
    used: dict[str, Any] = {}
    todo, seen = [function], {id(function)}
    while todo:
        value = todo.pop()
        names = {node.name for node in find_all(value.definition, ast.Variable)}
        own = {name: values[name] for name in sorted(names - value.scope.owned) if name in values}
        used |= own
        around, environment = [*own.values()], value.parent
        while environment.parent is not None:
            around += environment.values.values()
            environment = environment.parent
        new = [v for v in around if isinstance(v, FinchFunction) and id(v) not in seen]
        todo += [v for v in new if v.parent.outermost is values]
        seen.update(map(id, new))
    return _function, (_written(values, {**used, f"{function}": function}, protocol), text)


def _function(pickled: Pickled, text: str | None) -> Any:
    session = Session()
    *used, (_, function) = _read(pickled, session)
    session.environment.values.update(used)
    return function if text is None else kernel_of(function, session, text)
