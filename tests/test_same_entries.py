"""Derived rules change how much work is done, never what is stored: with and without them, programs
leave the same entries in every tensor."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from elementwise import Elementwise, programs
from hypothesis import HealthCheck, given, settings

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
