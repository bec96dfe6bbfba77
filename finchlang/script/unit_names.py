"""What names mean in a loop of the script that becomes a unit (`as_unit.py`): numbers, slots of tensors, or
values that are known. What a unit cannot have is refused, with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from finchlang.base.errors import FinchError, Span
from finchlang.base.records import record
from finchlang.calls import arguments as args
from finchlang.calls.environment import Environment
from finchlang.functions import unit as loop_ir
from finchlang.levels.level import Level, Swizzled
from finchlang.operators.operator import Operator
from finchlang.script.functions import PREDEFINED, FinchFunction, LevelName, MaskName
from finchlang.script.show import kind_of
from finchlang.script.values import Builtin
from finchlang.syntax import nodes as ast
from finchlang.syntax.types import Type
from finchlang.wrappers.masks import MaskValue

#: where a name stands: the dictionary or function that binds it, and the name
Key = tuple[int, str]


class NotStaged(FinchError):
    """What a unit cannot have. `is_late` says that a round of the loop may change that."""

    def __init__(self, message: str, span: Span | None, is_late: bool = False):
        super().__init__("type", message, span)
        self.is_late = is_late


@record
class SlotName:
    """A name that is the tensor in a slot."""

    name: str


@record(eq=False)
class Static:
    """A value that is known: a function, a text, a format."""

    value: Any

    def is_same(self, other: Any) -> bool:
        if not isinstance(other, Static) or type(self.value) is not type(other.value):
            return False
        return self.value is other.value or bool(self.value == other.value)


@record(eq=False)
class Changeable(Static):
    """A value that may change in place, as a list: a unit has no use for it."""

    def is_same(self, other: Any) -> bool:
        return isinstance(other, Changeable) and type(self.value) is type(other.value)


#: the kinds of values that never change
_FIXED = (
    *(str, Level, Operator, Type, MaskValue, ast.Missing, ast.Nothing),
    *(FinchFunction, Builtin, LevelName, MaskName),
)


@dataclass(eq=False)
class CallFrame:
    """A scope of its own, of a function that is called or of a loop: the names it owns, and what is around
    it. Of a function `exit` is what names outside of it mean when it is left, `result` its value, and
    `left` where it is left first."""

    owned: frozenset[str]
    parent: CallFrame | Environment
    is_function: bool = False
    exit: dict[Key, Any] | None = None
    result: Any = None
    left: Span | None = None


@dataclass(eq=False)
class GivenName:
    """A name that a unit is given: its key, and the number, slot or value that it is. `where` gives the
    dictionary in which it stands that is in sight of an environment."""

    name: str
    where: Callable[[Environment], dict[str, Any]]
    key: Key
    meaning: Any
    #: whether a function owns it, where the language's own names mean nothing
    is_local: bool = False
    is_read: bool = False
    #: the number or slot of the unit that it is, and the number that tells whether it has a value
    result: str = ""
    flag: str = ""


#: names that scripts cannot have: of the entries that a loop is over, as arrays, and the place in them, and
#: of the values of a comprehension, with room for more, their count and the last one, and of the function
#: that gives them
ENTRIES, PLACE, FOUND, ROOM, COUNT, VALUE, MAPPED = (
    *("entries ", "a place", "all values", "a room", "a count", "a value", "a function"),
)
#: the number that tells whether a `return` in the loop was come to
RETURNED = "is_returned"
#: what a name without a value means, and one that is a number or something else, by the way that was taken
ABSENT, MIXED = Static(None), Changeable(None)


class UnitNames:
    """What names mean at a place of a unit, and the slots and numbers that there are."""

    def __init__(self, environment: Environment):
        self.environment = environment
        self.values: dict[Key, Any] = {}
        self.given: dict[Key, GivenName] = {}
        self.formats: dict[str, Any] = {}
        self.kinds: dict[str, Any] = {}  # of the slots that are given
        self.made: list[str] = []
        self.arrays: set[str] = set()  # those made that are arrays for the script
        self.errors: list[NotStaged] = []  # unless types of comprehensions turn out otherwise
        #: of names that are given arrays of the unit before they are read: the slots of these alone
        self.own: dict[Key, str] = {}
        self.assigned: dict[Key, str] = {}  # numbers, in the order in which they are first assigned
        #: for numbers, and slots in `own`, without a value before the loop: Booleans that tell of one
        self.flags: dict[str, str] = {}
        self.taken: set[str] = set()
        self.numbers: dict[Key, str] = {}
        self.out: list[ast.Node] = []
        #: what functions that kernels call are made of: dictionaries with the names and values used
        self.uses: list[tuple[dict[str, Any], str, Any]] = []

    def told(self) -> list[GivenName]:
        """The names that the unit is given, with what tells their values afterwards."""
        for key, given in self.given.items():
            meaning = given.meaning
            is_slot = isinstance(meaning, SlotName)
            given.result = meaning.name if is_slot else self.own.get(key, self.numbers.get(key, ""))
            given.flag = self.flags.get(given.result, "")
        return [*self.given.values()]

    def emit(self, *nodes: ast.Node) -> None:
        self.out += nodes

    def fresh(self, name: str) -> str:
        new, count = name, 1
        while new in self.taken:
            count += 1
            new = f"{name}_{count}"
        self.taken.add(new)
        return new

    def key(self, name: str, frame: CallFrame | Environment) -> Key:
        """Where a name stands that is seen from a frame or environment."""
        while isinstance(frame, CallFrame):
            if name in frame.owned:
                return id(frame), name
            frame = frame.parent
        around = None if frame is self.environment else frame
        owner = frame.owner(name)
        key = id(owner.values), name
        if key not in self.given:
            self.take(name, key, owner, around)
        return key

    def take(self, name: str, key: Key, owner: Environment, around: Environment | None) -> None:
        """Have the value that a name has when the loop begins."""
        values, value = owner.values, owner.values.get(name)
        sight = self.environment.scope.values_with(name) if around is None else lambda _: values
        given = GivenName(name, sight, key, ABSENT)
        given.is_local = owner.parent is not None
        self.given[key] = given
        argument = None if value is None else args.describe(value)
        if argument is None or argument[args.KIND] is args.NUMBER:
            if argument is not None and isinstance(argument[args.FORMAT], Type):
                given.meaning = ast.Variable(self.number(key))
                self.formats[given.meaning.name] = argument[args.FORMAT]
            elif value is not None:
                given.meaning = (Static if isinstance(value, _FIXED) else Changeable)(value)
        else:
            given.meaning = SlotName(self.fresh(name))
            self.formats[given.meaning.name] = argument[args.FORMAT]
            self.kinds[given.meaning.name] = argument[args.KIND]
        if given.meaning is not ABSENT:
            self.values[key] = given.meaning

    def number(self, key: Key) -> str:
        """The number of the unit that a name is."""
        if key not in self.numbers:
            self.numbers[key] = self.fresh(key[1])
        return self.numbers[key]

    def slot(self, level: Level, name: str, is_array: bool = False) -> str:
        """A new slot of the unit's own."""
        found = self.fresh(name)
        self.made.append(found)
        self.formats[found] = level
        self.arrays |= {found} if is_array else set()
        return found

    def is_array(self, slot: str) -> bool:
        """Whether a slot is that of an array, not of a tensor."""
        kind = self.kinds.get(slot, args.TENSOR)
        return slot in self.arrays or kind not in (args.TENSOR, args.SCALAR)

    def meaning(self, name: str, frame: CallFrame | Environment, span: Span | None) -> Any:
        """What a name means. Raises NotStaged if it may have no value."""
        key = self.key(name, frame)
        found, given = self.values.get(key), self.given.get(key)
        if given is not None and key not in self.own:
            given.is_read = True
        is_absent = found is None and given is not None and given.meaning is ABSENT
        if is_absent and name in PREDEFINED and not self.given[key].is_local:
            return Static(PREDEFINED[name])
        if found is None:
            raise self.unset(key, span)
        if found is MIXED:
            raise NotStaged(f"`{name}` is not always a value of the same kind", span)
        if isinstance(found, Changeable):
            raise NotStaged(f"`{name}` is {kind_of(found.value)}", span)
        return found

    def unset(self, key: Key, span: Span | None) -> FinchError:
        return NotStaged(f"`{key[1]}` may have no value here", span, True)

    def assign(self, key: Key, value: Any, span: Span | None) -> Any:
        """`value` is bound to a name: an expression on numbers, or what a name can mean; gives that."""
        if isinstance(value, ast.Node):
            self.emit(ast.Let((self.bound(key, span),), None, value, span=span))
            return self.values[key]
        given = self.given.get(key)
        is_array = isinstance(value, SlotName) and value.name in self.arrays
        if is_array and given is not None and not (given.is_read or key in self.numbers):
            return self.put(key, given, value, span)
        if given is not None and given.meaning is ABSENT:
            raise NotStaged(f"`{key[1]}` has no value before the loop", span, True)
        if isinstance(value, tuple):
            raise NotStaged(f"`{key[1]}` is a tuple", span)
        self.values[key] = value
        return value

    def put(self, key: Key, given: GivenName, value: SlotName, span: Span | None) -> SlotName:
        """An array of the unit is bound to a name whose value before the loop is not looked at."""
        format = self.formats[value.name]
        if key not in self.own:
            if isinstance(given.meaning, SlotName):
                del self.kinds[given.meaning.name], self.formats[given.meaning.name]
            given.meaning, slot = ABSENT, self.fresh(key[1])
            self.own[key], self.flags[slot] = slot, self.fresh(f"{slot}_is_set")
            self.made.append(slot)
            self.arrays.add(slot)
            self.formats[slot] = format
        slot = self.own[key]
        if value.name in {*self.own.values()} - {slot}:
            raise NotStaged(f"`{key[1]}` and another name are one array", span)
        if self.formats[slot] != format:
            self.errors.append(NotStaged(f"the values of `{key[1]}` change their type", span))
        elif value.name != slot:
            self.emit(loop_ir.ExchangeSlots(value.name, slot, span=span))
            self.emit(ast.Let((ast.Variable(self.flags[slot]),), None, ast.Literal(True)))
        alike = [k for k, v in self.values.items() if v == value]
        self.values |= dict.fromkeys((key, *alike), SlotName(slot))
        return SlotName(slot)

    def bound(self, key: Key, span: Span | None) -> ast.Variable:
        """The number that a name is from now on."""
        if key in self.own:
            raise NotStaged(f"`{key[1]}` is not always a value of the same kind", span)
        given, name = self.given.get(key), self.number(key)
        self.assigned.setdefault(key, name)
        if given is not None and given.meaning is ABSENT:
            flag = self.flags.setdefault(name, self.fresh(f"{name}_is_set"))
            self.emit(ast.Let((ast.Variable(flag),), None, ast.Literal(True)))
        self.values[key] = ast.Variable(name)
        return ast.Variable(name, span=span)

    def reconcile(self, target: Mapping[Key, Any], span: Span | None) -> None:
        """Have all names of `target` mean what they mean there, by exchanges of slots. Raises NotStaged."""
        moves: dict[str, str] = {}
        for key, want in target.items():
            have, what = self.values.get(key), f"`{key[1]}`"
            if isinstance(want, SlotName) and isinstance(have, SlotName):
                if moves.setdefault(have.name, want.name) != want.name:
                    message = f"{what} and another name are one tensor here, but not always"
                    raise NotStaged(message, span)
                if self.formats[have.name] != self.formats[want.name]:
                    old, new = (self.formats[s.name] for s in (want, have))
                    message = f"the format of {what} changes from {old} to {new}"
                    self.errors.append(NotStaged(message, span))
                    del moves[have.name]
            elif not (want.is_same(have) if isinstance(want, Static) else want == have):
                raise NotStaged(f"{what} is not always a value of the same kind", span)
        if len({*moves.values()}) < len(moves):
            raise NotStaged("two names are one tensor, but not always", span)
        at: dict[str, str] = {}  # the slot that holds what one held, where it has changed
        for start, stop in moves.items():
            now = at.get(start, start)
            if now != stop:
                self.exchange(now, stop, span)
                other = next((s for s, slot in at.items() if slot == stop), stop)
                at[start], at[other] = stop, now
        for key, value in self.values.items():
            if isinstance(value, SlotName) and value.name in at:
                self.values[key] = SlotName(at[value.name])

    def exchange(self, slot: str, other: str, span: Span | None) -> None:
        for name in (slot, other):
            if self.is_array(name) and not {slot, other} <= self.arrays - {*self.own.values()}:
                raise NotStaged(f"`{name}` is an array, which cannot be exchanged", span)
        self.emit(loop_ir.ExchangeSlots(slot, other, span=span))

    def moment(self) -> Callable[[], dict[Key, Any]]:
        """A function that tells, also later, what names mean now: of names that are met for the first time
        after now what they mean when the loop begins."""
        values, known = dict(self.values), {*self.given}

        def told() -> dict[Key, Any]:
            later = {key: given.meaning for key, given in self.given.items() if key not in known}
            return {k: m for k, m in later.items() if m is not ABSENT} | values

        return told

    def within(self, run: Callable[[], Any]) -> tuple[ast.Script, dict[Key, Any]]:
        """The statements that `run` emits, and what names mean after them; then they mean what they did."""
        around, before = self.out, self.moment()
        self.out = []
        run()
        done, self.out = ast.Script(tuple(self.out)), around
        after, self.values = self.values, before()
        return done, after

    def join(
        self, one: dict[Key, Any], other: dict[Key, Any], block: ast.Script, span: Span | None
    ) -> ast.Script:
        """The block after which names mean what `other` says, with exchanges after which they mean the same
        as after the other arm, `one`; what differs is MIXED, and a number of one arm may have a value."""
        one = {k: g.meaning for k, g in self.given.items() if k not in one and k in other} | one
        alike = [(key, v) for key, v in one.items() if isinstance(other.get(key), type(v))]
        common = {k: v for k, v in alike if not isinstance(v, Static) or v.is_same(other[k])}
        self.values = other
        more, _ = self.within(lambda: self.reconcile(common, span))
        mixed = dict.fromkeys(one.keys() & other.keys(), MIXED)
        self.values = numbers_in(one | other) | mixed | common
        return ast.Script((*block.statements, *more.statements), span=block.span)


def numbers_in(values: Mapping[Key, Any]) -> dict[Key, Any]:
    """The names among these that mean numbers."""
    return {key: v for key, v in values.items() if isinstance(v, ast.Variable)}


def entry_names(count: int) -> list[str]:
    """The names of so many arrays of entries, in alphabetic order."""
    return [f"{ENTRIES}{k:03}" for k in range(count)]


def is_local(name: str, frame: CallFrame | Environment) -> bool:
    """Whether a function, a loop or a `let` around owns a name."""
    while isinstance(frame, CallFrame):
        if name in frame.owned:
            return True
        frame = frame.parent
    return frame.scope.is_local(name)


def slots_in(groups: Iterable[Iterable[str]]) -> list[tuple[str, ...]]:
    """Sets of slots joined where they have a slot in common."""
    found: list[set[str]] = []
    for group in groups:
        whole = set(group)
        for other in [g for g in found if g & whole]:
            whole |= other
            found.remove(other)
        found.append(whole)
    return [tuple(sorted(group)) for group in found]


def size_mode(format: Any, mode: int) -> int:
    """The mode of the stored tensor that is the mode of one in this format, both counted from 0."""
    return format.permutation.index(mode + 1) if isinstance(format, Swizzled) else mode
