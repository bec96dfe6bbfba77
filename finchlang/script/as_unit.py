"""A loop of the script as a unit (`functions/unit.py`), with the functions that it calls in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from finchlang.base.errors import Span
from finchlang.base.records import record
from finchlang.calls.environment import Environment, assigned_names
from finchlang.functions import unit as loop_ir
from finchlang.levels.level import level_of
from finchlang.script import unit_names as un
from finchlang.script.functions import PREDEFINED, FinchFunction
from finchlang.script.unit_expressions import UnitExpressions
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.syntax.control_flow import NEXT, Called, arms, flat, ways
from finchlang.syntax.types import Bool, Int64
from finchlang.tensors.array_base import dense_format
from finchlang.text.print import pretty

FALSE = ast.Literal(False)
#: functions may be called in each other so deeply; a unit has so many kernels, and so many bodies in place
#: of calls, which are those of functions that take tensors (others are procedures)
DEPTH, KERNELS, CALLS = 20, 64, 256


@record
class Rounds(ast.Node):
    """What a loop is over: a range whose ends are expressions on numbers, and, for entries, what its names
    are in the round with the number PLACE."""

    range: ast.Extent
    items: tuple[ast.Node, ...]


class Units(UnitExpressions):
    """Turns one loop into a unit. Methods emit statements of the unit; those for expressions give their
    values. Raises NotStaged, or FinchError for what is an error wherever it runs."""

    def unit(self, node: ast.Node, step: int | None = 1) -> loop_ir.Unit:
        """The unit for a loop, or for the calls of a function. The first numbers of a loop are how many
        rounds it takes at most and, of one over a range of this step, the first and the last integer that
        are left, and then the step if it is None here."""
        names = self.names
        own = {ast.While: ("limit",), ast.For: ("limit", "first", "last")}.get(type(node), ())
        if step is None:
            own = (*own, "step")
        own = tuple([names.fresh(name) for name in own])
        names.formats |= dict.fromkeys(own, Int64)
        around = names.environment
        locals = frozenset() if own else around.scope.owned - around.values.keys()
        self.frame = self.root = un.CallFrame(frozenset(locals), around, True)
        self.frames.append(self.root)
        self.start = names.moment()
        match node:
            case ast.While(condition, body):
                self.loop(condition, body, node.span)
            case ast.For():
                start, stop, *given = map(ast.Variable, own[1:])
                by: ast.Node | None = None if step == 1 else ast.Literal(step)
                by = given[0] if given else by
                columns = sorted(n for n in around.scope.owned if n.startswith(un.ENTRIES))
                columns = columns[-len(node.names or (node.variable,)) :]
                items = tuple(map(_at_place, columns))
                self.turns(node, Rounds(ast.Extent(start, stop, by), items))
            case ast.Function(body=body):
                self.statement(body, True)
            case ast.Comprehension():
                self.leave(self.comprehension(node, True), node.span)
        flags = [*names.flags.values(), *([un.RETURNED] if self.root.exit is not None else [])]
        unset = [ast.Let((ast.Variable(f),), None, FALSE) for f in flags]
        body = ast.Script((*unset, *names.out), span=node.span)
        return self.made_whole(body, own, node.span)

    def made_whole(self, body: ast.Script, own: tuple[str, ...], span: Span | None) -> loop_ir.Unit:
        """The unit with this body. Slots that exchange with those of given tensors get resting slots."""
        names = self.names
        if sum(isinstance(n, loop_ir.RunKernel) for n in trees.walk(body)) > KERNELS:
            raise un.NotStaged(f"there are more than {KERNELS} kernels in it", span)
        exchanges = trees.find_all(body, loop_ir.ExchangeSlots)
        rests: dict[str, list[tuple[str, str]]] = {}
        groups = []
        for group in un.slots_in((n.slot, n.other) for n in exchanges):
            given = [name for name in group if name in names.kinds]
            if any(name in names.made for name in group):
                resting = [(name, names.fresh(f"{name}_rest")) for name in given]
                for name, rest in resting:
                    names.made.append(rest)
                    names.formats[rest] = names.formats[name]
                rests |= {name: resting for name in group}
                group = (*group, *(rest for _, rest in resting))
            groups.append(group)

        def with_rests(node: ast.Node) -> ast.Node:
            if isinstance(node, loop_ir.Make) and node.slot in rests:
                return replace(node, rests=tuple(rests[node.slot]))
            return node

        body = trees.rewrite_bottom_up(with_rests, body)
        meanings: list[Any] = [g.meaning for g in names.given.values()]
        numbers = (*own, *(m.name for m in meanings if isinstance(m, ast.Variable)))
        results = tuple(name for key, name in names.assigned.items() if key in names.given)
        own_slots = tuple(names.own.values())
        told = (*results, *own_slots)
        results += tuple(names.flags[name] for name in told if name in names.flags)
        items = _items(self.root.result)
        slots = [item.name for item in items if isinstance(item, un.SlotName)]
        returned = tuple(dict.fromkeys((*own_slots, *slots)))
        if self.root.exit is not None:
            results += (un.RETURNED, *(i.name for i in items if isinstance(i, ast.Variable)))
        tensors = tuple(m.name for m in meanings if isinstance(m, un.SlotName))
        return loop_ir.Unit(
            *(body, tensors, tuple(names.made), numbers, results, tuple(groups), returned),
            fixed=tuple(filter(names.is_array, names.kinds)),
            arrays=tuple(sorted(names.arrays)),
            is_loop=bool(own),
            span=span,
        )

    # ---------------------------------------------------------------- statements

    def statement(self, node: ast.Node, is_last: bool = False) -> None:
        """Emit a statement; one that `is_last` in a function gives its value."""
        value: Any = None
        match node:
            case ast.Script(statements):
                statements = flat(statements)
                for k, each in enumerate(statements):
                    self.statement(each, is_last and k == len(statements) - 1)
                    if NEXT not in ways(each):
                        return  # the rest is never reached
                return
            case ast.If(branches):
                self.choose(arms(branches), is_last, node.span)
                return
            case ast.Let():
                value = self.let(node)
            case ast.While(condition, body):
                self.loop(condition, body, node.span)
            case ast.For():
                self.count(node)
            case ast.Break() | ast.Continue() if self.loops:
                before, left = self.loops[-1]
                if isinstance(node, ast.Break):
                    left |= un.numbers_in(self.names.values)
                self.names.reconcile(before(), node.span)
                self.names.emit(node)
            case ast.Return(given):
                self.leave(None if given is None else self.value(given), node.span, True)
                return
            case ast.Call(ast.Variable("&&" | "||" as name), (holds, leave)) if (
                not is_last or isinstance(leave, (ast.Break, ast.Continue, ast.Return))
            ):
                taken = leave if name == "&&" else ast.Script(())
                other = ast.Script(()) if name == "&&" else leave
                self.choose(((holds, taken), (ast.Literal(True), other)), False, node.span)
            case ast.Call(ast.Variable("error") as op, args) if self.is_builtin(op):
                self.fail(", ".join(map(pretty, args)), node.span)
            case ast.Macro("assert", (condition, *_)):
                holds = self.expression_of(self.value(condition), condition.span)
                self.ensure(holds, f"assertion failed: {pretty(condition)}", node.span)
            case ast.Local():
                self.local(node, is_last)
                return
            case _:
                value = self.value(node)
                for item in () if is_last else _items(value):
                    if isinstance(item, ast.Node) and not isinstance(item, _SAFE):
                        self.names.emit(item)  # it may fail
        if is_last and NEXT in ways(node):
            self.leave(value, node.span)

    def local(self, node: ast.Local, is_last: bool) -> None:
        """`let`: its names, and those that its body assigns first, are its own."""
        before, around = len(self.frames), self.frame
        for name, given in node.values:
            value = self.value(given)
            key = id(self.enter(frozenset((name,)))), name
            self.names.assign(key, value, node.span)
        own = {n for n in assigned_names(node.body) if not un.is_local(n, self.frame)}
        self.enter(frozenset(own))
        self.statement(node.body, is_last)
        self.leave_scopes(before, around)

    def leave_scopes(self, before: int, around: un.CallFrame | Environment) -> None:
        """Go back to the scope around the frames that were entered after so many."""
        inner, self.frame = {id(f) for f in self.frames[before:]}, around
        self.names.values = {k: v for k, v in self.names.values.items() if k[0] not in inner}

    def enter(self, owned: frozenset[str]) -> un.CallFrame:
        """Go into a scope that owns these names."""
        self.frame = un.CallFrame(owned, self.frame)
        self.frames.append(self.frame)
        return self.frame

    def let(self, node: ast.Let) -> Any:
        targets, op, given = node.targets, node.op, node.value
        if op is not None and isinstance(targets[0], ast.Access):
            return self.update(targets[0], op, given, node.span)
        if op is not None:
            given = ast.call(op, targets[0], given, span=node.span)
        if len(targets) == 1:
            return self.store(targets[0], self.value(given))
        if isinstance(given, ast.Group):
            found = self.several(given.items)
        else:
            whole = self.value(given)
            found = [*whole] if isinstance(whole, tuple) else []
        if len(found) < len(targets):
            raise un.NotStaged("this is no tuple of as many values", given.span)
        # all values are there before the first is assigned
        are_numbers = all(isinstance(value, ast.Node) for value in found)
        if are_numbers and all(isinstance(target, ast.Variable) for target in targets):
            keys = [(self.names.key(t.name, self.frame), t.span) for t in targets]  # type: ignore
            new = tuple([self.names.bound(*key) for key in keys])
            items = ast.Group(tuple(found[: len(new)]), span=given.span)
            self.names.emit(ast.Let(new, None, items, span=node.span))
            return new
        found = [self.kept(v) if isinstance(v, ast.Node) else v for v in found]
        for target, value in zip(targets, found, strict=False):
            self.store(target, value)
        return tuple(found)

    def update(self, target: ast.Access, op: str, given: ast.Node, span: Span | None) -> ast.Node:
        """`A[f(x)] += value`: the indices are computed once."""
        slot, _ = self.slot_of(self.value(target.tensor), target.span)
        found = self.indices(target, slot)
        at = tuple([i if isinstance(i, _SAFE) else self.kept(i) for i in found])
        parts = self.entry_at(slot, at, target.span), given
        value = self.kept(self.value(ast.call(op, *parts, span=span)))
        self.set_entry(slot, at, value, target.span)
        return value

    def store(self, target: ast.Node, value: Any) -> Any:
        """Assign a value to a name or to an entry of a tensor; gives what is the value afterwards."""
        if isinstance(target, ast.Variable):
            return self.names.assign(self.names.key(target.name, self.frame), value, target.span)
        assert isinstance(target, ast.Access)
        value = self.kept(self.expression_of(value, target.span))
        slot, _ = self.slot_of(self.value(target.tensor), target.span)
        self.set_entry(slot, self.indices(target, slot), value, target.span)
        return value

    def is_builtin(self, op: ast.Variable) -> bool:
        """Whether a name means what it does in the language."""
        found = self.meaning(op.name, op.span)
        return isinstance(found, un.Static) and found.value is PREDEFINED.get(op.name)

    def fail(self, message: str, span: Span | None) -> None:
        """Emit an error. The script runs what fails once more, and tells its own message."""
        self.names.emit(loop_ir.RaiseError(message, span=span))

    def ensure(self, holds: ast.Node, message: str, span: Span | None) -> None:
        failing, _ = self.names.within(lambda: self.fail(message, span))
        arms = (holds, ast.Script(())), (ast.Literal(True), failing)
        self.names.emit(ast.If(arms, span=span))

    # ---------------------------------------------------------------- control

    def choose(
        self, branches: tuple[tuple[ast.Node, ast.Node], ...], is_last: bool, span: Span | None
    ) -> None:
        (condition, body), *others = branches
        if condition == ast.Literal(True):
            self.statement(body, is_last)
            if is_last and not flat((body,)):
                self.leave(None, span)
            return
        found = self.value(condition)
        more = tuple(others)
        if isinstance(found, (un.Static, ast.Literal)):
            if found.value is True:
                self.statement(body, is_last)
            elif found.value is False:
                self.choose(more, is_last, span)
            else:
                raise un.NotStaged("this condition is no Bool", condition.span)
            return
        names, holds = self.names, self.expression_of(found, condition.span)
        then, after = names.within(lambda: self.statement(body, is_last))
        other, behind = names.within(lambda: self.choose(more, is_last, span))
        goes_on = [NEXT in ways(ast.If(arms)) for arms in (((ast.Literal(True), body),), more)]
        if all(goes_on):
            other = names.join(after, behind, other, span)
        elif any(goes_on):
            names.values = after if goes_on[0] else behind
        otherwise = ((ast.Literal(True), other),) if other.statements else ()
        names.emit(ast.If(((holds, then), *otherwise), span=span))

    def loop(self, condition: ast.Node, body: ast.Node, span: Span | None) -> None:
        """A loop, at whose beginning names mean the same in each round, and as much behind it."""
        names, holds = self.names, list[ast.Node]()
        before = names.moment()

        def test() -> None:
            holds.append(self.expression_of(self.value(condition), condition.span))

        look, names.values = names.within(test)
        inside = self.repeated(body, span, before)
        if look.statements:  # a condition that takes statements
            leave = ast.If(((holds[0], ast.Script(())), (ast.Literal(True), ast.Break())))
            inside = ast.Script((*look.statements, leave, *inside.statements))
            holds = [ast.Literal(True)]
        names.emit(ast.While(holds[0], inside, span=span))

    def repeated(
        self,
        body: ast.Node,
        span: Span | None,
        before: Callable[[], Any],
        begin: Callable[[], None] = lambda: None,
    ) -> ast.Script:
        """The rounds of a loop, each after `begin`. Behind it names mean what they do `before` it, and
        numbers that it assigns first may have a value."""
        names, left = self.names, dict[Any, Any]()

        def round() -> None:
            begin()
            self.statement(body)
            if NEXT in ways(body):
                names.reconcile(before(), span)

        self.loops.append((before, left))
        inside, after = names.within(round)
        self.loops.pop()
        names.values = left | un.numbers_in(after) | before()
        return inside

    def count(self, node: ast.For) -> None:
        before, around, over = len(self.frames), self.frame, node.iterable
        self.turns(node, over if isinstance(over, Rounds) else self.rounds(over))
        self.leave_scopes(before, around)

    def rounds(self, over: ast.Node) -> Rounds:
        """What a loop is over, evaluated: a range, or the entries of arrays of one dimension, also by
        `enumerate`, `zip` or `eachindex`, which are given names."""
        parts: tuple[ast.Node, ...] = (over,)
        name, span = "", over.span
        message = "the loop is over no range, and no array of one dimension"
        match over:
            case ast.Extent():
                return self.range(over)
            case ast.Call(ast.Variable("enumerate" | "zip" | "eachindex") as op, args) if (
                self.is_builtin(op)
            ):
                parts, name = args, op.name
        if not parts or len(parts) > 1 and name != "zip":
            raise un.NotStaged(message, span)
        slots = [self.slot_of(value, span) for value in self.several(parts)]
        if not all(self.names.is_array(slot) and level_of(f).order == 1 for slot, f in slots):
            raise un.NotStaged(message, span)
        columns = [f"column {len(self.frames)} {k}" for k in range(len(slots))]
        frame, sizes = self.enter(frozenset(columns)), list[ast.Node]()
        for column, (slot, format) in zip(columns, slots, strict=True):
            self.names.values[id(frame), column] = un.SlotName(slot)
            sizes.append(loop_ir.SlotSize(slot, un.size_mode(format, 0), span=span))
        place: ast.Node = ast.Variable(un.PLACE)
        items = [*map(_at_place, columns)]
        items = {"enumerate": [place, *items], "eachindex": [place]}.get(name, items)
        stop = reduce(partial(ast.call, "min"), sizes)
        return Rounds(ast.Extent(ast.Literal(1), stop, span=span), tuple(items))

    def range(self, over: ast.Extent) -> Rounds:
        parts = over.step or ast.Literal(1), over.start, over.stop
        step, start, stop = [self.expression_of(p, over.span) for p in self.several(parts)]
        if not isinstance(step, ast.Literal):
            step = self.kept(step)
            is_step = ast.call("!=", step, ast.Literal(0), span=over.span)
            self.ensure(is_step, "the step is 0", over.span)
        elif type(step.value) is not int or not step.value:
            raise un.NotStaged("the step of the range is no integer but 0", over.span)
        return Rounds(ast.Extent(start, stop, over.step and step, span=over.span), ())

    def turns(self, node: ast.For, rounds: Rounds) -> None:
        own, items = node.names or (node.variable,), rounds.items
        if len(items or own[:1]) != len(own):
            raise un.NotStaged("the loop takes its values apart", node.span)
        names, around, counter = self.names, self.frame, un.PLACE if items else node.variable
        before, frame = names.moment(), self.enter(frozenset((*own, counter)))
        key = id(frame), counter
        variable = names.number(key)

        def begin() -> None:
            names.values[key] = ast.Variable(variable)
            for name, item in zip(own, items, strict=False):
                names.assign((id(frame), name), self.value(item), node.span)

        body = self.repeated(node.body, node.span, before, begin)
        self.frame = around
        names.emit(replace(node, variable=variable, iterable=rounds.range, body=body, names=()))

    def comprehension(self, node: ast.Comprehension, may_be_empty: bool = False) -> un.SlotName:
        """A new array, which loops fill with the values; unless it may be empty, it is an error then."""
        names, span, around, before = self.names, node.span, self.frame, len(self.frames)
        own = {name for each in node.names for name in each}
        later = [n for each in node.iterables[1:] for n in trees.walk(each)]
        if later and (node.is_grid or own & {n.name for n in later if isinstance(n, ast.Variable)}):
            raise un.NotStaged("a comprehension has several dimensions, or loops of any size", span)
        total: ast.Node = ast.Literal(1)
        loops = list[ast.For]()
        for each, iterable in zip(node.names, node.iterables, strict=True):
            rounds = self.rounds(iterable)
            start, stop = map(self.kept, (rounds.range.start, rounds.range.stop))
            over = replace(rounds.range, start=start, stop=stop)
            steps = ast.call("fld", ast.call("-", stop, start), over.step or ast.Literal(1))
            turns = ast.call("max", ast.call("+", steps, ast.Literal(1)), ast.Literal(0))
            total = ast.call("*", total, turns)
            more, known = (each if len(each) > 1 else ()), replace(rounds, range=over)
            loops.append(ast.For(each[0], known, ast.Script(()), more, span=span))
        at, hidden = len(self.collected), (un.FOUND, un.ROOM, un.COUNT, un.VALUE)
        frame = self.enter(frozenset(hidden))
        self.collected.append("")
        self.types += [Bool] * (at == len(self.types))  # at first, as all operators take Bools
        level = dense_format(self.types[at].dtype, 1)
        found, room, count, value, place = map(ast.Variable, (*hidden, un.PLACE))

        def let(target: ast.Node, value: ast.Node, op: str | None = None) -> ast.Node:
            return ast.Let((target,), op, value, span=span)

        made = self.make(level, (total,), span, is_array=True)
        names.assign((id(frame), un.FOUND), made, span)
        self.statement(let(count, ast.Literal(0)))
        put = let(ast.Access(found, (count,)), value)
        body: ast.Node = ast.Script((let(value, node.value), let(count, ast.Literal(1), "+"), put))
        if node.condition is not None:
            body = ast.If(((node.condition, body),), span=span)
        self.statement(reduce(lambda inner, loop: replace(loop, body=inner), loops[::-1], body))
        self.collected[at] = names.numbers.get((id(frame), un.VALUE), "")
        if not may_be_empty:
            some = ast.call(">", self.value(count), ast.Literal(0))
            self.ensure(some, "there are no values", span)
        if node.condition is not None:  # there is room for all
            names.assign((id(frame), un.ROOM), made, span)
            made = self.make(level, (self.value(count),), span, is_array=True)
            names.assign((id(frame), un.FOUND), made, span)
            move = let(ast.Access(found, (place,)), ast.Access(room, (place,)))
            over = ast.Extent(ast.Literal(1), count, span=span)
            self.statement(ast.For(un.PLACE, over, move, (), span=span))
        self.leave_scopes(before, around)
        return made

    # ---------------------------------------------------------------- functions

    def call(
        self, function: FinchFunction, given: list[Any], keywords: dict[str, Any], span: Span | None
    ) -> Any:
        """Emit the body of a function in place of its call; gives its value."""
        definition, names = function.definition, self.names
        what, parameters = f"`{definition.name}`", definition.parameters
        defaults = dict(definition.defaults)
        values = {**dict(zip(parameters, given, strict=False)), **keywords}
        is_fit = len(given) + len(keywords) == len(values)
        if not is_fit or {*values, *defaults} != {*parameters} or definition.types:
            raise un.NotStaged(f"{what} has parameters with types, or other ones", span)
        if not function.is_staged:
            raise un.NotStaged(f"{what} is not to be staged", span)
        found = None if keywords or defaults else self.as_operator(function, given, span)
        if found is not None:
            return found
        self.calls += 1
        if self.calls > CALLS:
            message = f"more than {CALLS} calls of functions with tensors stand in it"
            raise un.NotStaged(message, span)
        if definition in self.within or len(self.within) >= DEPTH:
            raise un.NotStaged(f"{what} calls itself, or calls nest too deeply", span)
        frame = un.CallFrame(function.scope.owned, function.parent, True)
        self.frames.append(frame)
        loops, self.loops, around, self.frame = self.loops, [], self.frame, frame
        self.within.append(definition)

        def run() -> None:
            for name in parameters:
                value = values[name] if name in values else self.value(defaults[name])
                names.assign((id(frame), name), value, span)
            self.statement(definition.body, True)

        body, after = names.within(run)
        self.within.pop()
        self.loops, self.frame = loops, around
        left = after if frame.exit is None else frame.exit
        names.values = {key: value for key, value in left.items() if key[0] != id(frame)}
        names.emit(Called(body, span=span))
        return frame.result

    def leave(self, value: Any, span: Span | None, is_return: bool = False) -> None:
        """Leave a function with a value: names outside of it mean the same wherever it is left."""
        frame = self.frame
        while isinstance(frame, un.CallFrame) and not frame.is_function:
            frame = frame.parent
        assert isinstance(frame, un.CallFrame)
        names, items = self.names, _items(value)
        keys = [(id(frame), f"result {k + 1}") for k in range(len(items))]
        for key, item in zip(keys, items, strict=True):
            names.assign(key, item, span)
        if frame is self.root:
            names.reconcile(self.start(), span)
            names.emit(ast.Let((ast.Variable(un.RETURNED),), None, ast.Literal(True)))
        found = tuple([names.values[key] for key in keys])
        result = found if isinstance(value, tuple) else found[0]
        if frame.exit is None:
            # the frame, and those made after it, which stand in it
            inner = {id(f) for f in self.frames[self.frames.index(frame) :]}
            outside = {k: v for k, v in names.values.items() if k[0] not in inner or k in keys}
            frame.exit, frame.left, frame.result = outside, span, result
        elif type(result) is not type(frame.result) or len(found) != len(_items(frame.result)):
            raise un.NotStaged("the function has values of different kinds", span)
        else:
            names.reconcile(frame.exit, span)
        if is_return:
            names.emit(ast.Return(None, span=span))


def _at_place(column: str) -> ast.Node:
    return ast.Access(ast.Variable(column), (ast.Variable(un.PLACE),))


def _items(value: Any) -> tuple[Any, ...]:
    """The values in a tuple, or the one value."""
    return value if isinstance(value, tuple) else (value,)


_SAFE = ast.Literal, ast.Variable
