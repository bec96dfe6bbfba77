; The colours of nodes; a test compares the words with those of the grammar.
(identifier) @variable
((identifier) @type (#match? @type "^[A-Z]"))
(call function: (identifier) @function.call)
((call function: (identifier) @constructor) (#match? @constructor "^[A-Z]"))
(parametric name: (identifier) @type)
(function name: (identifier) @function)
(function parameters: (arguments (identifier) @variable.parameter))
(keyword name: (identifier) @variable.parameter)

["begin" "else" "elseif" "end" "for" "function" "if" "in" "let" "return" "while"
 "try" "catch" "finally" "do" "using"] @keyword
[(break) (continue)] @keyword
(where) @keyword ; behind `@properties f law...`
["@array" "@assert" "@case" "@declare" "@einsum" "@finch" "@freeze" "@iterate" "@mode" "@properties"
 "@schedule" "@staged" "@thaw" "@time" "@elapsed" "@show" "@workspace"] @function.macro
(directory) @function.macro ; @__DIR__

(constant) @constant.builtin
(missing) @constant.builtin
(number) @number
(string) @string
(escape) @string.escape
(interpolation) @embedded
[(comment) (block_comment)] @comment

(operator) @operator
(binary operator: _ @operator)
(prefix operator: _ @operator)
(assignment operator: _ @operator)
["=" ":" "?" "∈" "->" "|>" "'"] @operator
(last) @variable.builtin
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ";"] @punctuation.delimiter
