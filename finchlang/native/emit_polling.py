"""Polling for an interrupt (Ctrl-C) while a kernel runs: often enough to leave within a second, and so
rarely that it costs nothing.

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


class Polling(FunctionText):
    """A function being written that polls for interrupts."""

    @abstractmethod
    def count_up(self, statement: ir.ForLoop, first: str, last: str, polls: bool) -> None:
        """The loop from `first` to `last`, where first <= last; with `polls` each step is counted."""

    def count_in_chunks(self, statement: ir.ForLoop, first: str, last: str) -> None:
        """The loop in chunks with a poll after each."""
        chunk, more, end = self.labels("chunk", "more", "end")
        before, next_low = self.block, self.name()
        self.jump(chunk)
        self.start(chunk)
        low = self.new(f"phi i64 [ {first}, %{before} ], [ {next_low}, %{more} ]")
        stop = self.least(self.new(f"add i64 {low}, {CHUNK - 1}"), last)
        self.count_up(statement, low, stop, polls=False)
        self.choose(self.new(f"icmp slt i64 {stop}, {last}"), more, end, cold=True)
        self.start(more)
        self.do(f"{next_low} = add nsw i64 {stop}, 1")
        self.poll(chunk)
        self.start(end)

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
