"""Derived rules change how much work is done, never what is stored: with and without them, programs
leave the same entries in every tensor."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from elementwise import Elementwise, programs
from hypothesis import HealthCheck, given, settings

from finchlang import Session
from finchlang.denote.denotation import denote
from finchlang.host.verify import check
from finchlang.run.kernel import Kernel
from finchlang.script.tensors import copy_of
from finchlang.text.parse import parse_kernel

CASES = min(40, int(os.environ.get("AGREEMENT_CASES", "40")))


def left_by(case: Elementwise, which: str) -> dict[str, Any]:
    """The outputs of a program run by the rules."""
    formats = {name: tensor.format for name, tensor in case.tensors.items()}
    kernel = Kernel(parse_kernel(case.text), formats, which)
    check(kernel.residual)
    copies = {name: copy_of(tensor) for name, tensor in case.tensors.items()}
    kernel.run_residual([copies[name] for name in kernel.tensors], [])
    return {name: tensor for name, tensor in copies.items() if name in "XY"}


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_all_rules_and_those_of_the_papers_store_the_same_entries(case: Elementwise) -> None:
    found, base = left_by(case, "all"), left_by(case, "paper")
    meaning = denote(parse_kernel(case.text), case.tensors)
    for name in found:
        (places, values), (expected, others) = found[name].entries(), base[name].entries()
        np.testing.assert_array_equal(places, expected)
        np.testing.assert_allclose(values, others)
        np.testing.assert_allclose(found[name].to_numpy(), np.asarray(meaning[name]))


@pytest.mark.parametrize("summand", ["(B[I[j]] + 0.0) + -2", "(B[I[j]] - 2.0) * n", "B[I[j]] - 2"])
def test_terms_that_make_up_for_a_fill_store_nothing(summand: str) -> None:
    stored = []
    for which in ("all", "paper"):
        session = Session(engine="interpret", rules=which)
        session.run("""
            A = Tensor(SparseByteMap(Element(0.0)), 4)
            B = Tensor(SparseList(Element(2.0)), 4)
            I = Tensor(SparseList(Element(1)), 4)
            n = 3.0
        """)
        session.run(f"@finch for j = _, i = 1:4; A[j] += {summand} end")
        stored.append(session.run("countstored(A)"))
    assert stored == [0, 0]


@pytest.mark.parametrize("kind", ["SparseScalar", "SparseShortCircuitScalar"])
def test_a_scalar_that_tells_whether_it_was_assigned_is_not_by_such_terms(kind: str) -> None:
    stored = []
    for which in ("all", "paper"):
        session = Session(engine="interpret", rules=which)
        session.run(f"""
            A = Tensor(SparseList(Element(0.0)), 2)
            B = Tensor(SparseList(Element(2.0)), 4)
            s = {kind}(0.0)
        """)
        session.run("""@finch begin
            A .= 0
            for k = 1:2
                s .= 0
                for i = _; s[] += B[i] - 2 end
                A[k] = s[]
            end
        end""")
        stored.append(session.run("countstored(A)"))
    assert stored == [0, 0]


def test_an_index_whose_extent_is_a_number_is_known_under_all_rules() -> None:
    """`i` is 1, and a product with 1 is no assignment: the size that A has must not stand for it."""
    stored = []
    for which in ("all", "paper"):
        session = Session(engine="interpret", rules=which)
        session.run("A = Tensor(SparseByteMap(Element(UInt16(0))), 1)")
        session.run("@finch for i = 1:1; A[i] *= i end")
        stored.append(session.run("countstored(A)"))
    assert stored == [0, 0]


@pytest.mark.parametrize("format", ["Ragged(Element(0))", "SparseByteMap(Element(0))"])
def test_a_loop_that_is_left_early_has_stored_what_it_is_left_for(format: str) -> None:
    """The fill is the annihilator: the first step that updates stores it, be it the last of the loop."""
    stored = []
    for which in ("all", "paper", "all-Break"):
        session = Session(engine="interpret", rules=which)
        session.run(f"""
            A = Tensor({format}, 2)
            S = Tensor(Dense(SparseList(Element(0))), [1 0; 1 3; 3 1])
        """)
        session.run("@finch for j = _, i = _; if S[i, j] > 2; A[j] &= 2 end end")
        stored.append(session.run("countstored(A)"))
    assert stored == [2, 2, 2]
