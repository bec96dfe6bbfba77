"""The operator table: what each operator computes, the laws it obeys, and the bodies of user functions.

What comes in is a name, or a function that a script defines; what goes out is a row (`operator.py`):
how the operator is built of host terms, and its laws: identity, annihilator, idempotent, distributes
over, and so on (Finch'25 section 5.6). The one idea: rules, passes and planner ask a row for its laws
and never for its name, so a user function that declares a law is treated as well as `*`.

>>> from finchlang.operators.operator_table import OPERATORS
>>> OPERATORS["min"].idempotent, OPERATORS["*"].commutative, OPERATORS["-"].commutative
(True, True, False)
"""
