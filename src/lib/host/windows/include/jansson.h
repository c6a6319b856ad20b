/* Jansson, whose integers are printed as C99 has it. */
#include_next <jansson.h>
#undef JSON_INTEGER_FORMAT
#define JSON_INTEGER_FORMAT "lld"
