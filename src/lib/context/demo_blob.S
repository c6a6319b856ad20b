/* The demo model's bytes, aligned so that its tensors are used in place. KT_DEMO_PATH comes from CMake. */
    .section .rodata
    .balign 4096
    .global kt__demo_blob
    .hidden kt__demo_blob
    .type kt__demo_blob, %object
kt__demo_blob:
    .incbin KT_DEMO_PATH
    .global kt__demo_blob_end
    .hidden kt__demo_blob_end
kt__demo_blob_end:
    .byte 0
    .size kt__demo_blob, . - kt__demo_blob
    .section .note.GNU-stack,"",%progbits
