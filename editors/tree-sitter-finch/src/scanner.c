// What depends on line ends and blanks: `finchlang/text/lines.py` has the same rules for the parser.
#include <tree_sitter/parser.h>
#include <string.h>
#include <wctype.h>

enum { NEWLINE, BLANK, ELSE_COLON, BLOCK_COMMENT, ERROR };

void *tree_sitter_finch_external_scanner_create(void) { return NULL; }
void tree_sitter_finch_external_scanner_destroy(void *payload) { (void)payload; }
void tree_sitter_finch_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
  (void)payload, (void)buffer, (void)length;
}
unsigned tree_sitter_finch_external_scanner_serialize(void *payload, char *buffer) {
  (void)payload, (void)buffer;
  return 0;
}

static bool is_blank(int32_t c) { return c == ' ' || c == '\t' || c == '\f' || c == '\r' || c == 0xa0; }

static bool is_operator(int32_t c) {
  static const int32_t signs[] = {0xf7, 0x22bb, 0x2264, 0x2265, 0x2260, 0x2248, 0x2208};
  for (unsigned k = 0; k < sizeof signs / sizeof *signs; k++)
    if (c == signs[k]) return true;
  return false;
}

// The rest of a comment after its `#=`; comments may stand within comments.
static bool block_comment(TSLexer *lexer) {
  for (int depth = 1; depth;) {
    int32_t c = lexer->lookahead;
    if (lexer->eof(lexer)) return false;
    lexer->advance(lexer, false);
    if (c == '#' && lexer->lookahead == '=') depth++, lexer->advance(lexer, false);
    else if (c == '=' && lexer->lookahead == '#') depth--, lexer->advance(lexer, false);
  }
  lexer->mark_end(lexer);
  lexer->result_symbol = BLOCK_COMMENT;
  return true;
}

// Whether another element of an array begins here: an operand, or a sign right before one.
static bool element(TSLexer *lexer) {
  int32_t c = lexer->lookahead;
  if (c == '-' || c == '+') {
    lexer->advance(lexer, false);
    return !is_blank(lexer->lookahead) && lexer->lookahead != '=' && lexer->lookahead != '\n';
  }
  if (c == '!') {
    lexer->advance(lexer, false);
    return lexer->lookahead != '=';
  }
  if (c == '.') {
    lexer->advance(lexer, false);
    return iswdigit(lexer->lookahead);
  }
  if (iswalpha(c) && c < 128) {
    char word[5] = {0};
    for (int k = 0; iswalnum(lexer->lookahead) || lexer->lookahead == '_'; k++) {
      if (k < 4) word[k] = (char)lexer->lookahead;
      lexer->advance(lexer, false);
    }
    return strcmp(word, "for") && strcmp(word, "if") && strcmp(word, "in");
  }
  if (c > 127) return !is_operator(c);
  return iswdigit(c) || (c && strchr("_\"([~@", c) != NULL);
}

bool tree_sitter_finch_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  (void)payload;
  bool blanks = false;
  for (;; lexer->advance(lexer, true)) {
    int32_t c = lexer->lookahead;
    if (c == '\n') {
      if (!valid[NEWLINE]) continue;
      lexer->advance(lexer, false);
      lexer->mark_end(lexer);
      lexer->result_symbol = NEWLINE;
      return true;
    }
    if (!is_blank(c)) break;
    blanks = true;
  }
  lexer->mark_end(lexer);
  if (lexer->lookahead == '#' && valid[BLOCK_COMMENT]) {
    lexer->advance(lexer, false);
    if (lexer->lookahead != '=') return false;
    lexer->advance(lexer, false);
    return block_comment(lexer);
  }
  if (lexer->lookahead == ':' && valid[ELSE_COLON] && !valid[ERROR]) {  // the first after a `?`
    lexer->advance(lexer, false);
    if (lexer->lookahead == ':' || lexer->lookahead == '=') return false;
    lexer->mark_end(lexer);
    lexer->result_symbol = ELSE_COLON;
    return true;
  }
  if (valid[BLANK] && !valid[ERROR] && blanks && element(lexer)) {
    lexer->result_symbol = BLANK;
    return true;
  }
  return false;
}
