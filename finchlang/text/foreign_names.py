"""Names of Julia, Finch.jl, NumPy, SciPy, MATLAB, Python and C, each with our way, and calls of them in ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from finchlang.base.errors import Hint, Span, write
from finchlang.syntax import nodes as ast, traversal as trees
from finchlang.text.print import pretty

#: `names(parameters) | ours` for calls with so many arguments, `names | ours` for a name alone. Ours is code, or
#: text after a colon. Code after `@.` stands for each entry of arrays in scripts. A name that begins with a dot
#: is a method, whose object is the first parameter.
TABLE = """
# Python, NumPy, SciPy
solve(A, b) | A \\ b
arange(n) | 0:n - 1
arange(a, b) | a:b - 1
arange | : `a:s:b` is a range with both of its ends
range(n) | : `1:n` counts from 1, as indices do; the numbers of Python's `range(n)` are `0:n - 1`
linspace(a, b, n) | range(a, b, length=n)
where ifelse np_where(c, a, b) | @. ifelse(c, a, b)
where flatnonzero argwhere nonzero find(x) | findall((t) -> t != 0, x)
clip(x, a, b) | @. clamp(x, a, b)
len(x) | : `length(x)` counts the entries; the rows of a matrix are `size(x, 1)`
array asarray(x) | x
numel ndarray_size(x) | length(x)
nrow nrows(x) | size(x, 1)
ncol ncols(x) | size(x, 2)
shape | size
ndim | ndims
matmul mm(a, b) | a * b
einsum outer | : name the indices: `@einsum C[i, j] += A[i, k] * B[k, j]`
vstack concatenate row_stack | : `vcat(a, b)` joins vectors and puts matrices below each other
hstack column_stack | : `hcat(a, b)` puts columns and matrices side by side, `vcat(a, b)` joins vectors
zeros_like(x) | 0 .* x
ones_like(x) | 0 .* x .+ 1
empty(n) | zeros(n)
empty(m, n) | zeros(m, n)
full(n, v) | fill(v, n)
eye speye(n) | [i == j ? 1.0 : 0.0 for i in 1:n, j in 1:n]
eye(m, n) | [i == j ? 1.0 : 0.0 for i in 1:m, j in 1:n]
argsort | sortperm
sorted | sort
reversed fliplr flipud | reverse
amax nanmax np_max | maximum
amin nanmin np_min | minimum
max(x) | maximum(x)
min(x) | minimum(x)
average | mean
count_nonzero(x) | count((t) -> t != 0, x)
square sqr(x) | @. x * x
power pow(x, y) | @. x ^ y
fabs fabsf absolute | abs
sqrtf | sqrt
fmax fmaxf | max
fmin fminf | min
fmod fmodf | rem
ln | log
sgn signum | sign
sigmoid logistic expit(x) | @. 1 / (1 + exp(-x))
relu(x) | @. max(x, 0)
softmax | : write `e = exp.(x)` and `e .* (1 / sum(e))`
isna isnull | ismissing
int long(x) | trunc(Int64, x)
float double(x) | Float64(x)
int long | Int64
float double Float Double Real | Float64
bool(x) | x != 0
bool boolean | Bool
str repr to_string toString num2str strcat(x) | string(x)
strcat(x, y) | string(x, y)
str repr to_string toString | string
str2num str2double(s) | parse(Float64, s)
list to_list(x) | collect(x)
list | : a vector is written `[1, 2]`, one that grows begins as `[]`
tuple | : a tuple is written `(1, 2)`
set(x) | unique(x)
set | : `unique(x)` has each entry once, `x in v` looks for one
dict | Dict
type class | typeof
isinstance isa(x, T) | typeof(x) == T
csr_matrix csc_matrix coo_matrix csc_array csr_array(A) | Tensor(Dense(SparseList(Element(0.0))), A)
csr_matrix csc_matrix coo_matrix csc_array csr_array | : `fsparse(I, J, V, (m, n))` makes one of coordinates, which count from 1
diagm diag_matrix | Diagonal
load open read_csv loadtxt loadmat genfromtxt mmread imread | : `fread("matrix.mtx")` reads a tensor
save savetxt savemat mmwrite imwrite | : `fwrite("matrix.mtx", A)` writes a tensor
.append append(x, e) | : `push!(x, e)` appends to a vector that began as `[]`; `x = vcat(x, [e])` makes a longer one
.astype(x, t) | : `Float64.(x)` converts each entry, `trunc.(Int64, x)` cuts fractions off
.toarray .todense .to_numpy(A) | collect(A)
.max(x) | maximum(x)
.min(x) | minimum(x)
.std .var(x) | : with `m = mean(x)`, the variance is `mean((x .- m) .^ 2)`
.tocsr .tocsc .tocoo(A) | : a tensor has the format it is made with: `Tensor(CSCFormat(0.0), A)`
.T .H .transpose(A) | A'
.shape(A) | size(A)
.size .length(A) | length(A)
.ndim(A) | ndims(A)
.nnz(A) | countstored(A)
.dtype(A) | eltype(A)
.data .indices .indptr .val .ptr .idx .lvl(A) | : `ffindnz(A)` gives the coordinates and values of what is stored, `display(A)` shows the arrays
.flatten .ravel(A) | vec(A)
.item(x) | x[]
.upper(s) | uppercase(s)
.lower(s) | lowercase(s)
.log .info .println .print .write(o, x) | println(x)
eig eigs eigh eigvals svd qr lu pinv lstsq cholesky chol expm | : NumPy and SciPy have it: call them from Python on the arrays of a session
random randint randn rand_normal | : `rand(3)` has numbers from 0 to 1, `rand(Int64, 3)` whole ones
exit quit | : a script ends by itself, `error("why")` stops it; the prompt is left by Ctrl-D
help doc man | : at the prompt `?sum` explains a word, `:help` lists them
input readline raw_input scanf | : a script reads files by `fread`, and its arguments from `ARGS`
assert(c) | @assert c
lambda | : write `(x) -> x + 1`
print(x, y, z) | println(x, y, z)
printf sprintf fprintf cout console System logging | : write `println("x = $x")`, with `$name` or `$(value + 1)` for values
disp display_text echo puts say(x) | println(x)
throw raise(x) | error(x)
True | true
False | false
None null NULL nil undef Nothing void nullptr | nothing
NA NaT | missing
inf infinity Infinity INFINITY | Inf
nan Nan NAN | NaN
pi π PI M_PI | 3.141592653589793
ℯ euler | exp(1.0)
im 1im | : there are no complex numbers: keep two arrays, the real and the imaginary parts
this self new delete malloc sizeof_array | : there are no objects: values are numbers, strings, tuples, arrays and tensors
# Julia, Finch.jl, MATLAB
Fiber! Fiber fiber | Tensor
CSC | CSCFormat(0.0)
COO | COOFormat(2, 0.0)
CSR CSRFormat DCSRFormat | : formats go by columns: make `B = Tensor(CSCFormat(0.0), A')`, and `B'` has the rows of `A`
SparseMatrixCSC SparseVector AbstractArray | : arrays are made by `zeros(3, 3)`, tensors by `Tensor(Dense(SparseList(Element(0.0))), 3, 3)`
fill!(x, v) | : write `@finch x .= 0`, and a kernel for other values than the fill
zero(x) | 0 * x
one(x) | 0 * x + 1
muladd fma(x, y, z) | x * y + z
default | fill_value
dropfills! | dropfills
trace(A) | tr(A)
transpose! adjoint! | transpose
fix | trunc
idivide floordiv | div
horzcat | hcat
vertcat | vcat
repmat | tile
upper | uppercase
lower | lowercase
strlen | length
strsplit | split
strjoin | join
tic toc clock timeit | : `@time f(x)` tells how long a statement takes
typemax maxint | : the largest Int64 is 9223372036854775807, of floats it is `Inf`
cell struct containers | : keep the parts in variables, in a tuple or in `Dict("a" => 1)`
"""
#: what stands in kernels in place of functions of scripts
IN_KERNELS = """
length numel(x) | size(x, 1)
eachindex(x) | _
range(n) | 1:n
sum prod mean maximum minimum count any all norm dot average | : loops reduce: `s[] += x[i]` sums up, `s[] <<max>>= x[i]` keeps the largest
println print printf display disp show | : a kernel cannot print: print the tensor after the kernel
zeros ones fill rand Tensor Scalar similar copy collect string error push! append! sort reshape transpose findall vcat hcat fread fwrite | : call it before or after the kernel
"""
#: functions of NumPy that are of each entry of an array, and are called so here
ELEMENTWISE = re.compile(
    "sqrt|cbrt|exp2?|expm1|log(2|10|1p)?|a?(sin|cos|tan)h?|abs|floor|ceil|sign|isnan"
)
_REDUCTIONS = ("sum", "prod", "mean", "maximum", "minimum", "any", "all")
#: functions that take an array as a whole, besides these
_OF_WHOLE = frozenset(
    (*_REDUCTIONS, *("count", "std", "var", "median", "norm", "dot", "length", "size", "ndims"))
    + ("extrema", "first", "last", "sort", "reverse", "cumsum", "cumprod", "vec", "vcat", "hcat")
    + ("reshape", "zeros", "ones", "rand", "fill", "range", "collect", "argmax", "argmin")
    + ("findmax", "findmin", "tr", "det", "inv", "tensordot", "kron", "copy", "diff")
)
_LOGIC = tuple(map(ast.Variable, ("&&", "||", "!")))


class NameRow(NamedTuple):
    """One meaning of a foreign name: its parameters (None: whatever it takes) and our way."""

    parameters: tuple[str, ...] | None
    ours: str
    is_text: bool
    is_elementwise: bool


@cache
def rows(in_kernel: bool) -> dict[str, list[NameRow]]:
    """The rows of each name, those with parameters before the others; for kernels theirs come first."""
    found: dict[str, list[NameRow]] = {}
    for line in ((IN_KERNELS if in_kernel else "") + TABLE).strip().split("\n"):
        if line[:1] == "#" or not line:
            continue
        left, _, ours = line.partition(" | ")
        names, is_call, given = left.partition("(")
        parameters = tuple(given.rstrip(")").split(", ")) if is_call else None
        row = NameRow(
            parameters,
            ours.removeprefix(": ").removeprefix("@. "),
            ours[0] == ":",
            ours[:2] == "@.",
        )
        for name in names.split():
            found.setdefault(name, []).append(row)
    return found


def is_foreign(name: str) -> bool:
    """Whether the table has the name, so that no other one is guessed."""
    return name in rows(True)


class OurWay(NamedTuple):
    """Our way for a name: what is wrong, the text that is to be replaced (None: the name), and a hint."""

    reason: str
    span: Span | None
    hint: Hint | str


def way_of(
    name: str, call: Any, in_kernel: bool, parse: Callable[[str], ast.Node], is_known: bool = False
) -> OurWay | None:
    """Our way for `name`, which is called by the node `call` (None: not called). `is_known` if it is
    also a name of ours, which is called otherwise than in the table."""
    meant = rows(in_kernel).get(name, ())
    args = getattr(call, "args", None)
    named = name.removeprefix(".")
    is_script = in_kernel and name not in rows(False)
    what = (
        "a function of scripts"
        if is_script
        else "not a function here"
        if call
        else "not a name here"
    )
    reason = f"`{named}` is {what}" + ", and no operator of kernels" * is_script
    for row in meant:
        fits = args is not None and row.parameters is not None and len(row.parameters) == len(args)
        if is_known and not fits:
            continue
        if row.is_text:
            if row.parameters is None or fits or call is None:
                return OurWay(reason, None, row.ours)
        elif row.parameters is None:
            return OurWay(reason, None, Hint(f"it is written `{row.ours}`", row.ours))
        elif fits and not getattr(call, "keywords", ()):
            code = translated(row, call, in_kernel, parse)
            return OurWay(reason, call.span, write(code, call.span))
        elif call is None and not in_kernel:
            code = f"({', '.join(row.parameters)}) -> {row.ours}"
            return OurWay(reason, None, write(code))
    if meant and not is_known and meant[0].parameters is not None:
        row = meant[0]
        return OurWay(
            reason, None, f"`{named}({', '.join(row.parameters or ())})` is written `{row.ours}`"
        )
    return None


def translated(row: NameRow, call: Any, in_kernel: bool, parse: Callable[[str], ast.Node]) -> str:
    """The code that stands for a call, with its arguments, translated too, in place of the row's parameters."""
    if row.ours == "_":
        return "_"
    args = [matrix_of(ours_of(arg, in_kernel, parse)) for arg in call.args]
    given: dict[Any, ast.Node] = dict(
        zip(map(ast.Variable, row.parameters or ()), args, strict=True)
    )
    whole = trees.rewrite_bottom_up(lambda n: given.get(n, n), parse(row.ours))
    is_of_numbers = all(isinstance(n, ast.Literal) for n in args)
    whole = trees.rewrite_bottom_up(_folded, whole)
    if isinstance(call, ast.Broadcast) or not (
        in_kernel or is_of_numbers or not row.is_elementwise
    ):
        whole = dotted(whole)
    return text_of(whole)


