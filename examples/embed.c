/* A chat with a model inside your own program: open, ask, stream, close.
 *   cc embed.c $(pkg-config --cflags --libs kentang) && ./a.out [MODEL.gguf] ["a question"] */
#include <kentang.h>
#include <stdio.h>

static bool print(void *user, const char *text, size_t len, int32_t id) {
    (void)user;
    (void)id;
    fwrite(text, 1, len, stdout);
    fflush(stdout);
    return true; /* false would cancel */
}

int main(int argc, char **argv) {
    kt_error err;
    kt_ctx *ctx = NULL;
    kt_model *model = NULL;
    kt_engine *engine = NULL;
    kt_seq *seq = NULL;
    kt_request_report report;
    const char *question = argc > 2 ? argv[2] : "Who are you?";
    kt_message messages[] = {{"user", question}};

    kt_gen_params params = kt_gen_params_default();
    params.sampling.temperature = 0.0f; /* the most probable token, always the same answer */
    params.n_predict = 200;

    kt_status status = kt_ctx_open(NULL, &ctx, &err);
    if (status == KT_OK) {
        status = argc > 1 && argv[1][0] ? kt_model_open(ctx, argv[1], NULL, &model, &err)
                                        : kt_model_open_demo(ctx, NULL, &model, &err);
    }
    if (status == KT_OK) status = kt_engine_open(model, NULL, &engine, &err);
    if (status == KT_OK) status = kt_seq_open(engine, &seq, &err);
    if (status == KT_OK) {
        status = kt_chat(seq, messages, 1, &params, print, NULL, &report, &err);
    }
    if (status == KT_OK) {
        printf("\n[%d tokens, %s]\n", report.n_generated, kt_finish_name(report.finish));
    } else {
        fprintf(stderr, "%s: %s\n", kt_status_name(status), err.message);
    }
    kt_seq_close(seq);
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return kt_status_exit_code(status);
}
