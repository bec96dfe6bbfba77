"""What other languages write and ours does not: one table of pattern, reason and our way."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from finchlang.base.errors import FinchError, Source, Span


class ForeignForm(NamedTuple):
    """A form of another language. `pattern` is searched in a line of code in which strings and comments are
    blanked; the error is placed at its group `at`, or at all of it. `reason` and `way`, the hint, may refer
    to groups in braces. If a hint says to write a text, that text parses."""

    pattern: str
    reason: str
    way: str | None = None


FUNCTION = "write `function {f}({x}) ... end`"
LAMBDA = "write `({x}) -> {e}`"
NO_PACKAGES = "there are no packages: the language has what is there from the start"
NO_TYPES = "there are no types of one's own"
NO_ATTRIBUTES = "there is no member access"
NO_METHODS = "there are no methods: a function stands before its arguments"
START = r"^\s*"
REST = r".*?(?=\s*$)"

# fmt: off
#: The first row whose pattern matches at an error explains it. A form that we accept has no row.
FORMS = (
    # ------------------------------------------------ words that begin a statement
    ForeignForm(START + r"(?P<at>using|import)\s+Finch\s*[.:]" + REST, "names of Finch need not be imported", "take the line out"),
    ForeignForm(START + r"(?P<at>using|import|from|library|require|export)\b\s*\w" + REST, NO_PACKAGES, "take the line out; the text of another file is read by `include`"),
    ForeignForm(START + r"(?P<at>#include|include)\s*<.*", NO_PACKAGES, "take the line out"),
    ForeignForm(START + r"(?P<at>async\s+def|def|fn|func|fun|proc|sub)\s+(?P<f>\w+)\s*\((?P<x>[^():*=]*)\).*", "`{at}` is no word of the language", FUNCTION),
    ForeignForm(START + r"(?P<at>async\s+def|def|fn|func|fun|proc|sub)\s+\w.*", "`{at}` is no word of the language", "write `function f(x) ... end`"),
    ForeignForm(START + r"\w+\(.*\)\s*(?P<at>where\s[^=]*[^=\s])\s*=", "a function's parameters have no types of their own", "take `{at}` out"),
    ForeignForm(START + r"function\s+\w+\(.*\)\s*(?P<at>where\b.*)", "a function's parameters have no types of their own", "take `{at}` out"),
    ForeignForm(r"\b(?P<at>function)\s*\((?P<x>[^()]*)\)(?P<e>)", "a function has a name here", "write `({x}) -> ...`"),
    ForeignForm(START + r"(?P<at>mutable\s+struct|struct|abstract\s+type|primitive\s+type|class|interface|enum|typedef)\b.*", NO_TYPES, "keep the parts in variables or in a tuple"),
    ForeignForm(START + r"(?P<at>module|baremodule|namespace|package)\s+\w.*", "a file is no module: all of its names are its own", "take the line and its `end` out"),
    ForeignForm(START + r"(?P<at>macro)\s+\w+\(.*", "there are no macros of one's own", "write a function"),
    ForeignForm(START + r"(?P<at>const|var|val|auto|global|local|nonlocal|final|public|static)\s+(?P<x>\w+\s*=[^=].*?(?=\s*$))", "variables are not declared: they begin with their value", "write `{x}`"),
    ForeignForm(START + r"(?P<at>int|float|double|bool|long|char|integer|real)\s+(?P<x>\w+\s*=[^=].*?(?=\s*;?\s*$))", "variables are not declared: they begin with their value", "write `{x}`"),
    ForeignForm(START + r"(?P<at>const|var|val|auto|global|local|nonlocal|int|float|double)\s+\w+.*", "variables are not declared: they begin with their value", "take the line out"),
    ForeignForm(START + r"(?P<at>el(?:se)?\s*if|elsif)\b(?<!elseif)\s*(?P<x>.*?)(?=\s*:?\s*$)", "`{at}` is no word of the language", "it is written `elseif`"),
    ForeignForm(START + r"(?P<at>try|except|finally)\s*:.*", "`{at}:` is no statement", "write `try` and `catch` without the colon, and `end` after them"),
    ForeignForm(START + r"(?P<at>except)\b.*", "`except` is no word of the language", "it is written `catch`"),
    ForeignForm(START + r"(?P<at>raise|throw)\b.*", "`{at}` is no word of the language", 'write `error("what is wrong")`'),
    ForeignForm(START + r"(?P<at>assert)\s+(?P<x>[^,\s][^,]*?)(?=\s*(?:,.*)?$)", "`assert` is a macro here", "write `@assert {x}`"),
    ForeignForm(START + r"(?P<at>pass)\s*$", "`pass` is no word of the language", "a body may be empty: take it out"),
    ForeignForm(START + r"(?P<at>del|delete|free)\s+\w+.*", "a name cannot be taken back", "take the line out, or bind the name to `nothing`"),
    ForeignForm(START + r"(?P<at>with)\s+\w.*", "`with` is no word of the language", "files are read and written at once, by `fread` and `fwrite`"),
    ForeignForm(START + r"(?P<at>print|puts|echo|disp|say)\s+(?P<x>[^=\s(].*?)(?=\s*$)", "a function is called with `(` and `)`", "write `println({x})`"),
    ForeignForm(START + r"(?P<at>switch|match|case|select)\s+\w.*", "`{at}` is no word of the language", "write `if` and `elseif`"),
    ForeignForm(START + r"(?P<at>until|unless|loop|repeat|do|foreach|forall)\b\s*(?:\w.*)?$", "`{at}` is no word of the language", "loops are `for` and `while`"),
    ForeignForm(START + r"(?P<at>end\s*(?:if|for|while|function)|fi|done|esac|endif|endfor|endwhile|endfunction)\b.*", "blocks end in `end` alone", "it is written `end`"),
    ForeignForm(START + r"(?:for|while|if|elseif)\b.*\s(?P<at>do|then)\s*$", "`{at}` is no word of the language", "take it out: the line ends the head"),
    ForeignForm(START + r"for\s*\(.*;.*;.*\).*", "a `for` runs over a range", "write `for i = 1:n ... end`"),
    ForeignForm(START + r"(?:(?:for|while|if|elseif|function)\b.*[\w)\]]|else)\s*(?P<at>\{)(?!.*\}\s*\().*", "blocks are not in braces", "a block ends in `end`: take the braces out"),
    ForeignForm(START + r"(?:@finch\s+)?(?:if|for|while|elseif|else|begin|let|function|elif)\b[^?]*(?P<at>:)\s*$", "a line end begins the block, not a `:`", "take the `:` out, and end the block by `end`"),
    ForeignForm(START + r"(?P<at>\})\s*(?:else\b.*)?$", "blocks are not in braces", "a block ends in `end`"),
    # ------------------------------------------------ operators and literals
    ForeignForm(r"(?<!\w)(?P<a>[\w.()\[\]]+)\s*(?P<at>\*\*)\s*(?P<b>[\w.(\[][\w.()\[\]]*)", "`**` is no operator", "a power is written `{a} ^ {b}`"),
    ForeignForm(r"\*\*", "`**` is no operator", "a power is written `^`"),
    ForeignForm(START + r"(?P<at>//|--|%)(?!=).*", "`{at}` begins no comment", "a comment is written `# ...`"),
    ForeignForm(r"(?P<at>/\*).*", "`/*` begins no comment", "a comment is written `# ...`, or `#= ... =#`"),
    ForeignForm(r"(?<!\w)(?P<a>[\w.()\[\]]+)\s*(?P<at>//)=?\s*(?P<b>\d[\d_]*|[A-Za-z_]\w*)\s*(?:$|[-+*/,;)\]])", "`//` is no operator: there are no rational numbers", "integer division is written `{a} ÷ {b}`"),
    ForeignForm(r"//.*", "`//` is no operator, and begins no comment", "integer division is written `÷`, a comment `# ...`"),
    ForeignForm(r"(?P<at>[=!]==|(?:≡|≢|<>|=/=|~=)(?!=)|\bis\s+not\b|\bis\b)", "`{at}` is no operator", "equality is written `==`, and `!=` what is not equal"),
    ForeignForm(r"(?P<at>\bnot\s+in\b)", "`not in` is no operator", "write `!(x in v)`"),
    ForeignForm(r"(?P<at>\bnot)\b\s*\(?", "`not` is no operator", "it is written `!`"),
    ForeignForm(r"\band\b", "`and` stands between two conditions in other languages", "it is written `&&`"),
    ForeignForm(r"\bor\b", "`or` stands between two conditions in other languages", "it is written `||`"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>\+\+)(?=\s*(?:$|[;)\]]))", "`++` is no operator", "write `{x} += 1`"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>--)(?=\s*(?:$|[;)\]]))", "`--` is no operator", "write `{x} -= 1`"),
    ForeignForm(START + r"(?P<x>\w+)\s*(?P<at><-)\s*(?P<e>.*?)(?=\s*$)", "`<-` is no assignment", "write `{x} = {e}`"),
    ForeignForm(r"(?:^|;)\s*(?P<x>\w+\s*=\s*)(?P<a>[^=;][^;]*?)\s+(?P<at>if)\s+(?P<c>[^;]+?)\s+else\s+(?P<b>[^;]+?)(?=\s*(?:;|$))", "a choice is not written with `if` and `else` in a line", "write `{x}{c} ? {a} : {b}`"),
    ForeignForm(r"=\s*(?P<at>if)\b.*", "an `if` has no value", "a choice is written `c ? a : b`"),
    ForeignForm(r"(?P<at>\blambda)\s+(?P<x>\w+(?:\s*,\s*\w+)*)\s*:\s*(?P<e>[^,]*[^,)\s])", "`lambda` is no word of the language", LAMBDA),
    ForeignForm(r"\((?P<x>\w+(?:\s*,\s*\w+)*)\)\s*(?P<at>=>)\s*(?P<e>[^,]*[^,)\s])", "`=>` makes a pair, not a function", LAMBDA),
    ForeignForm(r"\{\s*\}|\{[^{}:]*:[^{}]*\}?", "there are no dictionaries in braces", "write `Dict(\"a\" => 1, \"b\" => 2)`"),
    ForeignForm(r"\bDict(?P<at>\{[^{}]*\})", "a dictionary takes keys and values of any kind", "take the braces out: `Dict()`"),
    ForeignForm(r"\b(?:Vector|Array|Matrix)(?P<at>\{(?P<x>\w+)\})\(\s*\)", "there is no such constructor", "an empty vector that grows is written `{x}[]`"),
    ForeignForm(r"(?<!\w)\{[^{}]*\}?", "there are no sets: braces follow a level's name only", "an array is written `[1, 2]`, a tuple `(1, 2)`"),
    ForeignForm(r"(?P<at>\b[bfr]|raw|\$|@)(?P<x>\"[^\"]*\")", "strings have no letter before them", "a string is written {x}, and may hold `$name` and `$(name + 1)`"),
    ForeignForm(r'"""', "strings are closed by one quote, and may go over lines", 'a string is written `"text"`'),
    ForeignForm(r"(?<![\w)\]}'])'(?P<x>[^'\"]*)'", "text is not written in single quotes", 'write `"{x}"`'),
    ForeignForm(r"`[^`]*`?", "there are no commands of the shell", 'a string is written `"text"`'),
    ForeignForm(r"(?<![\w)\]}:]):(?P<x>[A-Za-z_]\w*)", "there are no symbols", 'write `"{x}"`'),
    ForeignForm(r"(?P<at>\b\d+)!", "`!` stands before a condition", "the factorial is a loop"),
    # ------------------------------------------------ members, methods, packages, broadcasting
    ForeignForm(r"\b(?P<at>np|numpy|torch|jnp|math|scipy|sp|sparse|plt|Math|Finch|Base|LinearAlgebra|SparseArrays)\.(?P<f>\w+)", "there are no packages", "functions stand alone, as `{f}` would"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>\.shape|\.size)\b(?!\()", NO_ATTRIBUTES, "write `size({x})`"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>\.ndim)\b", NO_ATTRIBUTES, "write `ndims({x})`"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>\.nnz)\b", NO_ATTRIBUTES, "write `countstored({x})`"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>\.dtype)\b", NO_ATTRIBUTES, "write `eltype({x})`"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>\.T\b|\.transpose\(\))", NO_ATTRIBUTES, "write `{x}'`"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>\.(?P<f>sum|all|any|copy|reshape|flatten|repeat|length|max|min|round))\((?P<e>[^()]*)\)", NO_METHODS, "write `{f}({x})`"),
    ForeignForm(r"(?P<x>\b[A-Za-z_]\w*)(?P<at>\.(?P<f>\w+)\()", NO_METHODS, "a call is written `f({x})`"),
    ForeignForm(r"\b[A-Za-z_]\w*(?P<at>\.[A-Za-z_]\w*)", NO_ATTRIBUTES, "`.*` and the like stand in `@array C = A .* B`"),
    ForeignForm(r"[\w)\]]\s(?P<at>@)\s+[\w(\[]", "`@` is no operator", "a product of matrices is written `A * B`"),
    ForeignForm(r"\[\s*(?P<at>:)\w|\[[^\[\]]*(?P<at2>:)\]", "a range has both ends", "write them, as in `x[1:end]`"),
    # ------------------------------------------------ macros
    ForeignForm(r"(?P<at>@(?:btime|benchmark|timeit|timed|allocated|profile))\b.*", "there is no `{at}`", "`@time` tells how long a statement takes"),
    ForeignForm(r"(?P<at>@(?:test|test_throws|testset|check))\b\s*(?P<x>.*?)(?=\s*$)", "there is no `{at}`", "`@assert` checks a condition"),
    ForeignForm(r"(?P<at>@(?:inbounds|simd|fastmath|turbo|inline|noinline|views|view|threads|async|spawn|static|njit|jit|numba))\b.*", "there is no `{at}`", "take it out: kernels are compiled, and their bounds checked once"),
    ForeignForm(r"(?P<at>@(?:tensor|tullio|ein|cast|reduce))\b\s*(?P<x>\w+\[.*?\])\s*(?::=|\+?=)\s*(?P<e>.*?)(?=\s*$)", "there is no `{at}`", "write `@einsum {x} += {e}`"),
    ForeignForm(r"@einsum\s+(?P<x>\w+\[.*?\])\s*(?P<at>:=)\s*(?P<e>.*?)(?=\s*$)", "`@einsum` makes its array anew with any assignment", "write `@einsum {x} += {e}`"),
    ForeignForm(r"(?P<at>@(?:finch_code|finch_kernel|code_\w+|macroexpand))\b.*", "there is no `{at}`", "the code of a kernel is shown by `finch residual FILE`, or `:residual` at the prompt"),
    ForeignForm(r"(?P<at>@(?:∀|forall|loop|tensor_loop))\s*(?P<x>\w*).*", "there is no `{at}`", "write `@finch for i = _ ... end`"),
    ForeignForm(r"(?P<at>@\.)\s*(?P<x>.*?)(?=\s*$)", "there is no `@.`", "write the dots in `@array C = A .* B`"),
    ForeignForm(r"(?P<at>@(?:printf|sprintf|info|warn|debug))\b.*", "there is no `{at}`", 'write `println("x = $x")`'),
    ForeignForm(r"\bfor\s+\w+\s*(?:in|=|∈)\s*(?P<at>range)\((?P<n>[^(),]*)\)", "a kernel loops over a range", "it is written `1:{n}`, or `_`, which tensors give"),
)
#: names of other languages, searched for at a name that is not known
NAMES = (
    ForeignForm(r"\bTrue\b", "`True` is not a name here", "write `true`"),
    ForeignForm(r"\bFalse\b", "`False` is not a name here", "write `false`"),
    ForeignForm(r"\b(?P<at>None|null|NULL|nil|undef|Nothing|void)\b", "`{at}` is not a name here", "write `nothing`"),
    ForeignForm(r"\b(?P<at>NA|NaT)\b", "`{at}` is not a name here", "write `missing`"),
    ForeignForm(r"\b(?P<at>inf|infinity|Infinity|INFINITY)\b", "`{at}` is not a name here", "write `Inf`"),
    ForeignForm(r"\bnan\b", "`nan` is not a name here", "write `NaN`"),
    ForeignForm(r"\b(?P<at>sum|prod|maximum|minimum|mean)\b(?=\()", "`{at}` is no operator of kernels", "loops reduce: a sum is `s[] += x[i]`, a maximum `s[] <<max>>= x[i]`"),
    ForeignForm(r"\b(?P<at>println|print|length|zeros|string)\b(?=\()", "`{at}` is a function of scripts, and no operator of kernels", "call it before or after the kernel"),
    ForeignForm(r"\b(?P<at>len|numel|nrow)\b(?=\()", "`{at}` is not a function here", "it is written `length`"),
    ForeignForm(r"\b(?P<at>printf|sprintf|fprintf|echo|disp|cout)\b", "`{at}` is not a function here", "it is written `println`, with `$x` for values in a string"),
    ForeignForm(r"\b(?P<at>str|repr|to_string|toString)\b(?=\()", "`{at}` is not a function here", "it is written `string`"),
    ForeignForm(r"\b(?P<at>int|long)\b(?=\()", "`{at}` is not a function here", "it is written `Int(x)`, or `parse(Int, text)`"),
    ForeignForm(r"\b(?P<at>float|double)\b(?=\()", "`{at}` is not a function here", "it is written `Float64(x)`, or `parse(Float64, text)`"),
    ForeignForm(r"\bbool\b(?=\()", "`bool` is not a function here", "write a comparison, as in `x != 0`"),
    ForeignForm(r"\b(?P<at>amax|np_max|nanmax)\b(?=\()", "`{at}` is not a function here", "it is written `maximum`"),
    ForeignForm(r"\b(?P<at>type|class)\b(?=\()", "`{at}` is not a function here", "it is written `typeof`"),
    ForeignForm(r"\b(?P<at>fabs)\b(?=\()", "`{at}` is not a function here", "it is written `abs`"),
    ForeignForm(r"\b(?P<at>power|pow)\b(?=\()", "`{at}` is not a function here", "a power is written `x ^ y`"),
    ForeignForm(r"\b(?P<at>isna|isnull)\b(?=\()", "`{at}` is not a function here", "it is written `ismissing`, or `isnothing`"),
    ForeignForm(r"\b(?P<at>Array|Vector|Matrix|SparseMatrixCSC|SparseVector|csc_matrix|csr_matrix|coo_matrix)\b", "`{at}` is not a name here", "tensors are made by `Tensor(Dense(SparseList(Element(0.0))), 3, 3)`, arrays by `zeros(3, 3)`"),
    ForeignForm(r"\b(?P<at>sprand|sprandn)\b", "`{at}` is not a function here", "it is written `fsprand`"),
    ForeignForm(r"\b(?P<at>randn|randint)\b", "`{at}` is not a function here", "it is written `rand`"),
    ForeignForm(r"\b(?P<at>eye|speye)\b", "`{at}` is not a function here", "`DiagMask()` is one in kernels"),
)
# fmt: on
#: longer lines were not written by a person, and would take long to search
LONGEST = 1000
_COMMENT_OR_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|#(?!include\b)[^\n]*')

