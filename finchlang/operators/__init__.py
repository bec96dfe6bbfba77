"""The operator table: what each operator computes, the laws it obeys, and the bodies of user functions.

In: a name, or a function of a script. Out: a row (`operator.py`). It says how the operator is built of
host terms, and which laws hold: identity, annihilator, idempotent, distributes over, and others
(Finch'25 section 5.6).

The one idea: rules, passes and planner ask a row for its laws, never for its name. So a user function
with a declared law is treated as well as `*`.

>>> from finchlang.operators.operator_table import OPERATORS
>>> OPERATORS["min"].idempotent, OPERATORS["*"].commutative, OPERATORS["-"].commutative
(True, True, False)
"""
