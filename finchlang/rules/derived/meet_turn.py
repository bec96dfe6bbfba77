"""The loop of the rule Meet where several cursors go on together: one turn of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial, reduce

from finchlang.algebra import absence
from finchlang.algebra.bounds import at_most, greater, lesser
from finchlang.algebra.simplify import simplify
from finchlang.host import construct as code
from finchlang.host.engine import Machine
from finchlang.host.inspecting import scratch
from finchlang.host.interface import Host
from finchlang.host.ir import BLOCK, Cell, Expr
from finchlang.levels import looplets as lp
from finchlang.rules.base.context import Context, accesses_in, find_looplets, put, take_turns
from finchlang.rules.base.early_exit import Exit
from finchlang.rules.base.loops import unfurlable
from finchlang.rules.base.state import State, branches
from finchlang.rules.derived.cursors import Cursor, ListedCursor, Seen, is_mask
from finchlang.syntax.nodes import Loop, Node, Value
from finchlang.syntax.traversal import substitute

#: lists with so many times the entries of another are searched (rows that meet fibers of one to three take
#: 0.2 of the time), and blocks of fewer entries are not skipped (fibers of one or two: 0.6)
LONG, FEW = 16, 4


@dataclass
class Turn:
    """`leaders` decide by `absent` where something is to be done; `others` are searched there, and what
    stands in pieces over several coordinates, too, where the base rules would do each piece in each arm.
    `at` is where the rest of the region begins, `stop` its last coordinate if entries may reach beyond it,
    `beyond` the coordinate after the region. `is_at_points`: something is done at points only. `is_sure`:
    the loop goes on only while all leaders but those `passing` have an entry, so that entries are read
    without a test; else until none of them has any by the formula `over`, or NEVER."""

    term: Loop
    absent: absence.Where
    leaders: Mapping[int, Cursor]
    others: Sequence[Cursor]
    at: Cell | None
    stop: Expr | None
    beyond: Expr
    is_at_points: bool
    is_sure: bool
    passing: Set[int]
    over: absence.Where
    exit: Exit

    @property
    def host(self) -> Host:
        return self.exit.host

    def is_left(self) -> Expr:
        """Whether there may be something left to be done."""
        at = None if self.at is None else self.host.get(self.at)
        last = code.sub(self.beyond, 1)
        must = [k for k in self.leaders if self.is_sure and k not in self.passing]
        left = {
            k: code.TRUE
            if self.absent == absence.NEVER and c.lasts_until(last)
            else c.is_left(self.host, at)
            for k, c in self.leaders.items()
            if k in {*must, *absence.variables(self.over)}
        }
        found = code.conjunction(*(left[k] for k in must))
        if len(must) < len(left):
            some = {k: code.TRUE if k in must else is_left for k, is_left in left.items()}
            either, all_of = partial(code.op, "or"), partial(code.op, "and")
            rest = absence.fold(self.over, some.__getitem__, either, all_of)
            found = code.conjunction(found, rest)
        if self.stop is not None:
            assert at is not None
            found = code.conjunction(found, code.compare("le", at, self.stop))
        return code.conjunction(found, self.exit.holds())

    @property
    def is_uncut(self) -> bool:
        """Whether a part of the loop may have a point as its last coordinate, rather than end before it."""
        return self.is_at_points or self.absent == absence.NEVER

    def once(self) -> Callable[[], None]:
        """The function that takes one turn; in a product of lists it skips blocks of positions, too."""
        if self.is_sure and absence.is_product(self.absent):
            listed = [
                c for c in self._listed() if c.known.listed and isinstance(c.steps, lp.Stepper)
            ]
            if len(listed) > 1:
                return by_blocks(self.host, listed, self.take, code.sub(self.beyond, 1))
        return self.take

    def take(self) -> None:
        """Go to the next coordinate where something is to be done, and do it up to where an entry begins or
        ends; then those move on that end before what is left."""
        host = self.host
        at = None if self.at is None else host.get(self.at, upper=self.stop)
        sure = [k for k in self.leaders if self.is_sure and k not in self.passing]
        ends = dict.fromkeys(self.leaders, self.beyond) | dict.fromkeys(sure)
        seen = {k: c.see(host, ends[k], at, self.is_uncut) for k, c in self.leaders.items()}
        late: list[Seen] = []
        if self.absent == absence.NEVER:
            assert at is not None
            i = at
        else:
            first = absence.fold(self.absent, lambda k: seen[k].first, code.minimum, code.maximum)
            i = host.let(first if at is None else greater(first, at), "i")
            late = [s for s in seen.values() if not at_most(first, s.first)]
        if self.is_at_points and all(s.is_point for s in seen.values()):
            is_there = code.conjunction(*(code.compare("ge", s.last, i) for s in late))
            host.branch(is_there, partial(self.visit, seen, i), partial(self._go_on, late, "lt", i))
            return
        is_open = self.stop is not None and not at_most(i, self.stop)
        if self.others and is_open and not self.is_at_points:  # there is nothing behind the region
            assert self.stop is not None and self.at is not None
            rest = partial(self._go_to, seen, late, i, False)
            is_over = partial(host.set, self.at, self.beyond)
            host.branch(code.compare("le", i, self.stop), rest, is_over)
        else:
            self._go_to(seen, late, i, is_open)

    def _go_to(self, seen: dict[int, Seen], late: list[Seen], i: Expr, is_open: bool) -> None:
        """Do what is to be done from i on, which may be beyond the region if it `is_open`."""
        host = self.host
        if not self.is_at_points:
            there = {id(c.nest): c.sought(host, i, self.beyond, self.is_uncut) for c in self.others}
            seen = {**seen, **there}
        stop = reduce(lesser, [self._reach(seen, k, i) for k in seen])
        stop = stop if self.stop is None else lesser(stop, self.stop)
        if late or is_open:  # it may be empty
            stop = host.let(stop, "reach")

            def within() -> None:
                end = i if self.is_at_points else host.let(code.maximum(i, stop), "stop")
                self.do(seen, i, end)

            host.branch(code.compare("le", i, stop), within)
        else:
            stop = host.let(stop, "stop", lower=i)
            self.do(seen, i, stop)
        if late and any(isinstance(c.steps, lp.Jumper) for c in self._listed()):
            self._go_on(seen.values(), "lt", host.let(code.maximum(i, code.add(stop, 1)), "rest"))
        else:
            self._go_on(seen.values(), "eq", stop)
        if self.at is not None:
            host.set(self.at, code.add(stop, 1))

    def _listed(self) -> list[ListedCursor]:
        return [c for c in self.leaders.values() if isinstance(c, ListedCursor)]

    def visit(self, seen: Mapping[int, Seen], i: Expr) -> None:
        """Do what is to be done at a coordinate that all leaders have come to, and move on past it."""
        self.do(seen, i, i)
        over = [s for s in seen.values() if s.is_point and s.is_sure and at_most(s.first, i)]
        for s in over:
            assert s.go_on is not None
            s.go_on(self.host, None)
        self._go_on([s for s in seen.values() if s not in over], "eq", i)

    def _go_on(self, seen: Iterable[Seen], name: str, i: Expr) -> None:
        """Move on those that end before i (`lt`), or up to it."""
        for s in seen:
            if s.go_on is None:
                continue
            go_on = partial(s.go_on, self.host, i if name == "lt" else code.add(i, 1))
            if name == "eq" and at_most(s.last, i):
                go_on()
            else:
                self.host.branch(code.compare(name, s.last, i), go_on)

    def do(self, seen: Mapping[int, Seen], i: Expr, stop: Expr) -> None:
        """Do what is to be done from i to `stop`, and test whether the loop is left."""
        self._tell_apart(seen, i, stop)
        self.exit.ask(stop)

    def _tell_apart(self, seen: Mapping[int, Seen], i: Expr, stop: Expr) -> None:
        """Do what is to be done from i to `stop`: over several coordinates for each part of a sum that may
        be there alone, and for all of them; else what is there is asked at each."""
        asked = {k: s for k, s in seen.items() if not s.is_certain(i)}
        is_wide = stop is not i and asked and self._are_numbers(asked.values())
        arms, certain = self._arms(asked, i) if is_wide else ([], set[int]())
        run = partial(self._run, seen, i, stop)
        alone = [(condition, partial(run, asked.keys() - away, away)) for condition, away in arms]
        branches(self.host, alone, partial(run, certain))

    def _arms(
        self, asked: Mapping[int, Seen], i: Expr
    ) -> tuple[list[tuple[Expr, Set[int]]], Set[int]]:
        """By conditions, of which the first that holds counts, the operands that are away while all others
        of `asked` are there; and those that are there where none holds."""
        parts: Sequence[absence.Where] = tuple(asked)  # each alone beside what is always there
        if self.absent != absence.NEVER:
            parts = ()
            if isinstance(self.absent, absence.AbsenceFormula) and self.absent.is_and:
                parts = self.absent.parts
        elif any(s.is_point for s in asked.values()):
            return [], set()  # it may be the last coordinate
        without = partial(self._without, seen=asked)

        def falls_together(part: absence.Where) -> bool:
            """Whether the loop is the same with any of a part's operands at their fill."""
            own = asked.keys() & absence.variables(part)
            if isinstance(part, int) or not own:
                return True
            return (
                absence.is_product(part) and len({without(own), *(without([k]) for k in own)}) == 1
            )

        own = [(absence.variables(part), falls_together(part)) for part in parts]
        away = {k: code.compare("gt", s.first, i) for k, s in asked.items()}
        lacking = []
        for part, is_one in own:
            joined = partial(code.op, "or" if is_one else "and")
            lacking.append(reduce(joined, (away.get(k, code.FALSE) for k in part)))
        arms = dict[Node, tuple[Expr, Set[int]]]()
        for left in [*([None] if self.absent == absence.NEVER else ()), *range(len(own))]:
            others = [n for n in range(len(own)) if n != left]
            when = code.conjunction(*(lacking[n] for n in others))
            gone = asked.keys() & {k for n in others for k in own[n][0]}
            is_there = left is None or absence.is_product(parts[left])
            if gone and is_there and when is not code.FALSE:
                term = self._without(gone, asked)
                arms[term] = code.op("or", arms.get(term, (code.FALSE,))[0], when), gone
        found = list(arms.values())
        if len(own) < 3 and all(is_one for _, is_one in own):
            return found, set(asked) if found else set()
        if found:
            found.append((code.conjunction(*(code.op("not", x) for x in away.values())), set()))
        return found, set()

    def _without(self, away: Iterable[int], seen: Mapping[int, Seen]) -> Node:
        """The loop with operands at their fill."""
        fills = {id(s.nest): s.fill for k in away if (s := seen[k]).fill is not None}
        return simplify(put(self.term, fills, consume=True))

    def _are_numbers(self, asked: Iterable[Seen]) -> bool:
        """Whether these operands have a number at each of several coordinates, or another nest is left that
        has."""
        nests = {id(s.nest) for s in asked}
        found = [a for a in accesses_in(self.term) if id(a.tensor) in nests]
        many = [s.whole(scratch()) for s in asked if not s.is_point and not is_mask(s.nest)]
        has_many = not all(isinstance(x, lp.Run) for x in many) or (many and take_turns(self.term))
        own = {id(c.nest) for c in (*self.leaders.values(), *self.others)}
        left = [x for x in find_looplets(self.term) if isinstance(x, (lp.Steps, lp.Sequence))]
        has_many = has_many or not all(id(x) in own for x in left)
        return bool(has_many) and all(len(a.indices) == 1 for a in found)

    def _run(
        self,
        seen: Mapping[int, Seen],
        i: Expr,
        stop: Expr,
        certain: Set[int],
        away: Set[int] = frozenset(),
    ) -> None:
        """Do what is to be done from i to `stop`, with operands that are `certain` to be there and operands
        that are `away`, at their fill."""
        host, there = self.host, dict[int, Node]()
        for k, s in seen.items():
            if k in away and s.fill is not None:
                there[id(s.nest)] = lp.Run(s.fill)
            else:
                is_there = k in certain
                looplet = s.whole(host) if is_there else s.looplet(host, i, self.is_uncut)
                there[id(s.nest)] = looplet
        if stop is i:
            there |= sought(host, self.others, i)
        visit(self.exit.machine, self.exit.state, self.term, i, stop, there)

    def _reach(self, seen: Mapping[int, Seen], k: int, i: Expr) -> Expr:
        """Up to which coordinate a cursor stays as it is at i; a point may be that coordinate itself."""
        s = seen[k]
        if s.is_point and self.is_uncut:
            return s.first
        if at_most(s.first, i):
            return s.last
        return code.op("select", code.compare("le", s.first, i), s.last, code.sub(s.first, 1))


