/* Arbitrary bytes as a request body: it is read or refused by name, and what was read can be
 * written. */
#include <string.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt_error err;
    kt__wire_request *r = NULL;
    kt_request_params defaults = {.gen = kt_gen_params_default(), .n_choices = 1, .logprobs.n = -1};
    kt__buf out;
    if (size < 1) return 0;
    kt__buf_init(&out, 1 << 20);
    const char *json = (const char *)data + 1;
    kt_status status = kt__wire_read((kt__wire_form)(data[0] % 4), json, size - 1, &defaults, &r,
                                     &err);
    if (status == KT_OK) {
        const kt_request_params *q = &r->req;
        if ((q->prompt.messages != NULL) + (q->prompt.chat_json != NULL) +
                (q->prompt.text != NULL) + (q->prompt.ids != NULL) !=
            1)
            __builtin_trap();
        kt__wire_choice choice = {.text = json, .len = size - 1};
        if (q->prompt.text) choice.text = q->prompt.text, choice.len = q->prompt.text_len;
        kt__wire_answer answer = {.form = r->form,
                                  .id = r->id,
                                  .model = r->model,
                                  .created_s = 1,
                                  .choices = &choice,
                                  .n_choices = 1,
                                  .seed = 1};
        kt__wire_write_answer(&out, &answer);
        kt__wire_write_chunk(&out, &answer, true);
    } else {
        if (r || err.code != status || !err.message[0]) __builtin_trap();
        kt__wire_write_error(&out, &err);
    }
    kt__wire_request_free(r);
    kt__buf_free(&out);
    return 0;
}