def ours_of(node: ast.Node, in_kernel: bool, parse: Callable[[str], ast.Node]) -> Any:
    """An expression with the foreign calls in it translated, where the table has code for them."""

    def change(n: Any) -> ast.Node:
        name = (
            n.op.name
            if isinstance(n, (ast.Call, ast.Broadcast)) and isinstance(n.op, ast.Variable)
            else ""
        )
        for row in rows(in_kernel).get(name, ()) if name else ():
            if not row.is_text and len(row.parameters or ()) == len(n.args):
                return parse(translated(row, n, in_kernel, parse))
            if not row.is_text and row.parameters is None:
                return trees.replace(n, op=ast.Variable(row.ours))
        return n

    return trees.rewrite_bottom_up(change, node)


def _folded(node: Any) -> ast.Node:
    """A difference of literal integers, and a negative literal, as one literal."""
    args = [
        a.value for a in getattr(node, "args", ()) if isinstance(a, ast.Literal) and a.type is None
    ]
    if (
        not isinstance(node, ast.Call)
        or node.op != ast.Variable("-")
        or len(args) != len(node.args)
    ):
        return node
    if len(args) == 2 and {*map(type, args)} != {int}:
        return node
    return ast.Literal(-args[0] if len(args) == 1 else args[0] - args[1])


