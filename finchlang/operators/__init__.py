"""The operator table: what each computes, its laws, and bodies of user functions."""
