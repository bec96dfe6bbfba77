"""Any program to Finch Normal Form (Finch'25 sections 5.1-5.5), pass by pass.

In: a program and the formats of its free names. Out: the program in normal form, with its workspaces,
notes and decisions (`pass_list.py`: PASSES, `normalize`). Each pass is a file in `passes/`. `shapes/`
replaces shape operators by indices (Burrito'24), `schedule/` rewrites loop nests as annotations say
(Workspaces'24), and `write_order/` finds updates out of order and chooses their workspaces.

The one idea: the program after each pass is a program that can be printed and run. So `finch normalize`
shows each pass, and `passes/normal_form.py` checks the last one.

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
