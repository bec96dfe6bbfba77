"""`finchlang.kernel`: Finch text as a function of Python, compiled once for each combination of formats."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from finchlang.algebra.program_context import root
from finchlang.base.errors import FinchError, Source
from finchlang.base.late import late
from finchlang.calls.runner import KernelEvent, Observer
from finchlang.python.session import Session
from finchlang.python.translate_source import definition_of, file_called
from finchlang.script.checker import free_names
from finchlang.script.functions import FinchFunction
from finchlang.syntax import nodes as syntax
from finchlang.syntax.traversal import block, replace, walk
from finchlang.syntax.types import foreign
from finchlang.text.print import pretty
from finchlang.text.tree_cache import script_of

P = ParamSpec("P")
R = TypeVar("R")


class _Last(Observer):
    """Keeps the event of the last compiled kernel. It is not told of those in loops that are whole."""

    stages = True

    last: KernelEvent | None = None

    def kernel(self, event: KernelEvent) -> None:
        self.last = event


class Kernel(Generic[P, R]):
    """Finch text as a function of Python: `text` is its text, `session` the one it runs in. Arguments are
    what names of a session can be bound to: NumPy and SciPy arrays, tensors, numbers, functions."""

    def __init__(
        self, text: str, signature: inspect.Signature, function: FinchFunction, session: Session
    ):
        self.text, self.session, self.function = text, session, function
        self.__signature__, self.__doc__ = signature, text
        self.__name__ = self.__qualname__ = function.definition.name
        self._names = tuple(signature.parameters)
        own = signature.parameters.values()
        self._plain = {p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD}
        self._pickled: Any = None  # as what it is pickled, if it can be

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        """Run it. Raises TypeError if the arguments do not fit the parameters, FinchError for a fault of
        their values or of the text; a kernel that fails leaves tensors as they were."""
        given: Sequence[Any] = args
        named: dict[str, Any] = {}
        values = dict(zip(self._names, args, strict=False)) | keywords if keywords else {}
        if len(args) + len(keywords) == len(values) and values.keys() == self._plain:
            given = [values[name] for name in self._names if name in values]  # `bind` takes 8 us
        elif keywords or len(given) != len(self._names):
            bound = self.__signature__.bind(*args, **keywords)
            for name, p in self.__signature__.parameters.items():
                if p.default is not p.empty and p.default is not ...:  # those are the text's
                    bound.arguments.setdefault(name, p.default)
            given, named = bound.args, bound.kwargs
        return cast(R, self.function(*given, **named))

    @property
    def compiled(self) -> KernelEvent | None:
        """The last kernel compiled, with its passes and code; None if none was, or in a given session."""
        observer = self.session.observer
        return observer.last if isinstance(observer, _Last) else None

    def as_function(self) -> FinchFunction:
        return self.function

    def __copy__(self, memo: object = None) -> Kernel[P, R]:
        return self  # as copies of Python functions are

    __deepcopy__ = __copy__

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A decorated function is pickled by its name, as others are, and another kernel by its text, or in
        a session that it was given by its function."""
        return self._pickled or late("reduced_function")(self.function, protocol, self.text)

    def __repr__(self) -> str:
        return f"<Finch kernel {self.__name__}{self.__signature__}>"


@overload
def kernel(text: str, /, *, session: Session | None = None) -> Kernel[..., Any]: ...


@overload
def kernel(function: Callable[P, R], /) -> Kernel[P, R]: ...


