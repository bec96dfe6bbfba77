"""The grammar of the language: `finch.lark`, read by `finchlang.parse`, and its reference."""
