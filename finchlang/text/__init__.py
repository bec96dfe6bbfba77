"""From text to nodes and back: lines, literals, the two builders, the parser, the printer, diagnostics."""
