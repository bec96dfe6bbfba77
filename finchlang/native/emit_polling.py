"""Polling for an interrupt (Ctrl-C) while a kernel runs: often enough to leave within a second, and so
rarely that it costs nothing.

- An outermost loop with loops in it polls after a number of steps that it adapts, so that between a quarter
  of a millisecond and a few pass between two polls; its steps count nothing.
- An innermost counted loop runs in chunks of 2^20 iterations, with nothing but the body inside. An inner
  loop that reads or writes an array at each step, as over the entries of a row, cannot be very long and has
  no chunks: they would make SpMV with 10 entries in a row 1.2 times slower. (In procedures, which sort
  whole arrays, it has chunks.)
- Other loops take the work done inside them from a budget of 2^20 steps, and poll when it is used up.
"""

from __future__ import annotations

from abc import abstractmethod

from finchlang.host import ir
from finchlang.native.abi import INTERRUPTED
from finchlang.native.function_text import FunctionText

#: how many steps come between two polls
CHUNK = 1 << 20
#: After how many steps an outermost loop with loops in it polls: at first, and at most.
TIMED_STEPS = 1, 4096
#: A chunk that takes fewer cycles is doubled, one that takes more is halved.
TIMED_CYCLES = 1 << 19, 1 << 22


class Polling(FunctionText):
    """A function being written that polls for interrupts."""

    #: whether the innermost loop around runs in timed chunks
    is_timed = False

    @abstractmethod
    def count_up(self, statement: ir.ForLoop, first: str, last: str, polls: bool) -> None:
        """The loop from `first` to `last`, where first <= last; with `polls` each step is counted."""

    def count_in_chunks(
        self, statement: ir.ForLoop, first: str, last: str, is_timed: bool = False
    ) -> None:
        """The loop in chunks with a poll after each. Chunks have a fixed number of steps, or, if they are
        timed, one that is adapted so that a chunk takes between a quarter of a millisecond and a few: its
        steps need not count what they do."""
        chunk, more, end = self.labels("chunk", "more", "end")
        before, next_low, length = self.block, self.name(), ""
        if is_timed:
            length = self.local("i64")
            self.do(f"store i64 {TIMED_STEPS[0]}, ptr {length}")
        self.jump(chunk)
        self.start(chunk)
        low = self.new(f"phi i64 [ {first}, %{before} ], [ {next_low}, %{more} ]")
        steps = self.new(f"load i64, ptr {length}") if is_timed else ""
        further = self.new(f"sub i64 {steps}, 1") if is_timed else CHUNK - 1
        stop = self.least(self.new(f"add i64 {low}, {further}"), last)
        start = self.cycles() if is_timed else ""
        was_timed, self.is_timed = self.is_timed, self.is_timed or is_timed
        self.count_up(statement, low, stop, polls=False)
        self.is_timed = was_timed
        self.choose(self.new(f"icmp slt i64 {stop}, {last}"), more, end, cold=True)
        self.start(more)
        if is_timed:
            elapsed = self.new(f"sub i64 {self.cycles()}, {start}")
            self.do(f"store i64 {self.adapted(steps, elapsed)}, ptr {length}")
        self.do(f"{next_low} = add nsw i64 {stop}, 1")
        self.poll(chunk)
        self.start(end)

    def cycles(self) -> str:
        """What the processor's clock shows."""
        return self.call("i64", "llvm.readcyclecounter", ())

    def adapted(self, steps: str, elapsed: str) -> str:
        """The number of steps of the next chunk: twice as many after a short time, half as many after a
        long one."""
        twice = self.new(f"shl i64 {steps}, 1")
        more = self.least(twice, str(TIMED_STEPS[1]))
        half = self.new(f"lshr i64 {self.new(f'add i64 {steps}, 1')}, 1")
        short = self.new(f"icmp ult i64 {elapsed}, {TIMED_CYCLES[0]}")
        long = self.new(f"icmp ugt i64 {elapsed}, {TIMED_CYCLES[1]}")
        less = self.new(f"select i1 {long}, i64 {half}, i64 {steps}")
        return self.new(f"select i1 {short}, i64 {more}, i64 {less}")

    def spend(self, amount: str) -> None:
        if self.polls:
            budget = self.new(f"load i64, ptr {self.budget}")
            rest = self.new(f"sub i64 {budget}, {amount}")
            self.do(f"store i64 {rest}, ptr {self.budget}")

    def poll_if_spent(self, target: str) -> None:
        """Go on at `target`; poll first if the budget is used up."""
        if not self.polls:
            self.jump(target)
            return
        (look,) = self.labels("look")
        rest = self.new(f"load i64, ptr {self.budget}")
        self.choose(self.new(f"icmp slt i64 {rest}, 0"), look, target, cold=True)
        self.start(look)
        self.do(f"store i64 {CHUNK}, ptr {self.budget}")
        self.poll(target)

    def poll(self, target: str) -> None:
        """Ask Python whether a signal is pending, and leave the kernel if its handler raised."""
        self.module.use_look()
        signal = self.new("call preserve_mostcc i32 @look()")
        raised = self.new(f"icmp ne i32 {signal}, 0")
        self.choose(raised, self.leave(INTERRUPTED), target, cold=True)