def text_of(node: Any) -> str:
    """An expression as it is typed: `A'` for `adjoint(A)`."""
    return re.sub(r"\badjoint\((\w+)\)", r"\1'", pretty(node))


def along_axis(call: Any) -> str | None:
    """A reduction along an axis as NumPy has it, which counts axes from 0 and leaves the axis out."""
    if not isinstance(call, ast.KeywordCall) or not isinstance(call.op, ast.Variable):
        return None
    name, given = call.op.name, dict(call.keywords)
    kept = {"max": "maximum", "amax": "maximum", "min": "minimum", "amin": "minimum"}.get(
        name, name
    )
    axis: Any = given.get("axis")
    is_number = isinstance(axis, ast.Literal) and type(axis.value) is int and axis.value >= 0
    if kept not in _REDUCTIONS or not is_number or len(given) > 1:
        return None
    of = f"{kept}({', '.join(map(pretty, call.args))}, dims = {axis.value + 1})"
    return f"@array dropdims({of}, dims = {axis.value + 1})"


def compared(node: Any) -> Any:
    """A number as a condition: `x != 0`; what is made of conditions, and a literal, as it is."""
    if isinstance(node, ast.Literal) or getattr(node, "op", None) in _LOGIC:
        return node
    return ast.Call(ast.Variable("!="), (node, ast.Literal(0)))