def kernel(text: Any, /, *, session: Session | None = None) -> Kernel[..., Any]:
    """A function of Python made of Finch text.

        spmv = finchlang.kernel(\"\"\"
            function spmv(A, x)
                y = Tensor(Dense(Element(0.0)))
                @finch begin
                    y .= 0
                    for j = _, i = _
                        y[i] += A[i, j] * x[j]
                    end
                end
                return y
            end
        \"\"\")
        y = spmv(A, x)

    A text that ends with a function defines that function. The parameters of another text are its free
    names, in the order of their first use; it returns the value of its last statement or, if that is a
    kernel, what the kernel returns, or else the tensors that it writes, as a tuple if there are several.
    Tensors and arrays that it writes are changed in place, as by `Session.run`.

    As a decorator, `@finchlang.kernel` makes a kernel of a Python function whose docstring is the text;
    the parameters, defaults and types are those of the function. Python functions that the text calls are
    looked up in its module.

    The text runs in a `session` of its own unless one is given. Raises FinchError, at its place in the
    Python file, for a wrong text: now, or when it is called for a fault that depends on formats.
    """
    if isinstance(text, FunctionType):
        return _decorated(text, sys._getframe(1), _session(session))
    if not isinstance(text, str):
        message = f"a kernel is made of a text or of a function, not of a {type(text).__name__}"
        raise FinchError("type", message)
    frame = sys._getframe(1)
    first, last, _, _ = [*frame.f_code.co_positions()][frame.f_lasti // 2]
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    source = _source(text, frame.f_code.co_filename, lines, first or frame.f_lineno, last)
    return _of_text(text, source, session)


def _session(given: Session | None) -> Session:
    if not isinstance(given, Session | None):
        what = f"a kernel runs in a Session, not in {foreign(given)}"
        raise FinchError("type", what, hint="`session=None` makes one of its own")
    return Session(observer=_Last()) if given is None else given


def _of_text(text: str, source: Source, session: Session | None = None) -> Kernel[..., Any]:
    """A kernel of a text with its place in a source, in this session or one of its own."""
    own = _session(session)
    script = script_of(source.text, source.name)
    last = script.statements[-1] if script.statements else None
    if isinstance(last, syntax.Function):
        own.execute(script)
        function = own[last.name]
    else:
        function = _function(own, script, tuple(free_names(script)))
    made = kernel_of(function, own, text)
    made._pickled = (_of_text, (text, source)) if session is None else None
    return made


def kernel_of(
    function: FinchFunction, session: Session, text: str | None = None
) -> Kernel[..., Any]:
    """A function of a script as a Kernel; `text` is printed from its definition if not given."""
    text = pretty(function.definition) if text is None else text
    return Kernel[..., Any](text, function.__signature__, function, session)


#: the same under another name, for texts that end with a function
function = kernel


def _decorated(function: FunctionType, frame: FrameType, session: Session) -> Kernel[..., Any]:
    text, code = function.__doc__, function.__code__
    if not text or not text.strip():
        message = f"`{code.co_name}` has no docstring, which would be the text of the kernel"
        hint = 'its body is its docstring: `"""@finch for i = _; y[i] = x[i] end"""`'
        raise FinchError("type", message, hint=hint)
    file, lines, found = definition_of(function)
    first, last = code.co_firstlineno, None
    if isinstance(found, ast.FunctionDef):
        text = ast.get_docstring(found, clean=False) or text  # Python 3.13 removes indentation
        first, last = found.body[0].lineno, found.body[0].end_lineno
    source = _source(text, file, lines, first, last)
    script = script_of(source.text, source.name)
    signature = inspect.signature(function)
    names = tuple(signature.parameters)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            where = f"`*{parameter.name}` of {function.__name__}"
            raise FinchError("type", f"{where}: a kernel takes each tensor by a name")
    around = {**function.__globals__, **frame.f_locals}
    for name, node in free_names(script).items():
        if name in names:
            continue
        if not callable(around.get(name)):
            what = f"neither a parameter of {function.__name__} nor a function of Python"
            raise FinchError("unknown name", f"`{name}` is {what}", node.span)
        session[name] = around[name]
    called = _function(session, script, names, function.__name__)
    made = Kernel[..., Any](text, signature, called, session)
    for name in ("__name__", "__qualname__", "__module__"):
        setattr(made, name, getattr(function, name))
    made._pickled = made.__qualname__
    return made


def _source(text: str, file: str, lines: list[str], first: int | None, last: int | None) -> Source:
    """A text as a source with the same lines and columns as in a Python file, by putting white space before
    it. It is searched between two lines, then in the whole file; if it is not found, as with escapes in
    the literal, the source is the text alone, named by file and line."""
    file = file_called(file)
    whole, first = "".join(lines), first or 1
    at = whole.find(text, len("".join(lines[: first - 1])), len("".join(lines[:last])))
    if at < 0 and "\n" in text and whole.count(text) == 1:  # defined elsewhere as a constant
        at = whole.find(text)
    if at < 0:
        return Source(text, f"<kernel at {file}:{first}>")
    before = whole[:at]
    return Source("\n" * before.count("\n") + " " * (at - before.rfind("\n") - 1) + text, file)


def _returning(script: syntax.Script) -> syntax.Script:
    """The script; of a kernel at its end that has no `return` it returns the tensors that are written."""
    *others, last = script.statements or (script,)
    if not isinstance(last, syntax.KernelNode):
        return script
    nodes = list(walk(last.program))
    own = {node.variable.name for node in nodes if isinstance(node, syntax.Define)}
    changed = [node for node in nodes if isinstance(node, (syntax.Declare, syntax.Assign))]
    tensors = [n.tensor if isinstance(n, syntax.Declare) else n.target.tensor for n in changed]
    names = dict.fromkeys(n for n in map(root, tensors) if n is not None and n not in own)
    if not names or any(isinstance(node, syntax.Yield) for node in nodes):
        return script
    returned = tuple(syntax.Variable(name, span=last.span) for name in names)
    handed = syntax.Yield(returned, span=last.span)
    last = replace(last, program=block(last.program, handed))
    return replace(script, statements=(*others, last))


def _function(
    session: Session, script: syntax.Script, names: tuple[str, ...], name: str = "kernel"
) -> FinchFunction:
    """A function with these parameters whose body is the script, among the names of a session."""
    node = syntax.Function(name, names, _returning(script), span=script.span)
    return session.function(node)
