"""Statements of random scripts, as templates that `scripts.Writer` fills in.

`KINDS WEIGHT INDICES // LINE // LINE`: kinds of programs (f i b m; `+`: no mode is empty), a weight, and
indices: `i j k=i` (k has the dimension of i), `1-3` for their number, or `-`. In the lines there are
    {n} {n1}        a value, of depth 2 or 1         {b} {i} {l} {k} {z}  Bool, index, literal, 1 to 3, zero
    {A[ij]}         an input at indices              {C![ij]} {C![?]}     an output, at some indices
    {A[@i]}         at places that a vector has      {A:ij}               the name, over these indices
    @L1/L2 M        after indices: of these levels   .C ..C               a declaration, mostly or always
    {=} {r} {+}     a sign, one that reduces         {*}                  the product of the kind
    {?a|b}          one of them                      {/ba/fb}             the one for the kind
    $               a fresh number                   %C                   the name of C, wherever
    for over C      loops in an order for C          i = ?                an extent, found or said
A line that begins with `^` is put before the kernel.
"""

from __future__ import annotations

from finchlang.testing.grammar import forms

_ROW = r"\n(?! )"
#: templates within kernels
KERNELS = forms(
    """
fibm 8 0-4 // .C // for over C // {C![?]} {=} {n} // end
fibm 2 1-3 // .C // .D // for over C // {C![?]} {=} {n} // {D![?]} {=} {n1} // end
fibm 3 1-1 budget // .C // for over C // {C![?]} {=} {n3} // end
fibm 1.5 1-3 // .C // for over C // let u$ = {n1} // {C![?]} {=} {n} // end // end
f 1 1-3 // .C // for over C // {C![?]} = {R} // end
fibm 0.5 1-2 // .C // for over C // {C![?]} {=} {n} // end // @freeze(%C) // {?|@thaw(%C)}
fibm 1.5 i j k // .C // for j = ? // ..W // for k = ?, i = ? // {W![i]} {=} {n} // end // for i = _
    // {C![ij]} = {W[i]} // end // end
fibm 1.5 i j // .C // for j = ? // ..W // for i = ? // {W![]} {r} {n} // end // {C![j]} = {W[]} // end
fibm+ 1.5 i j // .C // for over C // {C![@i]} {r} {n} // end
fibm 1 1-2 // for over // {P} {=} {n} // end
fibm 0.7 1-2 // ^q$ = {?ShortCircuitScalar|SparseShortCircuitScalar}({/btrue/i1/f{z}/m{z}})
    // q$ .= {/btrue/i1/f{z}/m{z}} // .C // for over C
    // q$[] {/b<<&&>>=/i*=/f<<choose({z})>>=/m<<choose({z})>>=} {n1} // {?{C![?]} {=} {n1}|} // end
fi 0.4 1-2 // ^q$ = Scalar({/fInf/i100} => 0); t$ = Scalar(0.0) // q$ .= {/fInf/i100} => 0 // for over
    // q$[] <<minby>>= {/fFloat64/iInt64}({n1}) => i // end // t$ .= 0.0 // t$[] = {?first|last}(q$[])
fi 0.4 1-2 // ^q$ = Scalar({/f-Inf/i-100} => 0) // q$ .= {/f-Inf/i-100} => 0 // for over
    // q$[] <<maxby>>= {/fFloat64/iInt64}({n1}) => i // end
fibm 1 i j // .C
    // let T[x, y] = {?{A:ij}[x, y] {/b|/f+/i+/m+} {B:ij}[x, y]|ifelse(x <= y, {A:ij}[x, y], {B:ij}[x, y])}
    // for over C // {C![?]} {=} {?T|flip(T, 1)|roll(T, 2, 1)|protocolize(T, nothing, walk)}[i, j]
    // end // end
fibm 1.2 1-2 // .C // for over C // {C![?]} = {F} // end
fibm 0.7 1-2 // .C // for over C // {C![?]} = {S} // end
fibm 0.5 1-2 // .C // for over C // if @mode(%C) == {?update|read} // {C![?]} {=} {n} // end // end
fibm 0.8 i j k // ..C // for over // {C![?]@Workspace} {=} {n} // end // .D // for over D
    // {D![?]} {=} {n1} // end
fibm+ 0.6 i j // .C // for j = _, i = _ // {C![ij]@Dense SparseList} =
    {?slice({A:ij@Dense SparseList}, 2, 1:#j)|roll({A:ij@Dense SparseList}, 2, {k})}[i, j] // end
fibm 0.5 1-2 // .C // for over C // {C![?]} {=} {?ifelse({b}, {n1}, missing)|({b}) ? missing : {n1}} // end
""",
    _ROW,
)

