/* Files inside a program, for assembler: KT__BLOB(symbol, path) makes the read-only bytes from `symbol` up to
 * `symbol`_end, and a zero byte after them. KT__BLOB_END comes last. Windows's object files know no types and
 * sizes of symbols, and hide what is not exported. */
/* clang-format off */
#ifdef _WIN32
#define KT__BLOB_SECTION .section .rdata,"dr";
#define KT__BLOB_HIDE(symbol)
#define KT__BLOB_END
#else
#define KT__BLOB_SECTION .section .rodata;
#define KT__BLOB_HIDE(symbol) .hidden symbol;
#define KT__BLOB_END .section .note.GNU-stack,"",%progbits
#endif

#define KT__BLOB(symbol, path) \
    .global symbol; KT__BLOB_HIDE(symbol) symbol: .incbin path; \
    .global symbol##_end; KT__BLOB_HIDE(symbol##_end) symbol##_end: .byte 0;
