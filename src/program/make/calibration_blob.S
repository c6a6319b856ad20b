/* The program's own calibration text. KT_CALIBRATION_PATH comes from CMake. */
    .section .rodata
    .global kt__calibration_blob
    .hidden kt__calibration_blob
    .type kt__calibration_blob, %object
kt__calibration_blob:
    .incbin KT_CALIBRATION_PATH
    .global kt__calibration_blob_end
    .hidden kt__calibration_blob_end
kt__calibration_blob_end:
    .byte 0
    .size kt__calibration_blob, . - kt__calibration_blob
    .section .note.GNU-stack,"",%progbits
