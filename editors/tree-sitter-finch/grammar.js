// The syntax of `grammar/finch.lark` for tree-sitter. Words and signs are that grammar's own
// (`terminals.json`, written by `make editors`). One set of statements serves scripts and kernels: an
// editor's tree need not refuse what the parser refuses.
//
// What depends on line ends and blanks is left to `src/scanner.c`: line ends that separate statements or
// rows, blanks that separate elements of an array, which `:` is that of a `?`, and comments within comments.

const terminals = require("./terminals.json");

// A terminal of finch.lark: its words, or its regular expression.
const T = (name) => {
  const found = terminals[name];
  if (found === undefined) throw new Error(`finch.lark has no ${name}`);
  if (found.words !== undefined) return found.words.length > 1 ? choice(...found.words) : found.words[0];
  return new RegExp(found.pattern);
};

// Lowest first, as in finch.lark.
const LEVELS = [
  "pair", "lambda", "choice", "or", "and", "compare", "pipe", "range", "sum", "product", "shift", "prefix",
  "power", "postfix",
];
const P = Object.fromEntries(LEVELS.map((name, k) => [name, k + 1]));

const list = (rule) => seq(rule, repeat(seq(",", rule)), optional(","));
const binary = ($, level, ...signs) =>
  prec.left(P[level], seq(field("left", $._expression), field("operator", choice(...signs)), field("right", $._expression)));