def sought(host: Host, others: Iterable[Cursor], i: Expr) -> dict[int, Node]:
    """What cursors have at a coordinate, where they are searched; by the ids of their nests."""
    beyond = code.add(i, 1)
    found = [c for c in others if not isinstance(c, ListedCursor) or c.known.are_distinct]
    single = [c for c in found if not isinstance(c.nest, lp.Blocks)]
    return {id(c.nest): c.sought(host, i, beyond, True).looplet(host, i) for c in single}


def visit(
    machine: Machine, state: State, term: Loop, i: Expr, stop: Expr, there: Mapping[int, Node]
) -> None:
    """Run the part of a loop from i to `stop`, with nests replaced by the looplets in `there`. Without a
    loop, if it is at a point and nothing is left that has yet to be lowered: no nest, and no tensor that
    an option of a choice is."""
    payloads = {nest: x.body for nest, x in there.items() if isinstance(x, lp.Run)}
    nests = {id(x) for x in find_looplets(term) if isinstance(x, (lp.Steps, lp.Sequence))}
    is_lowered = len(payloads) == len(there) and nests <= payloads.keys()
    if stop is i and is_lowered and not unfurlable(term):
        rest: Node = put(term.body, payloads, consume=True)
        rest = substitute(rest, {term.index: Value(i)})
    else:
        rest = put(Context(term, ()).over(i, stop).term, there)
    machine.tell("Loop", lambda: (term, rest), i)
    machine.run(rest, state.inside())


