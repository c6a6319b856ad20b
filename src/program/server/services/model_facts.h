/* What a served model is, whether it is loaded or not.
 *
 * Owns: reading it of the loaded model, or of its file without the weights. Blocks while the file is
 * read; any thread. */
#ifndef KT_SERVICES_MODEL_FACTS_H
#define KT_SERVICES_MODEL_FACTS_H

#include "services/models.h"

typedef struct kt__model_facts {
    kt_model_info model; /* strings are NULL, but for these copies: */
    char arch[64], quant[32];
    char *template_; /* the chat template's source, or NULL */
    bool fills_gaps; /* it has tokens for a gap in a text */
    bool reasons;    /* its template knows reasoning */
    bool sees;       /* pictures: of a model that is not loaded, that its encoder's file is there */
} kt__model_facts;

kt_status KT_CHECKED kt__model_facts_read(kt__models *models, kt__served *served,
                                          kt__model_facts *out, kt_error *err);
void kt__model_facts_free(kt__model_facts *facts); /* also of zeroed ones */

#endif