module.exports = grammar({
  name: "finch",
  externals: ($) => [$._newline, $._blank, $._else_colon, $.block_comment, $._error],
  extras: ($) => [/\s/, $.comment, $.block_comment],
  word: ($) => $.identifier,
  supertypes: ($) => [$._expression],

  rules: {
    source_file: ($) => optional($._body),

    _separator: ($) => choice($._newline, ";"),
    _body: ($) =>
      choice(
        repeat1($._separator),
        seq(
          repeat($._separator),
          $._statement,
          repeat(seq(repeat1($._separator), $._statement)),
          repeat($._separator),
        ),
      ),

    _statement: ($) => choice($._expression, $._form),
    _form: ($) => choice($.assignment, $._block_form),
    _block_form: ($) =>
      choice(
        $.function, $.while, $.for, $.if, $.let, $.begin, $.return, $.break, $.continue, $.macro,
      ),

    // ------------------------------------------------------------------ statements
    assignment: ($) => choice($._single, seq(field("target", $.group), T("EQ"), field("value", $._value))),
    _single: ($) =>
      seq(
        field("target", $._expression),
        field("operator", choice(T("EQ"), T("COLON_EQ"), T("DOT_EQ"), T("OPASSIGN"), T("USER_ASSIGN"))),
        field("value", $._value),
      ),
    _value: ($) => choice($._expression, $.group, $.begin, $.macro),
    group: ($) => seq($._expression, repeat1(seq(",", $._expression))),

    function: ($) =>
      seq(
        T("FUNCTION"), field("name", $.identifier), field("parameters", $.arguments),
        optional($._body), T("END"),
      ),
    while: ($) => seq(T("WHILE"), field("condition", $._expression), optional($._body), T("END")),
    for: ($) => seq(T("FOR"), $.binding, repeat(seq(",", $.binding)), optional($._body), T("END")),
    binding: ($) =>
      seq(field("name", choice($.identifier, $.missing)), choice(T("EQ"), T("IN")), field("range", $._expression)),
    if: ($) =>
      seq(
        T("IF"), field("condition", $._expression), optional($._body),
        repeat(seq(T("ELSEIF"), $._expression, optional($._body))),
        optional(seq(T("ELSE"), optional($._body))),
        T("END"),
      ),
    let: ($) => seq(T("LET"), $.definition, repeat(seq(",", $.definition)), optional($._body), T("END")),
    definition: ($) => seq(field("name", $._expression), T("EQ"), field("value", $._expression)),
    begin: ($) => seq(T("BEGIN"), optional($._body), T("END")),
    return: ($) => prec.right(seq(T("RETURN"), optional($._value))),
    break: () => T("BREAK"),
    continue: () => T("CONTINUE"),

    macro: ($) =>
      prec.right(
        choice(
          seq(T("ASSERT"), $._expression, optional($.string)),
          seq(T("WORKSPACE"), $.identifier, repeat1($.setting)),
          seq(T("SCHEDULE"), $.call, repeat(seq(",", $.call))),
          seq(T("PROPERTIES"), $.identifier, repeat1($.law)),
          seq(choice(T("CASE"), T("ITERATE")), $.assignment),
          seq(T("FINCH"), choice($._statement, $.block)),
          seq(choice(T("TIME"), T("ARRAY")), $._statement),
          seq(
            T("EINSUM"), $._expression, optional(field("operator", $.identifier)),
            choice(T("EQ"), T("OPASSIGN"), T("USER_ASSIGN")), $._expression,
          ),
          seq(choice(T("DECLARE"), T("FREEZE"), T("THAW")), $._expression),
        ),
      ),
    law: ($) => seq(field("name", $.identifier), optional($.arguments)),
    setting: ($) => seq(field("name", $.identifier), T("EQ"), field("value", choice($.identifier, $.number))),
    // `@finch (a[] = 1; b[] = 2)`
    block: ($) => seq("(", choice(alias($._single, $.assignment), $._block_form), repeat(seq(";", $._statement)), optional(";"), ")"),

    // ------------------------------------------------------------------ expressions
    _expression: ($) =>
      choice(
        $.identifier, $.number, $.string, $.missing, $.directory, $.mode, $.constant,
        $.parenthesised, $.tuple, $.array, $.call, $.subscript, $.parametric, $.typed,
        $.prefix, $.binary, $.range, $.choice,
      ),
    parenthesised: ($) => seq("(", $._expression, ")"),
    tuple: ($) =>
      choice(seq("(", ")"), seq("(", $._expression, ",", optional(list($._expression)), ")")),
    choice: ($) =>
      prec.right(P.choice, seq($._expression, T("QUERY"), $._expression, alias($._else_colon, ":"), $._expression)),
    range: ($) => prec.left(P.range, seq($._expression, T("COLON"), $._expression)),
    binary: ($) =>
      choice(
        prec.right(P.pair, seq($._expression, field("operator", T("PAIR")), $._expression)),
        binary($, "or", T("OR")),
        binary($, "and", T("AND")),
        binary($, "compare", T("COMPARE")),
        binary($, "sum", T("MINUS"), T("SUM_OP")),
        binary($, "product", T("PRODUCT_OP")),
        binary($, "shift", T("SHIFT")),
        prec.right(P.power, seq($._expression, field("operator", T("POWER")), $._expression)),
      ),
    prefix: ($) =>
      prec(P.prefix, seq(field("operator", choice(T("MINUS"), "+", T("NOT"), T("TILDE"))), $._expression)),

    call: ($) =>
      prec(P.postfix, seq(field("function", choice($._expression)), field("arguments", $.arguments))),
    arguments: ($) =>
      seq(
        token.immediate(prec(9, "(")),
        optional(list($._argument)),
        optional(seq(";", list($.keyword))),
        ")",
      ),
    _argument: ($) => choice($._expression, $.keyword),
    keyword: ($) => seq(field("name", $.identifier), T("EQ"), field("value", $._expression)),
    subscript: ($) =>
      prec(
        P.postfix,
        seq(field("object", $._expression), token.immediate(prec(9, "[")), optional(list(choice($._expression, $.colon))), "]"),
      ),
    colon: () => T("COLON"),
    parametric: ($) =>
      prec(P.postfix, seq(field("name", $.identifier), token.immediate("{"), list($._expression), "}")),
    typed: ($) => prec.left(P.postfix, seq($._expression, T("TYPE_SIGN"), $._expression)),

    array: ($) =>
      seq(
        "[",
        repeat($._separator),
        optional(
          choice(
            seq($._expression, ",", optional(list($._expression))),
            seq($.row, repeat(seq(repeat1($._separator), $.row)), repeat($._separator)),
          ),
        ),
        "]",
      ),
    row: ($) => seq($._expression, repeat(seq($._blank, $._expression))),

    mode: ($) => seq(T("MODE"), choice("(", token.immediate(prec(9, "("))), $.identifier, ")"),
    directory: () => T("DIR"),
    missing: () => T("UNDERSCORE"),
    constant: () => choice("true", "false", "missing", "nothing"),
    number: () => T("NUMBER"),

    string: ($) =>
      seq('"', repeat(choice($.escape, $.interpolation, token.immediate(prec(1, /[^"\\$]+/)), token.immediate("$"))), token.immediate('"')),
    escape: () => token.immediate(/\\(.|\n)/),
    interpolation: ($) =>
      choice(
        seq(token.immediate(prec(2, "$(")), $._expression, ")"),
        token.immediate(prec(2, /\$[_\p{L}][_\p{L}\p{N}]*/)),
      ),

    identifier: () => /[_\p{L}][_\p{L}\p{N}]*!*/,
    comment: () => token(prec(-1, /#[^\n]*/)),
  },
});