_Found = tuple[Span, ForeignForm, dict[str, str]]


def explained(error: FinchError) -> FinchError:
    """The error in the words of the row that matches at its place; the error itself if there is none."""
    span = error.span
    if span is None or error.kind not in ("syntax", "unknown name"):
        return error
    is_syntax = error.kind == "syntax"
    found = _form_at(span.source, span.line, span.column - 1, is_syntax)
    if is_syntax:  # the cause of something unclosed may be at the end of the text
        for line in (span.line, span.source.text.count("\n") + 2):
            found = found or _form_before(span.source, line)
    if found is None:
        return error
    culprit, form, parts = found
    way = form.way and form.way.format(**parts)
    return FinchError(error.kind, form.reason.format(**parts), culprit, way)


def _form_at(source: Source, number: int, at: int, is_syntax: bool) -> _Found | None:
    """The first row that matches around position `at` (from 0), for a syntax error also right before it."""
    line = source.line(number)
    if len(line) > LONGEST:
        return None
    code = _COMMENT_OR_STRING.sub(_blank, line)
    for form in FORMS if is_syntax else (*FORMS, *NAMES):
        for found in _compiled(form.pattern).finditer(code):
            if not found.start() <= at < found.end() + is_syntax:
                continue
            named = {k: found.span(k) for k, part in found.groupdict().items() if part is not None}
            parts = {k: line[start:stop] for k, (start, stop) in named.items()}
            start, stop = named.get("at", named.get("at2", found.span()))
            return Span(source, number, start + 1, number, stop + 1), form, parts
    return None


def _form_before(source: Source, line: int) -> _Found | None:
    """The first row that matches at the end of the last line with code before `line`."""
    for number in range(line - 1, max(line - 5, 0), -1):
        code = _COMMENT_OR_STRING.sub(_blank, source.line(number)).rstrip()
        if code:
            return _form_at(source, number, len(code), True)
    return None


#: compiled only once there is an error; `re` would not keep this many
_compiled = cache(re.compile)


def _blank(found: re.Match[str]) -> str:
    """A comment as blanks, a string as its quotes with `_` between them."""
    whole = found[0]
    return " " * len(whole) if whole[0] == "#" else f'"{"_" * len(found[1])}"'
