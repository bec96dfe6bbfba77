"""IPython and notebooks: cells and commands over the notebook's names, tensors in HTML, short errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nbformat
import numpy as np
import pytest
from html_page import Page
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient

from finchlang import Kernel, Scalar, Tensor

SPMV = """%%finch
y = Tensor(Dense(Element(0.0)))
@finch begin
    y .= 0
    for j = _, i = _
        y[i] += A[i, j] * x[j]
    end
end
n += 1
y"""


class Notebook:
    """A shell without a terminal: what cells give, print and say of errors."""

    def __init__(self) -> None:
        self.shell = InteractiveShell.instance()
        self.names = self.shell.user_ns
        assert self.run("%load_ext finchlang") == (None, "")

    def run(self, cell: str) -> tuple[Any, str]:
        with capture_output() as printed:
            found = self.shell.run_cell(cell, store_history=True)
        return found.result, printed.stdout + printed.stderr


@pytest.fixture(scope="module", autouse=True)
def _folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """IPython and Jupyter keep what they keep here, and not at home."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(scope="module")
def notebook(_folders: None) -> Iterator[Notebook]:
    made = Notebook()
    made.run("import finchlang")
    made.names.update(A=Tensor("Dense(SparseList(Element(0.0)))", np.eye(3)), x=np.arange(3.0), n=1)
    yield made
    InteractiveShell.clear_instance()


def test_a_cell_has_the_names_of_the_notebook(notebook: Notebook) -> None:
    value, _ = notebook.run(SPMV)
    assert value is notebook.names["y"] and np.array_equal(value.to_numpy(), notebook.names["x"])
    assert notebook.names["n"] == 2
    notebook.run("n = 10; x[:] = 1")
    assert notebook.run("%%finch\n(n + 1, x[3], A[2, 2])")[0] == (11, 1.0, 1.0)
    assert notebook.run("%%finch\nn + 1;")[0] is None
    assert notebook.run('%%finch\nprintln("here")') == (None, "here\n")
    notebook.run("%%finch\nplus(a) = a + n")
    notebook.run("n = 20; l = [1, 2]")
    assert notebook.run("%%finch\n(plus(1), l)")[0][0] == 21
    notebook.run("l.append(3); del n")
    assert len(notebook.run("%%finch\nl")[0]) == 3
    assert "n is not defined" in notebook.run("%%finch\nplus(1)")[1]
    notebook.run("n = 1; k = {}; from numpy import sum")
    assert notebook.run("%%finch\nfor k in 1:3; n += k end; (n, sum(x))")[0] == (7, 3.0)


def test_functions_of_cells_are_functions_of_python_and_back(notebook: Notebook) -> None:
    notebook.run("%%finch\nhalf(a) = a / 2")
    assert isinstance(notebook.names["half"], Kernel) and notebook.run("half(3)")[0] == 1.5
    notebook.run("def third(a): return a / 3")
    assert notebook.run("%%finch\nhalf(third(12))")[0] == 2.0


def test_the_last_kernel_is_shown(notebook: Notebook) -> None:
    notebook.run(SPMV)
    for command, said in {
        "residual": "kernel kernel(",
        "normalize": "# wrapperize",
        "trace --steps 1:2": "1 Define",
        "llvm": "define ",
        "asm": "ret",
        "explain": "dimensionalize",
        "?sqrt": "The square root",
        "who": "3x3 Tensor(Dense(SparseList",
    }.items():
        assert said in notebook.run(f"%finch {command}")[1]
    value, printed = notebook.run("%%finch explain\n@finch for i = _; x[i] = i end; x[3]")
    assert value == 3.0 and "`i` runs over 1:size(x, 1)" in printed


def test_a_kernel_is_shown_by_its_name(notebook: Notebook) -> None:
    notebook.run("import finchlang; made = finchlang.kernel('@finch for k = _; x[k] = k end')")
    notebook.run("made(x)")
    assert "1:size(x, 1)" in notebook.run("%finch normalize made")[1]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%finch\n\nx[7]", ":3:1: bounds error: index 7 is not in 1:3"),
        ("%%finch\ny = (1 +", ":2:5: syntax error"),
        ("import numpy as np\nm = np.ma.array([1.0])\n", ""),
        ("%%finch\nsum(m)", ":2:5: type error: a masked array"),
        ("%finch nothing", "there is no command"),
        ("@finchlang.operator\ndef bad(v): return v.foo", "]:2:20: type error"),
    ],
)
def test_errors_are_the_message_alone(notebook: Notebook, cell: str, said: str) -> None:
    _, printed = notebook.run(cell)
    assert said in printed and "Traceback" not in printed and printed.count("\n") <= 5


def test_a_notebook_as_jupyter_runs_it() -> None:
    """One kernel is started: a tensor is HTML, and errors have at most ten lines."""
    cells = [
        "import numpy as np, finchlang\nfrom finchlang import Tensor\n%load_ext finchlang",
        'A = Tensor("Dense(SparseList(Element(0.0)))", np.eye(3)); x = np.ones(3); n = 0\nA',
        SPMV,
        "%%finch\nunknown + 1",
        "finchlang.kernel('''\n    @finch for i = _\n        x[i] = A[i]\n    end\n''')(x, A)",
        "Tensor(5)",
        "A.values",
    ]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    done = NotebookClient(made, timeout=600, allow_errors=True).execute()
    outputs = [cell.outputs for cell in done.cells]
    assert outputs[0] == []
    shown = outputs[1][0].data["text/html"]
    assert "<img" in shown and "SparseList" in shown and "3 entries stored" in shown
    assert "3 Tensor(Dense" in outputs[2][0].data["text/plain"]
    errors = [output[-1] for output in outputs[3:]]
    texts = ["\n".join(error.traceback) for error in errors]
    assert texts[0].startswith("In[4]:2:1: unknown name error") and "\n" in texts[0]
    assert texts[1].startswith("In[5]:3:16: dimension error")
    assert [error.ename for error in errors] == [*["FinchError"] * 3, "AttributeError"]
    assert all(len(text.split("\n")) <= 10 for text in texts[:3])


@pytest.mark.parametrize("shape", [(6,), (2, 3), (0, 3), (300, 200), (3, 4, 5), (1000, 1)])
def test_tensors_are_shown_as_levels_and_a_picture(shape: tuple[int, ...]) -> None:
    dense = np.random.default_rng(0).random(shape)
    format = "Dense(" * (len(shape) - 1) + "SparseList(Element(0.0))" + ")" * (len(shape) - 1)
    page = Page(Tensor(format, np.where(dense < 0.1, dense, 0))._repr_html_())
    assert page.tags.count("pre") == 1 and page.tags.count("img") == 1
    assert page.text.strip().count("\n") == 3 + len(shape)
    assert " x ".join(map(str, shape)) in page.text and format in page.text
    assert "SparseList" in page.text


def test_lazy_arrays_and_scalars_are_shown_as_text() -> None:
    tensor = Tensor("Dense(SparseList(Element(0.0)))", np.eye(2))
    assert (tensor + 1)._repr_html_() is None and Scalar(1.0)._repr_html_() is None
