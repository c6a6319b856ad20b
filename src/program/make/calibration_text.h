/* The text that a model is calibrated with.
 *
 * Owns: the program's own text in English and Indonesian, and tokens of it or of a file. One thread.
 */
#ifndef KT_MAKE_CALIBRATION_TEXT_H
#define KT_MAKE_CALIBRATION_TEXT_H

#include <kentang.h>

#define KT__CALIBRATION_OWN "kentang's own (English, Indonesian)"

/* path NULL: the program's own. At most max_tok ids (0: all), for kt__free. */
kt_status kt__calibration_ids(const kt_model *model, const char *path, bool parse_special,
                              size_t max_tok, int32_t **ids, size_t *n, kt_error *err) KT_CHECKED;

#endif
