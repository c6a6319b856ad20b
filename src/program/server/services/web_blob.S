/* The bytes of web_files.def. The assembler looks for the files in web/, which CMake names with -I. */
    .section .rodata
#define X(symbol, name, path, type) \
    .global kt__web_##symbol; .hidden kt__web_##symbol; .global kt__web_##symbol##_end; .hidden kt__web_##symbol##_end; \
    kt__web_##symbol: .incbin path; kt__web_##symbol##_end: .byte 0;
#include "services/web_files.def"
#undef X
    .section .note.GNU-stack,"",%progbits
