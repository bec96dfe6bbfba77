"""Any program to Finch Normal Form (Finch'25 sections 5.1-5.5), pass by pass.

A program and the formats of its free names come in; the program in normal form goes out, with
workspaces it needs, notes, and what was decided (`pass_list.py`: PASSES, `normalize`). Each pass is a
file in `passes/`; `shapes/` lowers shape operators to indices (Burrito'24), `schedule/` rewrites loop
nests as annotations ask (Workspaces'24), `write_order/` says what is written out of order and through
which workspace. The one idea: each stage is a program that can be printed and run, so that the passes
can be looked at (`finch normalize`) and the last one checked (`passes/normal_form.py`).

>>> from finchlang.normalize.pass_list import normalize
>>> from finchlang.syntax.types import Int64
>>> from finchlang.tensors.formats import parse_format
>>> from finchlang.text.parse import parse_kernel
>>> from finchlang.text.print import pretty
>>> vector = parse_format("Dense(Element(0.0))")
>>> program = parse_kernel("for i = _; y[i] += x[n - i] end")
>>> done = normalize(program, {"x": vector, "y": vector, "n": Int64})
>>> print(pretty(done.program))
@thaw(y)
for i = 1:size(y, 1)
    for k = n - i:n - i
        y[i] += x[k]
    end
end
@freeze(y)
"""
