"""The passes of normalisation in their order, and what they make of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from finchlang.algebra.expression_types import annotate
from finchlang.algebra.inline import has_functions, inline
from finchlang.algebra.program_context import Format, ProgramContext
from finchlang.base.errors import Note
from finchlang.base.records import record
from finchlang.levels.level import Level, Swizzled
from finchlang.normalize.passes.concordize import concordize
from finchlang.normalize.passes.dimensionalize import dimensionalize
from finchlang.normalize.passes.lifecycle import lifecycle
from finchlang.normalize.passes.normal_form import check_normal_form
from finchlang.normalize.passes.scopes import scopes
from finchlang.normalize.passes.shared_sums import sums
from finchlang.normalize.passes.transposes import transposes
from finchlang.normalize.passes.wrapperize import wrapperize
from finchlang.normalize.schedule import schedule
from finchlang.normalize.shapes.lower_shapes import has_shapes, shapes
from finchlang.normalize.write_order.combine_operator import combine
from finchlang.normalize.write_order.insert_workspaces import insert_workspaces
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.types import Type
from finchlang.text.doubtful import lost

#: The passes in their order, each with what it does in plain words. Each is program → program, given what
#: the one before it gives, and may add to the context. The life cycle comes before dimensions, which need
#: to know the freezes, and inlining after them, since all arguments of a function give dimensions, also
#: those that its body does not need.
PASSES: tuple[tuple[str, Callable[[ast.Node, ProgramContext], ast.Node], str], ...] = (
    ("scopes", scopes, "Every name is found, and each loop and `let` gets a name of its own."),
    ("shapes", shapes, "Operators that change shapes become reads of parts of their operands."),
    ("types", lambda p, context: annotate(p, context.formats), "Every expression gets its type."),
    (
        "wrapperize",
        wrapperize,
        "Comparisons of indices become masks, and shifted indices become wrappers of tensors.",
    ),
    (
        "lifecycle",
        lifecycle,
        "`@freeze` marks where a tensor is complete, `@thaw` where it may be updated again.",
    ),
    (
        "dimensionalize",
        dimensionalize,
        "Every loop gets the extent that its tensors agree on, every declared tensor its size.",
    ),
    ("inline", inline, "Calls of functions are replaced by the bodies of these functions."),
    ("schedule", schedule, "The loops are rearranged as `@schedule` asks."),
    (
        "concordize",
        concordize,
        "Indices stand in the order of the loops, so that each tensor is reached level by level.",
    ),
    (
        "workspaces",
        insert_workspaces,
        "Results that come out of order are collected in a workspace.",
    ),
    (
        "transposes",
        transposes,
        "A tensor that is read across its order of storage is read from a transposed copy.",
    ),
    ("sums", sums, "Sums of sizes that occur several times get names."),
)


@record
class Normalized:
    """A program in normal form, typed, and what its names stand for.

    `tensors`: the tensors of the program, by name, with the script's name for each; `workspaces`:
    tensors the program needs for itself, which `Kernel` makes; `formats`: the format of every
    free name, as stored (Level) or as a number (Type); `yields`: the script names a `return` hands
    back; `notes`, `decisions` and `choices` as in ProgramContext.
    """

    program: ast.Node
    tensors: dict[str, str]
    yields: tuple[str, ...]
    workspaces: dict[str, Level]
    formats: dict[str, Level | Type]
    notes: tuple[Note, ...] = ()
    decisions: tuple[tuple[str, str], ...] = ()
    choices: frozenset[str] = frozenset()


def stages(program: ast.Node, context: ProgramContext) -> Iterator[tuple[str, ast.Node]]:
    """The program after each pass, with the pass's name; the checks run at the end."""
    if isinstance(program, ast.Annotated):
        context.annotations, program = program.annotations, program.program
        context.parsed = program
    if program.span is not None:
        context.notes.extend(lost(program))
    is_shaped = has_shapes(program)
    for name, function, _ in PASSES:
        if function is schedule and not context.annotations:
            continue
        if function in (shapes, sums) and not is_shaped:
            continue
        if function is inline and not has_functions(program):
            continue
        program = function(program, context)
        yield name, program
    combine(program, context)
    check_normal_form(program, context)


def normalize(
    program: ast.Node,
    formats: dict[str, Format],
    insert_workspaces: bool = True,
    exchanged: frozenset[str] = frozenset(),
) -> Normalized:
    """`program` in Finch Normal Form. `formats` has for each name free in it the format of the
    tensor, or the type of the number, that is bound to it in the script. `insert_workspaces`
    and `exchanged` as in ProgramContext.

    Raises FinchError of kind unknown name, type, dimension, life cycle, access order or syntax.
    """
    context = ProgramContext(dict(formats), insert_workspaces, exchanged)
    for _, stage in stages(program, context):
        program = stage
    formats = context.formats
    stored = {n: known for n, known in formats.items() if not isinstance(known, Swizzled)}
    used = {n.name for n in trees.find_all(program, ast.Variable)} - context.workspaces.keys()
    own = [name for name, known in stored.items() if isinstance(known, Level) and name in used]
    tensors = {name: context.written(name) for name in own}
    told = tuple(context.notes), tuple(context.decisions), frozenset(context.choices)
    workspaces = dict(context.workspaces)
    return Normalized(program, tensors, context.yields, workspaces, stored, *told)
