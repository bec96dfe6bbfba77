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

const with_last = ($, level, ...signs) =>
  [[$._of_last, $._expression], [$._expression, $._of_last], [$._of_last, $._of_last]].map(([left, right]) =>
    prec.left(P[level], seq(field("left", left), field("operator", choice(...signs)), field("right", right))),
  );

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

    // A body that begins in a line of its own, or after a `;`.
    _lines: ($) =>
      seq(
        repeat1($._separator),
        optional(
          seq($._statement, repeat(seq(repeat1($._separator), $._statement)), repeat($._separator)),
        ),
      ),

    _statement: ($) => choice($._expression, $._form),
    _form: ($) => choice($.assignment, $._block_form),
    _block_form: ($) =>
      choice(
        $.function, $.while, $.for, $.if, $.let, $.begin, $.try, $.using,
        $.return, $.break, $.continue, $.guarded, $.macro,
      ),

    // ------------------------------------------------------------------ statements
    assignment: ($) => choice($._single, seq(field("target", $.group), T("EQ"), field("value", $._value))),
    _single: ($) =>
      seq(
        field("target", $._expression),
        field("operator", choice(T("EQ"), T("COLON_EQ"), T("DOT_EQ"), T("OPASSIGN"), T("DOT_OPASSIGN"), T("USER_ASSIGN"))),
        field("value", $._value),
      ),
    _value: ($) => choice($._expression, $.group, $.begin, $.let, $.try, $.macro),
    group: ($) => seq($._expression, repeat1(seq(",", $._expression))),

    function: ($) =>
      seq(
        T("FUNCTION"), field("name", $.identifier), field("parameters", $.arguments),
        optional($._body), T("END"),
      ),
    while: ($) => seq(T("WHILE"), field("condition", $._expression), optional($._body), T("END")),
    for: ($) => seq(T("FOR"), $.binding, repeat(seq(",", $.binding)), optional($._body), T("END")),
    binding: ($) =>
      seq(
        field("name", choice($.identifier, $.missing, alias($._names, $.tuple))),
        choice(T("EQ"), T("IN")), field("range", $._expression),
      ),
    _names: ($) => seq("(", $.identifier, repeat1(seq(",", $.identifier)), ")"),
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
    try: ($) =>
      seq(
        T("TRY"), optional($._body),
        optional(seq(T("CATCH"), field("error", optional($.identifier)), optional($._lines))),
        optional(seq(T("FINALLY"), optional($._body))),
        T("END"),
      ),
    using: ($) => seq(T("USING"), $.identifier, repeat(seq(",", $.identifier))),
    // `x > 0 || return`
    guarded: ($) =>
      prec.right(
        P.or, seq($._expression, choice(T("AND"), T("OR")), choice($.return, $.break, $.continue)),
      ),
    return: ($) => prec.right(seq(T("RETURN"), optional($._value))),
    break: () => T("BREAK"),
    continue: () => T("CONTINUE"),

    macro: ($) =>
      prec.right(
        choice(
          seq(T("ASSERT"), $._expression, optional($.string)),
          seq(T("WORKSPACE"), $.identifier, repeat1($.setting)),
          seq(T("SCHEDULE"), $.call, repeat(seq(",", $.call))),
          seq(T("PROPERTIES"), $.identifier, repeat1($.law), optional(seq(alias("where", $.where), field("range", $._expression)))),
          seq(choice(T("CASE"), T("ITERATE")), $.assignment),
          seq(T("STAGED"), $._expression),
          seq(choice(T("FINCH"), T("FINCH_MODE")), choice($._statement, $.block)),
          seq(choice(T("TIME"), T("ELAPSED"), T("SHOW"), T("ARRAY")), $._statement),
          seq(
            T("EINSUM"), $._expression, optional(field("operator", $.identifier)),
            choice(T("EQ"), T("OPASSIGN"), T("USER_ASSIGN")), $._expression,
          ),
          seq(choice(T("DECLARE"), T("FREEZE"), T("THAW")), $._expression),
        ),
      ),
    law: ($) => seq(field("name", $.identifier), optional(choice($.arguments, seq(T("EQ"), $._expression)))),
    setting: ($) => seq(field("name", $.identifier), T("EQ"), field("value", choice($.identifier, $.number))),
    // `@finch (a[] = 1; b[] = 2)`
    block: ($) => seq("(", choice(alias($._single, $.assignment), $._block_form), repeat(seq(";", $._statement)), optional(";"), ")"),

    // ------------------------------------------------------------------ expressions
    _expression: ($) =>
      choice(
        $.identifier, $.number, $.string, $.missing, $.directory, $.mode, $.constant,
        $.parenthesised, $.tuple, $.array, $.call, $.subscript, $.parametric, $.typed,
        $.prefix, $.binary, $.range, $.choice,
        $.lambda, $.comprehension, $.transposed, $.broadcast, $.do,
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
        binary($, "compare", T("COMPARE"), T("IN")),
        binary($, "pipe", T("PIPE")),
        binary($, "sum", T("MINUS"), T("SUM_OP")),
        binary($, "product", T("PRODUCT_OP")),
        binary($, "shift", T("SHIFT")),
        prec.right(P.power, seq($._expression, field("operator", T("POWER")), $._expression)),
      ),
    prefix: ($) =>
      prec(P.prefix, seq(field("operator", choice(T("MINUS"), "+", T("NOT"), T("TILDE"), T("DOT_PREFIX"))), $._expression)),

    lambda: ($) =>
      prec.right(P.lambda, seq($._expression, T("ARROW"), choice($._expression, $.begin))),
    transposed: ($) => prec(P.postfix, seq($._expression, token.immediate(prec(9, T("QUOTE"))))),
    broadcast: ($) =>
      prec(P.postfix, seq($._expression, token.immediate(T("DOT")), $.arguments)),
    do: ($) =>
      seq(
        $.call, T("DO"), optional(seq($.identifier, repeat(seq(",", $.identifier)))), $._lines, T("END"),
      ),
    // `x[end-1]`: an `end` closes something elsewhere, so only sums, products and ranges have it
    _of_last: ($) => choice($.last, alias($._last_binary, $.binary), alias($._last_range, $.range)),
    last: () => T("END"),
    _last_binary: ($) => choice(...with_last($, "sum", T("MINUS"), T("SUM_OP")), ...with_last($, "product", T("PRODUCT_OP"))),
    _last_range: ($) => choice(...with_last($, "range", T("COLON"))),
    comprehension: ($) => seq("[", $._expression, $._loops, "]"),
    _loops: ($) =>
      seq(
        repeat1(seq(T("FOR"), $.binding, repeat(seq(",", $.binding)))),
        optional(seq(T("IF"), $._expression)),
      ),

    call: ($) =>
      prec(P.postfix, seq(field("function", choice($._expression)), field("arguments", $.arguments))),
    arguments: ($) =>
      seq(
        token.immediate(prec(9, "(")),
        choice(
          seq(optional(list($._argument)), optional(seq(";", list($._argument)))),
          seq($._expression, $._loops),
        ),
        ")",
      ),
    _argument: ($) => choice($._expression, $.splat, $.keyword, $.operator),
    splat: ($) => prec(P.postfix, seq($._expression, T("ELLIPSIS"))),
    // `reduce(+, x)`
    operator: () =>
      choice(
        T("MINUS"), "+", T("SUM_OP"), T("PRODUCT_OP"), T("POWER"), T("SHIFT"), T("COMPARE"), T("AND"), T("OR"),
        T("NOT"), T("TILDE"),
      ),
    keyword: ($) => seq(field("name", choice($.identifier, $.typed)), T("EQ"), field("value", $._expression)),
    subscript: ($) =>
      prec(
        P.postfix,
        seq(field("object", $._expression), token.immediate(prec(9, "[")), optional(list(choice($._expression, $._of_last, $.colon))), "]"),
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
            seq(choice($._expression, $.splat), ",", optional(list(choice($._expression, $.splat)))),
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