def dotted(node: Any) -> Any:
    """An expression for each entry of arrays: `x .> 1` for `x > 1`, `sqrt.(x)` for `sqrt(x)`. Functions of
    whole arrays stay as they are."""
    if not isinstance(node, ast.Call) or not isinstance(node.op, ast.Variable):
        return node
    if node.op.name in _OF_WHOLE:
        return node
    args = tuple(map(dotted, node.args))
    name = node.op.name
    if len(args) == 2 and (f".{name}" in SIGNS):
        return ast.Call(ast.Variable(f".{name}"), args, span=node.span)
    if name[0] == "." or (len(args) == 1 and name in ("-", "!")) or name == "adjoint":
        return ast.Call(node.op, args, span=node.span)
    return ast.Broadcast(node.op, args, span=node.span)


#: operators that have a form with a dot
SIGNS = frozenset(["." + sign for sign in "+ - * / ^ < <= > >= == != % & | && || div".split()])  # noqa: SIM905


def matrix_of(node: Any) -> Any:
    """A matrix for a vector of vectors of one length, as NumPy takes it: `[1 2; 3 4]` for `[[1, 2], [3, 4]]`."""
    rows = node.rows[0] if isinstance(node, ast.Rows) and not node.is_matrix and node.rows else ()
    inner = [r.rows[0] for r in rows if isinstance(r, ast.Rows) and not r.is_matrix and r.rows]
    if not inner or len(inner) < len(rows) or len({*map(len, inner)}) > 1:
        return node
    return ast.Rows(tuple(inner), True, span=node.span)