def by_blocks(
    host: Host, lists: Sequence[ListedCursor], take: Callable[[], None], last: Expr
) -> Callable[[], None]:
    """`take`, but where the first of two lists comes to a new block of positions, blocks are skipped: as
    long as this block and the next one of the other list have no coordinate in common, the one that ends
    first is skipped, or both. If all lists end up to `last`, long ones are searched for the entries of
    others, and blocks of short ones are not skipped.
    Rows of 3 to 100 entries take 0.3 to 0.5 of the time so, and lists with a third of their coordinates in
    common 1.08. The last block of a list ends with the list, so that it may begin within the previous one,
    or before the list; coordinates found equal there only mean that nothing is skipped."""
    pair = one, _ = lists[:2]
    for c in lists:
        c.leads = True
    (idx, delta), (other_idx, other_delta) = (c.known.listed for c in pair if c.known.listed)
    shift = host.let(code.sub(delta, other_delta), "shift")
    counts: list[Expr] = []
    is_plain: Expr = code.FALSE
    if all(c.end is not c.known.stop or c.ends_within(last) for c in lists):
        counts = [code.sub(c.end, c.known.here(host)) for c in lists]
        least = host.let(reduce(code.minimum, counts), "least")
        far = code.compare("gt", reduce(code.maximum, counts), code.op("mul", least, LONG))
        is_far = host.let(far, "is_far")
        is_plain = code.op("and", code.compare("lt", least, FEW), code.op("not", is_far))
    block = host.cell(code.op("select", is_plain, one.end, one.known.start), "block")

    def search() -> None:
        firsts = [c.known.coordinate(host, c.known.here(host)) for c in lists]
        i = host.let(reduce(code.maximum, firsts), "i")
        for count, c in zip(counts, lists, strict=True):
            is_long = code.compare("gt", count, code.op("mul", least, LONG))
            host.branch(is_long, partial(c.seek, host, i))
        host.set(block, code.add(one.known.here(host), 1))

    def pass_over() -> None:
        stops = [
            host.let(code.minimum(code.add(c.known.here(host), BLOCK), c.end), "stop") for c in pair
        ]
        q, r = (code.sub(stop, BLOCK) for stop in stops)

        def go_on() -> None:
            both = zip(pair, stops, strict=True)
            ends = [c.known.coordinate(host, code.sub(s, 1)) for c, s in both]
            are_first = code.compare("le", *ends), code.compare("le", *ends[::-1])
            for is_first, c, s in zip(are_first, pair, stops, strict=True):
                host.branch(is_first, partial(c.known.go, host, s))

        are_blocks = code.conjunction(*[code.compare("le", code.ZERO, left) for left in (q, r)])
        ask = partial(host.disjoint, idx, q, shift, other_idx, r)
        is_passed = host.only_if(are_blocks, ask, "passed")
        host.branch(is_passed, go_on, partial(host.set, block, stops[0]))

    def come_to_block() -> None:
        host.branch(is_far, search, pass_over) if counts else pass_over()

    def step() -> None:
        host.branch(code.compare("ge", one.known.here(host), host.get(block)), come_to_block, take)

    return step
