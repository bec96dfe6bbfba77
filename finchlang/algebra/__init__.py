"""What is true of an expression: types, laws, simplification, bounds, known values, sparsity."""
