"""Programs that are nested very deeply end in an error, never the process: each is run in one of its own.
Of values: programs/errors/nested_very_deeply."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from in_child import in_child

from finchlang import FinchError, Session


def outcomes(*scripts: str, engine: str = "native") -> list[str]:
    """What comes of scripts, one after the other in a process of their own: the kind of the error of
    each, or `fine`."""

    def work(report: Callable[[str], None]) -> None:
        for script in scripts:
            try:
                Session(engine, output=lambda text: None).run(script)
                report("fine\n")
            except FinchError as error:
                report(f"{error.kind}\n")

    ended = in_child(work, seconds=120)
    assert ended, f"{ended.fault}\n{ended.said}"
    return ended.said.splitlines()


@pytest.mark.parametrize("engine", ["native", "check"])
def test_deep_programs(engine: str) -> None:
    many = "+".join(["x"] * 3000)
    nested = "if true\n" * 900 + "x = 1\n" + "end\n" * 900
    scripts = f"f(x) = {many}; println(f(1))", f"function f(x)\n{nested}end; println(f(1))"
    assert outcomes(*scripts, engine=engine) == ["fine", "fine"]


def chain(length: int) -> str:
    arms = "".join(f"elseif A[i] == {k}\ns[] += {k}\n" for k in range(2, length))
    return f"@finch for i = _\nif A[i] == 1\ns[] += 1\n{arms}end end"


LONG_KERNELS = (
    chain(400),
    "@finch for i = _ s[] += " + " + ".join(["A[i]"] * 1000) + " end",
    "@finch for i = _ s[] += " + "(1 - A[i] - " * 1000 + "1" + ")" * 1000 + " end",
    "@finch begin " + "for i = 1:1\n" * 500 + "s[] += 1\n" + "end\n" * 500 + "end",
    "@finch for i = _\n" + "if A[i] > 0\n" * 500 + "s[] += 1\n" + "end\n" * 500 + "end",
)


def test_long_kernels() -> None:
    data = "A = [1, 2, 3]; s = Scalar(0); "
    assert outcomes(*(data + kernel for kernel in LONG_KERNELS[1:]), engine="check") == ["fine"] * 4
    assert outcomes(data + LONG_KERNELS[0] + "; @assert s[] == 6") == ["fine"]


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(1 + " * 5_200 + "1" + ")" * 5_200,
        "x = " + "-" * 5_200 + "1",
        "if true\n" * 5_200 + "x = 1\n" + "end\n" * 5_200,
        "s = Scalar(0)\n@finch s[] = " + " + ".join(["1"] * 5_200),
        "@finch begin " + "for i = 1:1\n" * 5_200 + "s[] += 1\n" + "end\n" * 5_201,
    ],
)
def test_what_is_nested_too_deeply_is_told_with_its_position(text: str) -> None:
    with pytest.raises(FinchError) as caught:
        Session().run(text)
    assert caught.value.kind == "resource"
    assert caught.value.span is not None
    assert not caught.value.others
    assert "nested more than 5000 deep" in caught.value.message
