"""The grammar of the language: `finch.lark`, read by `finchlang.text.parse`, and its reference."""
