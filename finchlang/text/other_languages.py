"""What other languages write and ours does not: one table of pattern, reason, our way and its code."""

from __future__ import annotations

from typing import NamedTuple

from finchlang.text.build_script import PACKAGES


class ForeignForm(NamedTuple):
    """A form of another language. `pattern` is searched in a line of code in which strings and comments are
    blanked; the error is placed at its group `at`, or at all of it. `reason`, `way` (the hint) and `code` may
    refer to groups in braces. `code` is what stands in place of `at`: the row is left out where that does
    not parse. `{code}` in the hint is this code. `only` says where the row holds: in a "script" or "kernel"."""

    pattern: str
    reason: str
    way: str | None = None
    code: str | None = None
    only: str = ""


FUNCTION = "write `function {f}({x}) ... end`"
LAMBDA = "write `({x}) -> {e}`"
NO_PACKAGES = "there are no packages: all names are built in"
NO_TYPES = "a program cannot define types"
NO_ATTRIBUTES = "there is no member access"
NO_METHODS = "there are no methods: a function stands before its arguments"
START = r"^\s*"
REST = r".*?(?=\s*$)"

# fmt: off
#: The first row whose pattern matches at an error explains it. A form that we accept has no row.
FORMS = (
    # ------------------------------------------------ words that begin a statement
    ForeignForm(START + r"(?P<at>(?P<w>julia>|finch>|>>>|\.\.\.(?=\s))\s*)" + REST, "`{w}` is a prompt, and no part of the program", "take it out", ""),
    ForeignForm(START + r"(?P<at>using|import)\s+Finch\s*[.:]" + REST, "names of Finch need not be imported", "take the line out"),
    ForeignForm(START + rf"(?P<at>using(?!\s+(?:{'|'.join(sorted(PACKAGES))})\s*(?:,|$))|import|from|library|require|export)\b\s*\w" + REST, NO_PACKAGES, "take the line out; the text of another file is read by `include`"),
    ForeignForm(START + r"(?P<at>#include|include)\s*<.*", NO_PACKAGES, "take the line out"),
    ForeignForm(START + r"(?P<at>(?P<w>def|fn|func|fun)\s+(?P<f>\w+)\s*\((?P<x>[^():*]*)\)\s*(?::\s*return\b|=>)\s*(?P<e>.*?))(?=\s*$)", "`{w}` is not a word of the language", "write `{code}`", "{f}({x}) = {e}"),
    ForeignForm(START + r"(?P<at>async\s+def|def|fn|func|fun|proc|sub)\s+(?P<f>\w+)\s*\((?P<x>[^():*]*)\).*", "`{at}` is not a word of the language", FUNCTION),
    ForeignForm(START + r"function\s+(?P<at>\[?(?P<y>\w+)\]?\s*=\s*(?P<f>\w+\([^()]*\)))", "a function gives back its last value, or that of `return`", "write `{code}`, and `return {y}` before its `end`", "{f}"),
    ForeignForm(START + r"(?P<at>async\s+def|def|fn|func|fun|proc|sub)\s+\w.*", "`{at}` is not a word of the language", "write `function f(x) ... end`"),
    ForeignForm(START + r"\w+\(.*\)\s*(?P<at>where\s[^=]*[^=\s])\s*=", "a function has no type parameters", "take `{at}` out"),
    ForeignForm(START + r"function\s+\w+\(.*\)\s*(?P<at>where\b.*)", "a function has no type parameters", "take `{at}` out"),
    ForeignForm(r"\b(?P<at>function)\s*\((?P<x>[^()]*)\)(?P<e>)", "a function has a name here", "write `({x}) -> ...`"),
    ForeignForm(START + r"(?P<at>mutable\s+struct|struct|abstract\s+type|primitive\s+type|class|interface|enum|typedef)\b.*", NO_TYPES, "keep the parts in variables or in a tuple"),
    ForeignForm(START + r"(?P<at>module|baremodule|namespace|package)\s+\w.*", "a file is no module: all of its names are its own", "take the line and its `end` out"),
    ForeignForm(START + r"(?P<at>macro)\s+\w+\(.*", "a program cannot define macros", "write a function"),
    ForeignForm(START + r"(?P<at>(?:const|var|val|auto|global|local|nonlocal|final|public|static)\s+(?P<x>\w+\s*=[^=].*?)(?=\s*$))", "variables are not declared: they begin with their value", "write `{code}`", "{x}"),
    ForeignForm(START + r"(?P<at>(?:int|float|double|bool|long|char|integer|real)\s+(?P<x>\w+\s*=[^=].*?)(?=\s*;?\s*$))", "variables are not declared: they begin with their value", "write `{code}`", "{x}"),
    ForeignForm(START + r"(?P<at>const|var|val|auto|global|local|nonlocal|int|float|double)\s+\w+.*", "variables are not declared: they begin with their value", "take the line out"),
    ForeignForm(START + r"(?P<at>el(?:se)?\s*if|elsif)\b(?<!elseif)\s*\w*", "`{at}` is not a word of the language", "it is written `elseif`", "elseif"),
    ForeignForm(START + r"(?P<at>try|except|finally)\s*:.*", "`{at}:` is no statement", "leave the colon out: `try`, `catch`, and `end` after them"),
    ForeignForm(START + r"(?P<at>except)\b.*", "`except` is not a word of the language", "it is written `catch`"),
    ForeignForm(START + r"(?P<at>raise|throw)\b.*", "`{at}` is not a word of the language", 'write `error("what is wrong")`'),
    ForeignForm(START + r"(?P<at>assert)\b\s*", "`assert` is a macro here", "it is written `@assert`", "@assert"),
    ForeignForm(START + r"(?P<at>pass)\s*$", "`pass` is not a word of the language", "a body may be empty: take it out"),
    ForeignForm(START + r"(?P<at>del|delete|free)\s+\w+.*", "a name cannot be taken back", "take the line out, or bind the name to `nothing`"),
    ForeignForm(START + r"(?P<at>with)\s+\w.*", "`with` is not a word of the language", "files are read and written at once, by `fread` and `fwrite`"),
    ForeignForm(START + r"(?P<at>(?:print|puts|echo|disp|say)\s+(?P<x>[^=\s(].*?))(?=\s*$)", "a function is called with `(` and `)`", "write `{code}`", "println({x})"),
    ForeignForm(START + r"(?P<at>switch|match|case|select)\s+\w.*", "`{at}` is not a word of the language", "it is chosen by `if` and `elseif`"),
    ForeignForm(START + r"(?P<at>until|unless|loop|repeat|do|foreach|forall)\b\s*(?:\w.*)?$", "`{at}` is not a word of the language", "loops are `for` and `while`"),
    ForeignForm(START + r"(?P<at>end\s*(?:if|for|while|function|do)|fi|done|esac|endif|endfor|endwhile|endfunction)\b", "blocks end in `end` alone", "it is written `end`", "end"),
    ForeignForm(START + r"(?:@finch\s+)?(?:for|while|if|elseif)\b.*?(?P<at>\s+(?:do|then))\b", "a head ends with its line or a `;`", "take the word out", ";"),
    ForeignForm(START + r"for\s*\(.*;.*;.*\).*", "a `for` runs over a range", "write `for i = 1:n ... end`"),
    ForeignForm(START + r"(?:@finch\s+)?(?:(?:for|while|if|elseif|function)\b.*[\w)\]]|else)\s*(?P<at>\{)(?!.*\}\s*\().*", "blocks are not in braces", "a block ends in `end`: take the braces out"),
    ForeignForm(START + r"(?:@finch\s+)?(?:if|for|while|elseif|else|begin|let|function|elif)\b[^?]*(?P<at>:)\s*$", "a line end begins the block, not a `:`", "take the `:` out", ""),
    ForeignForm(START + r"(?:@finch\s+)?(?:if|for|while|elseif|else|begin|let|function|elif)\b[^?]*(?P<at>:)\s*$", "a line end begins the block, not a `:`", "take the `:` out, and end the block by `end`"),
    ForeignForm(r"\b(?:for|while|if)\b[^?;]*?(?P<at>:)\s[^;]*", "a line end or `;` begins the block, not a `:`", "write `;`", ";"),
    ForeignForm(START + r"(?P<at>\})\s*(?:else\b.*)?$", "blocks are not in braces", "a block ends in `end`"),
    # ------------------------------------------------ heads of loops
    ForeignForm(r"\bfor\s+(?P<at>\(?(?P<a>\w+)\s*,\s*(?P<b>\w+)\)?\s*(?:(?:=|in\b|∈)\s*(?:_|:)\s*(?:,\s*(?:_|:))?)?)(?=\s*(?:;|$))", "each loop has its own extent", "write `{code}`", "{a} = _, {b} = _", "kernel"),
    ForeignForm(r"\bfor\s+(?P<at>(?P<a>\w+))\s*(?=;|$)", "a loop has an extent", "write `{code}`", "{a} = _", "kernel"),
    ForeignForm(r"\bfor\s+(?P<at>(?P<a>\w+(?:\s*,\s*\w+)+))\s*(?:=|in\b|∈)\s*[^_\s]", "several names for an entry stand in parentheses", "write `{code}`", "({a})", "script"),
    ForeignForm(r"\bfor\b[^;]*?(?:=|in\b|∈)\s*(?:_|[\w.:()\[\]]+)(?P<at>\s+)(?=\w+\s*(?:=(?!=)|in\b|∈))[^;]*", "the loops of one `for` have commas between them", "write a comma", ", "),
    ForeignForm(r"\bfor\b[^;]*=\s*(?:_|[\w.:()\[\]]+)\s*(?P<at>;)\s*\w+\s*=\s*_", "the loops of one `for` have commas between them", "write `,`", ",", "kernel"),
    ForeignForm(r"\bfor\b[^;]*?(?:=|in\b|∈)\s*(?P<at>:)\s*(?=[;,]|$)", "all of a dimension is written `_`", "write `_`", "_", "kernel"),
    ForeignForm(r"\bfor\b[^;]*?(?:=|in\b|∈)\s*(?P<at>1\s*:\s*end)\b", "all of a dimension is written `_`", "write `_`", "_", "kernel"),
    ForeignForm(r"(?P<at>parallel\(\s*(?P<e>[^()]*?)\s*\))", "there are no parallel loops", "write `{code}`", "{e}", "kernel"),
    ForeignForm(r"@finch\s+(?P<at>parallel\s+)for\b", "there are no parallel loops", "take the word out", "", "kernel"),
    ForeignForm(START + r"(?P<at>finch)\s+(?:for|begin|\w+\[)", "a kernel begins with `@finch`", "write `@finch`", "@finch"),
    ForeignForm(START + r"(?P<at>let\s+)\w+\s*=[^;]*$", "a `let` has a body and its `end`", "an assignment has no word before it: take the `let` out", "", "script"),
    ForeignForm(r"(?:^|;|\bfor\b[^;]*;)\s*(?P<at>(?P<c>[^;&|]+?)\s*&&\s*\(?(?P<s>[^()=!<>]+(?:[-+*/&|]|<<\w+>>)?=[^=][^;]*?)\)?)(?=\s*(?:$|;|end\b))", "a statement that is done on a condition is written with `if`", "write `{code}`", "if {c}; {s} end", "kernel"),
    ForeignForm(r"(?:^|;)\s*(?P<at>(?P<s>[^;=!<>]*?[^;=!<>]=[^=;][^;]*?)\s+if\s+(?P<c>(?:(?!\belse\b)[^;])+?))(?=\s*(?:$|;))", "a statement that is done on a condition is written with `if`", "write `{code}`", "if {c}; {s} end"),
    ForeignForm(r"\?[^:;]*?(?P<at>\belse\b)", "the two values of a choice have a `:` between them", "write `:`", ":"),
    ForeignForm(r"(?<=[\w)\]])\[[^\[\]]*(?P<at>;)", "indices have commas between them", "write `,`", ","),
    ForeignForm(r"\b(?P<at>(?P<x>[A-Za-z_]\w*)\((?P<i>(?:[^()]*,)?\s*:\s*(?:,[^()]*)?)\))", "a part of an array is written with brackets", "write `{code}`", "{x}[{i}]"),
    ForeignForm(r"\b(?P<at>(?P<n>Dense|Sparse\w*|RunList|\w*Element|Scalar)\{(?P<e>[^{}]*\([^{}]*)\})(?!\()", "the level below stands in parentheses", "write `{code}`", "{n}({e})"),
    ForeignForm(r"\bprint\([^()]*(?P<at>,\s*end\s*=\s*\"_*\")", "`print` adds no line end", "leave `end=` out", ""),
    ForeignForm(r"=\s*(?P<at>@einsum)\s+[^=]*(?=$|;)", "`@einsum` names the result with its indices", "write `@einsum y[i] += A[i, j] * x[j]`"),
    ForeignForm(r"(?P<at>0\s*:\s*(?:length|len|numel)\(\s*(?P<x>\w+)\s*\)\s*-\s*1)\b", "indices count from 1, and `length` is a function of scripts", "write `{code}`, or `_` for all of the dimension", "1:size({x}, 1)", "kernel"),
    ForeignForm(r"(?P<at>range\(\s*(?:len|length)\(\s*(?P<x>\w+)\s*\)\s*\))", "indices count from 1", "write `{code}`", "1:size({x}, 1)"),
    # ------------------------------------------------ operators and literals
    ForeignForm(r"(?P<at>\*\*)=", "`**=` is no assignment", "write `<<^>>`", "<<^>>", "kernel"),
    ForeignForm(r"\*\*", "`**` is no operator", "a power is written `^`", "^", "kernel"),
    ForeignForm(r"(?<![\w.)\]])\d[\d.]*\s*(?P<at>\*\*)", "`**` is no operator", "a power is written `^`", "^"),
    ForeignForm(r"(?P<at>\s*\*\*)(?!=)", "`**` is no operator", "a power is written `.^` of an array and of numbers, or `^` of numbers", " .^"),
    ForeignForm(r"\*\*", "`**` is no operator", "a power is written `^`"),
    ForeignForm(START + r"(?P<at>//|--|%)(?!=).*", "`{at}` begins no comment", "a comment begins with `#`", "#"),
    ForeignForm(r"[\w)\]\"]\s*(?P<at>%)\s+\w+\s+\w.*", "`%` begins no comment", "a comment begins with `#`", "#"),
    ForeignForm(r"[\w)\]\"]\s*%\s*(?P<at>[A-Za-z]\w*)\s*$", "`{at}` is not defined, and `%` is the remainder", "a comment begins with `#`"),
    ForeignForm(r"(?P<at>/\*).*", "`/*` begins no comment", "a comment is written `# ...`, or `#= ... =#`"),
    ForeignForm(r"(?<=[\w)\]])\s*(?P<at>//)(?=\s*[\w(])", "`//` is no operator: there are no rational numbers", "integer division is written `÷`, which cuts off; `fld(a, b)` rounds down", "÷", "kernel"),
    ForeignForm(r"(?<![\w.)\]])\d+\s*(?P<at>//)(?=\s*[\w(])", "`//` is no operator: there are no rational numbers", "integer division is written `÷`, which cuts off; `fld(a, b)` rounds down", "÷"),
    ForeignForm(r"(?<=[\w)\]])(?P<at>\s*//)(?=\s*[\w(])", "`//` is no operator: there are no rational numbers", "integer division is written `.÷` of an array and of numbers, or `÷` of numbers", " .÷"),
    ForeignForm(r"//.*", "`//` is no operator, and begins no comment", "integer division is written `÷`, a comment `# ...`"),
    ForeignForm(r"(?P<at>!==|(?:≢|<>|=/=|~=)(?!=)|\bis\s+not\b)", "`{at}` is no operator", "it is written `!=`", "!="),
    ForeignForm(r"(?P<at>===|≡|\bis\b)", "`{at}` is no operator", "equality is written `==`", "=="),
    ForeignForm(r"(?P<at>\bnot\s+in\b)", "`not in` is no operator", "write `!(x in v)`"),
    ForeignForm(r"(?P<at>\bnot\s*)(?=\()", "`not` is no operator", "it is written `!`", "!"),
    ForeignForm(r"(?P<at>\bnot\s+(?P<e>[\w.]+(?:\([^()]*\)|\[[^\[\]]*\])?))\s*(?:$|[;),\]:]|and\b|or\b|&&|\|\|)", "`not` is no operator", "write `{code}`", "!{e}"),
    ForeignForm(r"(?P<at>\bnot\s+(?P<e>(?:(?!\sand\b|\sor\b|&&|\|\||[;:]).)+?))(?=\s*(?:$|[;:]|and\b|or\b|&&|\|\|))", "`not` is no operator", "write `{code}`", "!({e})"),
    ForeignForm(r"(?P<at>\bnot)\b", "`not` is no operator", "it is written `!`"),
    ForeignForm(r"\band\b", "`and` stands between two conditions in other languages", "it is written `&&`", "&&"),
    ForeignForm(r"\bor\b", "`or` stands between two conditions in other languages", "it is written `||`", "||"),
    ForeignForm(r"(?P<at>(?P<x>\b[A-Za-z_]\w*(?:\[[^\[\]]*\])?)\+\+)(?=\s*(?:$|[;)\]]|end\b))", "`++` is no operator", "write `{code}`", "{x} += 1"),
    ForeignForm(r"(?P<at>(?P<x>\b[A-Za-z_]\w*(?:\[[^\[\]]*\])?)--)(?=\s*(?:$|[;)\]]|end\b))", "`--` is no operator", "write `{code}`", "{x} -= 1"),
    ForeignForm(START + r"\w+\s*(?P<at><-)", "`<-` is no assignment", "it is written `=`", "="),
    ForeignForm(r"=\s*(?P<at>if)\b.*", "an `if` has no value", "a choice is written `c ? a : b`"),
    ForeignForm(r"(?P<at>\blambda\s+(?P<x>\w+(?:\s*,\s*\w+)*)\s*:\s*(?P<e>[^,()]*(?:\([^()]*\)[^,()]*)*)(?<![\s,(]))", "`lambda` is not a word of the language", "write `{code}`", "({x}) -> {e}"),
    ForeignForm(r"(?:\(\w+(?:\s*,\s*\w+)*\)|(?<=[=(,])\s*\w+)\s*(?P<at>=>)", "`=>` makes a pair, not a function", "write `->`", "->"),
    ForeignForm(r"(?P<at>@(?P<x>\(\w*(?:\s*,\s*\w+)*\)))", "a function without a name is written with `->`", "write `{code}`", "{x} ->"),
    ForeignForm(r"(?P<at>\b(?P<x>[a-z]\w*|[A-Z]\d*)\{(?P<i>\w+(?:\s*,\s*\w+)*)\})(?:\s*[-+*/]?=)?", "an index stands in brackets", "write `{code}`", "{x}[{i}]"),
    ForeignForm(r"(?P<at>(?P<x>[A-Za-z_]\w*)\[\s*:\s*,\s*(?:None|(?:np\.)?newaxis)\s*\])", "a vector is a column already", "write `{code}`, and its row as `{x}'`", "{x}"),
    ForeignForm(r"(?P<at>(?P<x>[A-Za-z_]\w*)\[\s*(?:None|(?:np\.)?newaxis)\s*,\s*:\s*\])", "a row is a transposed vector", "write `{code}`", "{x}'"),
    ForeignForm(r"\[[^\[\]]*(?P<at>\.\.\.)", "`...` is no index", "each dimension has its own, and `:` is all of one: `A[:, 1]`"),
    ForeignForm(r"[\w)\]](?P<at>\.')", "the sign of the transpose has no dot", "write `'`", "'"),
    ForeignForm(START + r"(?:if|while)\b[^;,]*(?P<at>,)\s*\w", "a line end or `;` begins the block", "write `;`", ";"),
    ForeignForm(r"(?P<at>,)\s*end\b", "a line end or `;` stands before `end`", "write `;`", ";"),
    ForeignForm(START + r"(?P<at>(?:\w+\s*,\s*)*\*\w+(?:\s*,\s*\w+)*)\s*=[^=]", "a star takes no rest of the values", "write `a, rest = v[1], v[2:end]`"),
    ForeignForm(r"@einsum\s+(?P<at>\"_*\").*", "`@einsum` has the indices at the arrays", "write `@einsum y[i] += A[i, j] * x[j]`"),
    ForeignForm(r"@einsum\s+\w+\[[^\[\]]*\]\s*(?P<at>\w+)", "`@einsum` has an assignment after its result", "write `+=`, `=` or `<<max>>=` before it"),
    ForeignForm(r"(?P<at>(?P<f>\w+)\.\((?P<x>[^()]*(?:\([^()]*\)[^()]*)*),\s*(?P<k>\w+\s*=\s*[^(),]+)\))", "a call with a dot takes no keywords", "write `{code}`", "map(v -> {f}(v, {k}), {x})"),
    ForeignForm(r"(?P<at>\b(?:Vector|Array|Matrix)\{(?P<t>\w+)(?:\s*,\s*\d)?\}\(\s*undef\s*,\s*(?P<n>[^()]*)\))", "arrays are made with their values", "write `{code}`", "zeros({t}, {n})"),
    ForeignForm(r"(?P<at>\b(?:Vector|Array|Matrix)\(\s*undef\s*,\s*(?P<n>[^()]*)\))", "arrays are made with their values", "write `{code}`", "zeros({n})"),
    ForeignForm(r"(?P<at>\b(?:Vector|Array|Matrix)\{(?P<t>\w+)(?:\s*,\s*\d)?\}\((?P<x>[A-Za-z_\[][^()]*)\))", "an array has the type of its entries", "write `{code}`", "{t}.({x})"),
    ForeignForm(r"(?P<at>\b(?:Vector|Array|Matrix)\{(?P<t>\w+)(?:\s*,\s*\d)?\}\((?P<x>\d[^()]*)\))", "arrays are made with their values", "write `{code}`", "zeros({t}, {x})"),
    ForeignForm(START + r"(?P<at>(?P<a>\w+)\s*=\s*(?P<b>\w+)\s*=\s*(?P<e>[^=;]+?))(?=\s*(?:$|;))", "one `=` assigns to one name", "write `{code}`", "{b} = {e}; {a} = {b}", "script"),
    ForeignForm(START + r"(?P<at>\w+(?:\[[^\[\]]*\])?\s*,\s*\w+(?:\[[^\[\]]*\])?(?=\s*=)).*", "each statement of a kernel assigns to one access", "write two statements, with a `;` or a line end between them", None, "kernel"),
    ForeignForm(r"=\s*\(\s*(?P<at>\w+\s*=[^=])", "the parts of a tuple have no names", "`Dict(\"a\" => 1, \"b\" => 2)` has values by names, `(1, 2)` by places", None, "script"),
    ForeignForm(r"\w+\[[^\[\]]*\](?P<at>\s*\.)[-+*/]=", "a kernel assigns element by element", "take the dot out", " ", "kernel"),
    ForeignForm(r"\bfor\b.*?=\s*(?P<at>reverse\((?P<e>[^()]*)\))", "the loops of a kernel run upwards", "write `{code}`", "{e}", "kernel"),
    ForeignForm(r"\"(?P<at>\s*\.\s*)[\"\w]", "strings are joined by `*`", "write `*`", " * "),
    ForeignForm(r"[\[(,]\s*(?P<at>@(?:elapsed|time|timed))\b.*", "a macro begins a statement or follows its `=`", "write `t = @elapsed f(x)` in a statement of its own"),
    ForeignForm(START + r"(?P<at>ifelse|if_else|where)\([^;]*?(?:[-+*/]|<<\w+>>)?=[^=].*", "a choice between statements is an `if`", "write `if c ... else ... end`", None, "kernel"),
    ForeignForm(r"(?P<at>\bin\(\s*(?P<x>[^,()]+?)\s*,\s*(?P<v>[^()]*?)\s*\))", "`in` stands between its operands", "write `{code}`", "({x} in {v})"),
    ForeignForm(r"\[\s*(?P<at>begin)\b", "`begin` begins a block", "the first entry is `x[1]`", "1"),
    ForeignForm(r"(?P<at>(?P<x>[\w.]+(?:\([^()]*\)|\[[^\[\]]*\])?)\s+isa\s+(?P<t>Number|Real|Array|Vector|Matrix|AbstractArray|AbstractVector|AbstractMatrix|String|Function|Tuple|Dict)\b)", "`isa` is no operator", "`ndims(x)` is 0 for a number, 1 for a vector and 2 for a matrix; `typeof(x) == Float64` compares the type of entries"),
    ForeignForm(r"(?P<at>(?P<x>[\w.]+(?:\([^()]*\)|\[[^\[\]]*\])?)\s+isa\s+(?P<t>\w+))", "`isa` is no operator", "write `{code}`", "typeof({x}) == {t}"),
    ForeignForm(r"(?P<at>\(\s*(?P<f>\w+)\s*∘\s*(?P<g>\w+)\s*\))", "there is no `∘`", "write `{code}`", "(x -> {f}({g}(x)))"),
    ForeignForm(r"(?P<at>(?P<f>\w+)\s*∘\s*(?P<g>\w+))", "there is no `∘`", "write `{code}`", "x -> {f}({g}(x))"),
    ForeignForm(r"(?P<at>(?P<x>\w+(?:\[[^\[\]]*\])?)\s*[⋅·]\s*(?P<y>\w+(?:\[[^\[\]]*\])?))", "`⋅` is no operator", "write `{code}`", "dot({x}, {y})", "script"),
    ForeignForm(r"(?P<at>(?P<x>\w+(?:\[[^\[\]]*\])?)\s*×\s*(?P<y>\w+(?:\[[^\[\]]*\])?))", "`×` is no operator", "write `{code}`", "cross({x}, {y})", "script"),
    ForeignForm(r"(?P<at>√\s*(?P<x>\w+(?:\[[^\[\]]*\])?|\([^()]*\)))", "`√` is no operator", "write `{code}`", "sqrt({x})"),
    ForeignForm(r"(?P<at>(?P<x>\w+)\s*[∪]\s*(?P<y>\w+))", "there are no sets", "write `{code}`", "unique(vcat({x}, {y}))", "script"),
    ForeignForm(r"(?P<at>(?P<x>\w+)\s*[∩]\s*(?P<y>\w+))", "there are no sets", "write `{code}`", "unique([a for a in {x} if a in {y}])", "script"),
    ForeignForm(r"\{\s*\}|\{[^{}:]*:[^{}]*\}?", "there are no dictionaries in braces", "write `Dict(\"a\" => 1, \"b\" => 2)`"),
    ForeignForm(r"\bDict(?P<at>\{[^{}]*\})", "a dictionary takes keys and values of any kind", "take the braces out", ""),
    ForeignForm(r"\b(?:Vector|Array|Matrix)(?P<at>\{(?P<x>\w+)\})\(\s*\)", "there is no such constructor", "an empty vector that grows is written `{x}[]`"),
    ForeignForm(r"(?<!\w)\{[^{}]*\}?", "there are no sets: braces follow a level's name only", "an array is written `[1, 2]`, a tuple `(1, 2)`, a block ends in `end`"),
    ForeignForm(r"(?P<at>(?:\b[bfr]|\braw|\$|@)\"[^\"]*\")", "strings have no letter before them", "a string is written \"x\", and may hold `$name` and `$(name + 1)`"),
    ForeignForm(r'"""', "strings are closed by one quote, and may go over lines", 'a string is written `"text"`'),
    ForeignForm(r"(?<![\w)\]}'])'(?P<x>[^'\"]*)'", "text is not written in single quotes", "write `{code}`", '"{x}"'),
    ForeignForm(r"`[^`]*`?", "there are no commands of the shell", 'a string is written `"text"`'),
    ForeignForm(r"(?<![\w)\]}:]):(?P<x>[A-Za-z_]\w*)", "there are no symbols", "write `{code}`", '"{x}"'),
    ForeignForm(r"(?P<at>\b\d+)!", "`!` stands before a condition", "the factorial is a loop"),
    # ------------------------------------------------ members, methods, packages, broadcasting
    ForeignForm(r"[\w)\]]\s(?P<at>@)\s+[\w(\[]", "`@` is no operator", "a product of matrices is written `*`", "*", "script"),
    ForeignForm(r"[\w)\]]\s(?P<at>@)\s+[\w(\[]", "`@` is no operator", "a product of matrices is written `@einsum C[i, j] += A[i, k] * B[k, j]`"),
    # ------------------------------------------------ macros
    ForeignForm(r"(?P<at>@(?:btime|benchmark|timeit|timed|allocated|profile))\b", "there is no `{at}`", "write `@time`", "@time"),
    ForeignForm(r"(?P<at>@(?:test|check))\b", "there is no `{at}`", "write `@assert`", "@assert"),
    ForeignForm(r"(?P<at>@(?:test_throws|testset))\b", "there is no `{at}`", "`@assert` checks a condition"),
    ForeignForm(r"(?P<at>@(?:inbounds|simd|fastmath|turbo|inline|noinline|views|view|threads|async|spawn|static|njit|jit|numba))\b\s*", "there is no `{at}`", "take it out: kernels are compiled, and their bounds checked once", ""),
    ForeignForm(r"(?P<at>@(?:fiber|f))\s*\(", "there is no `{at}`", "a tensor is made by `Tensor(Dense(SparseList(Element(0.0))), A)`"),
    ForeignForm(r"(?P<at>(?P<w>@(?:tensor|tullio|ein|cast|reduce))\b\s*(?P<x>\w+\[.*?\])\s*(?::=|\+?=)\s*(?P<e>.*?))(?=\s*$)", "there is no `{w}`", "write `{code}`", "@einsum {x} += {e}"),
    ForeignForm(r"@einsum\s+\w+\[.*?\]\s*(?P<at>:=)", "`@einsum` makes its array anew with any assignment", "write `+=`", "+="),
    ForeignForm(r"(?P<at>@(?:finch_code|finch_kernel|code_\w+|macroexpand))\b.*", "there is no `{at}`", "the code of a kernel is shown by `finch residual FILE`, or `:residual` at the prompt"),
    ForeignForm(r"(?P<at>@(?:∀|forall|loop|tensor_loop))\s*(?P<x>\w*).*", "there is no `{at}`", "write `@finch for i = _ ... end`"),
    ForeignForm(r"(?P<at>@\.)\s*(?P<x>.*?)(?=\s*$)", "there is no `@.`", "write the dots: `x .^ 2 .+ 1`, `sqrt.(x)`"),
    ForeignForm(r"(?P<at>@(?:printf|sprintf|info|warn|debug))\b.*", "there is no `{at}`", 'write `println("x = $x")`'),
    ForeignForm(r"\bfor\s+\w+\s*(?:in|=|∈)\s*(?P<at>(?P<a>\w+)\s*(?:\.\.+|\bto\b)\s*(?P<b>\w+))", "a range is written with `:`", "write `{code}`", "{a}:{b}"),
    ForeignForm(r"\bfor\s+\w+\s*=\s*(?P<at>(?P<a>-?\w+)\s*,\s*(?P<b>-?\w+))\s*(?:$|;)", "a range is written with `:`", "write `{code}`", "{a}:{b}"),
)
# fmt: on