#: templates with a tensor T of given levels, which is read (the first two), written, updated
WALKED = forms(
    """
fibm 1 - // .C // for over C // {C![?]} {=} {T[*]} // end
fibm 1 - // .C // for over C // {C![?]} {=} {T[*]} {*} {n1} // end
fibm 1 - // ..T // for over T // {T![*]} {=} {n} // end
fibm 1 - // for over T // {T![*]} {=} {n} // end
""",
    _ROW,
)

#: templates of scripts; {K} is one of KERNELS
SCRIPTS = forms(
    """
fibm 9 - // @finch begin // {K} // end
fibm 1 - // function go$(n) // k = 0 // while k < n // @finch begin // {K} // end // k += 1 // end
    // return k // end // r$ = go$(2)
fibm 0.5 - // for step = 1:2 // @finch begin // {K} // end // end
fibm+ 1 i j k // @einsum E$[{?|i|i, j|j, i|i, k, j}] {e} {A[ik]} {*} {B[kj]}{?| {*} {D[?]}}
fibm+ 0.7 i j // @einsum E$[{?i|j|i, j|j, i}] {e}
    {?max({A[ij]}, {B[?]})|{A[ij]} {*} {l}|ifelse({A[ij]} > {l}, {B[ij]}, {l})}
fibm 2 - // {O}
fibm+ 1.2 i j
    // @array X$ = {?{A:ij} {.} max({B:ij}, {D:i})|permutedims({A:ij} {.} {B:ij}, (2, 1))|transpose({A:ij})}
fim+ 0.6 i j // @array X$ = {?maximum|minimum}({A:ij} {.} {B:ij}; dims = {?1|2|(1, 2)})
fi+ 0.6 i j k // @array X$ =
    {?{A:ik} * {B:kj}|sum({A:ij} .* {B:ij}; dims = {?1|2})|sum({A:ij} .+ 1)|({A:ij} .> 1) ? {B:ij} : -1}
fi+ 0.4 i // @array X$ = {?any|all}({A:i} .> {l}; dims = 1)
fibm+ 0.5 i j // @array X$ = {?todense({A:ij})|{A:ij}[:, #j:-1:1]|{A:ij}[#i:#i, 1]}
fibm 1.5 i j k // @schedule
    {?reorder(k, i, j)|reorder(j, k, i)|fuse(i, j, f)|fuse(j, k, f), split(f, a, b, {k})|split(i, t, s, {k})
    |split(k, t, s, 2), reorder(t, j, s)}
    // @finch begin // ..C // for i = _, j = _, k = _
    // {C![ij]@Dense Dense/SparseList/SparseHash} {+} {A[ik]} {*} {B[kj]} // end // end
fi 0.7 i j k // @schedule precompute(%A[i, k] * %B[k, j], {?(i, j)|j}, W) // @finch begin // ..C
    // for i = _, k = _, j = _ // {C![ij]@Dense Dense/SparseList} += {A[ik]} * {B[kj]} // end // end
fi 0.8 i j // @schedule fuse(j, i, f), pos(f, p, %A[i, j]){?|, split(p, a, b, {k})} // @finch begin
    // ..C // for j = _, i = _ // {C![ij]@Dense Dense} += {A[ij]@Dense SparseList} * {B[i]} // end
    // end
fib+ 1 i j // @workspace %C policy={?coord|hash|bucket|flags} // @finch begin // ..C // for i = ?
    // {C![@i]@SparseList/SparseBlockList} {+} {n} // end // end
fib+ 0.7 i j // @workspace %C policy={?coord|hash|bucket} capacity={k} // @finch begin // ..C
    // for i = ?, j = ? // {C![ij]@Dense/SparseList SparseList} {+} {n1} // end // end
fibm 1 i j // V$ = {?permutedims|transpose}({A:ij}) // @finch begin // .C // for over C
    // {C![?]} {=} V$[j, i] {*} {n1} // end // end
fi+ 0.7 i j=i // function go$(A, x, y, n) // for t = 1:n // @finch begin // y .= {z} // for j = _, i = _
    // y[i] {+} A[i, j] {*} x[j] // end // end // x, y = y, x // if t == {k} // break // end // end
    // return x // end
    // r$ = go$({A:ij@Dense SparseList/Dense}, {B:j@Dense/SparseList}, {D:j@Dense/SparseByteMap}, {k})
fibm 0.5 1-2 // z$ = @finch begin // ..C // for over C // {C![?]} {=} {n} // end // return %C // end
f 0.7 - // ^s$ = Scalar({v}); v$ = {v} // @finch for i = 1:{?0|1|5|64|300}; s$[] {?+|-|*|/}= v$ end
""",
    _ROW,
)
