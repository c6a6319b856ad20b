/* The program's own calibration text. KT_CALIBRATION_PATH comes from CMake. */
#include "host/blob.h"

    KT__BLOB_SECTION
    KT__BLOB(kt__calibration_blob, KT_CALIBRATION_PATH)
    KT__BLOB_END
