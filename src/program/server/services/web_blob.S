/* The bytes of web_files.def. The assembler looks for the files in web/, which CMake names with -I. */
#include "host/blob.h"

    KT__BLOB_SECTION
#define X(symbol, name, path, type) KT__BLOB(kt__web_##symbol, path)
#include "services/web_files.def"
#undef X
    KT__BLOB_END
