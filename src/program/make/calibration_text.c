#include "make/calibration_text.h"

#include "base/alloc.h"
#include "term/cli.h"
#include "measure/text_score.h"

enum { MAX_CALIBRATION_BYTES = 1 << 28 };

extern const char kt__calibration_blob[], kt__calibration_blob_end[];

kt_status kt__calibration_ids(const kt_model *model, const char *path, bool parse_special,
                              size_t max_tok, int32_t **ids, size_t *n, kt_error *err) {
    char *read = NULL;
    const char *text = kt__calibration_blob;
    size_t len = (size_t)(kt__calibration_blob_end - kt__calibration_blob);
    kt_status status = KT_OK;
    *ids = NULL;
    if (path) {
        status = kt__cli_read_file(path, MAX_CALIBRATION_BYTES, &read, &len, err);
        text = read;
    }
    if (status == KT_OK)
        status = kt__text_ids(model, text, len, parse_special ? KT_TOK_PARSE_SPECIAL : 0, ids, n,
                              err);
    if (status == KT_OK && max_tok && *n > max_tok) *n = max_tok;
    kt__free(read);
    return status;
}
