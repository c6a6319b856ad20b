/* The demo model's bytes, aligned so that its tensors are used in place. KT_DEMO_PATH comes from CMake. */
#include "host/blob.h"

    KT__BLOB_SECTION
    .balign 4096
    KT__BLOB(kt__demo_blob, KT_DEMO_PATH)
    KT__BLOB_END
