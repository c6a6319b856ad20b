/* Pictures in requests: one answer whatever tier, threads, slices and company; the second question finds the first
 * one's picture; what cannot be seen is said. */
#include <stdlib.h>
#include <unistd.h>

#include "vision_fixture.h"

enum { N_GEN = 6, MAX_FILE = 1 << 16 };

typedef struct family {
    const char *projector, *mark, *preset;
} family;

static const family families[] = {{"idefics3", "<image>", "tiny-llama"},
                                  {"gemma3", "<start_of_image>", "tiny-gemma3"},
                                  {"qwen2vl_merger", "<|image_pad|>", "tiny-qwen2vl"},
                                  {"qwen2.5vl_merger", "<|image_pad|>", "tiny-qwen2vl"},
                                  {"qwen3vl_merger", "<|image_pad|>", "tiny-qwen3vl"}};
enum { FAMILIES = sizeof families / sizeof *families };

static char model_path[300], eye_path[300];
static uint8_t file_data[2][MAX_FILE];
static kt_picture pictures[3];

static void read_picture(int i, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/pictures/%s", KT_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    pictures[i] = (kt_picture){file_data[i], fread(file_data[i], 1, MAX_FILE, file)};
    fclose(file);
}

static int setup(void **state) {
    (void)state;
    snprintf(model_path, sizeof model_path, "%s/pictures-%d.gguf", KT_BINARY_DIR, (int)getpid());
    snprintf(eye_path, sizeof eye_path, "%s/pictures-mm-%d.gguf", KT_BINARY_DIR, (int)getpid());
    read_picture(0, "chart.png");
    read_picture(1, "shapes.jpg");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    unlink(model_path);
    unlink(eye_path);
    return 0;
}

typedef struct world {
    kt_ctx *ctx;
    kt_model *model;
    kt_engine *engine;
} world;

static void make_files(const family *f) {
    char command[1200], vocab[320];
    kt_ctx *ctx;
    kt_model *model;
    kt_model_info info;
    kt_error err;
    snprintf(vocab, sizeof vocab, "%s.vocab", model_path);
    eye_write_vocab(vocab, f->mark);
    snprintf(
        command, sizeof command,
        "'%s/kentang' synth --preset %s --quant f16 --seed 3 --vocab '%s' '%s' >/dev/null 2>&1",
        KT_BINARY_DIR, f->preset, vocab, model_path);
    assert_int_equal(system(command), 0);
    unlink(vocab);
    die_on(kt_ctx_open(NULL, &ctx, &err), &err);
    die_on(kt_model_open(ctx, model_path, NULL, &model, &err), &err);
    kt_model_get_info(model, &info);
    kt_model_close(model);
    kt_ctx_close(ctx);
    eye_write(eye_path, f->projector, KT__TYPE_Q8_0, info.d_model);
}

static void open_world(const char *isa, int n_threads, int n_ubatch, kt_kv_type kv, world *w) {
    kt_ctx_params cp = kt_ctx_params_default();
    kt_model_params mp = kt_model_params_default();
    kt_engine_params ep = kt_engine_params_default();
    kt_error err;
    cp.isa = isa;
    cp.n_threads = n_threads;
    mp.mmproj = eye_path;
    ep.n_ctx = 1024;
    ep.n_ubatch = n_ubatch;
    ep.n_parallel = 4;
    ep.kv_keys = ep.kv_values = kv;
    die_on(kt_ctx_open(&cp, &w->ctx, &err), &err);
    die_on(kt_model_open(w->ctx, model_path, &mp, &w->model, &err), &err);
    die_on(kt_engine_open(w->model, &ep, &w->engine, &err), &err);
}

static void close_world(world *w) {
    kt_engine_close(w->engine);
    kt_model_close(w->model);
    kt_ctx_close(w->ctx);
}

static const char two_pictures[] =
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a <image> <start_of_image>\"},"
    "{\"type\":\"image\"},{\"type\":\"text\",\"text\":\" and \"},{\"type\":\"image\"},"
    "{\"type\":\"text\",\"text\":\"what?\"}]}]";

static kt_request_params request_of(const char *chat, size_t n_pictures) {
    kt_request_params r = kt_request_params_default();
    r.prompt.chat_json = chat;
    r.prompt.chat_json_len = strlen(chat);
    r.prompt.pictures = pictures;
    r.prompt.n_pictures = n_pictures;
    r.gen.n_predict = N_GEN;
    r.gen.ignore_eog = true;
    r.gen.sampling.temperature = 0;
    r.logprobs.n = 2;
    return r;
}

typedef struct answer {
    int32_t ids[N_GEN];
    float logprobs[N_GEN][2];
    int n;
    kt_request_report report;
} answer;

static void listen(kt_request *req, answer *out) {
    kt_event event;
    *out = (answer){0};
    while (kt_request_next_event(req, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN && out->n < N_GEN) {
            out->ids[out->n] = event.id;
            for (size_t i = 0; i < 2; i++) out->logprobs[out->n][i] = event.top[i].logprob;
            out->n++;
        }
        if (event.kind != KT_EVENT_FINISHED) continue;
        if (event.finish == KT_FINISH_ERROR) fail_msg("%s", event.error->message);
        out->report = *event.report;
        break;
    }
    kt_request_close(req);
}

static void ask(world *w, const kt_request_params *r, answer *out) {
    kt_request *req;
    kt_error err;
    die_on(kt_engine_submit(w->engine, r, &req, &err), &err);
    listen(req, out);
    assert_int_equal(out->n, N_GEN);
}

static void same_answer(const answer *a, const answer *b) {
    assert_memory_equal(a->ids, b->ids, sizeof a->ids);
    assert_memory_equal(a->logprobs, b->logprobs, sizeof a->logprobs);
}

/* ---- tests ---- */

static void one_answer(const family *f) {
    const struct {
        const char *isa;
        int n_threads, n_ubatch;
        kt_kv_type kv;
    } setups[] = {{NULL, 1, 512, KT_KV_F16},   {"ref", 2, 512, KT_KV_F16},
                  {"sse41", 3, 64, KT_KV_F16}, {NULL, 2, 32, KT_KV_F16},
                  {NULL, 1, 512, KT_KV_Q8_0},  {NULL, 3, 48, KT_KV_Q8_0}};
    answer want[2], got;
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        world w;
        bool quantised = setups[i].kv != KT_KV_F16;
        if (!have_tier(setups[i].isa, NULL) || (f > &families[1] && i % 2)) continue;
        open_world(setups[i].isa, setups[i].n_threads, setups[i].n_ubatch, setups[i].kv, &w);
        kt_request_params r = request_of(two_pictures, 2);
        ask(&w, &r, &got);
        if (i == 0 || i == 4) want[quantised] = got;
        same_answer(&want[quantised], &got);
        close_world(&w);
    }
}

static void pictures_are_found_again(void) {
    answer first, again, other, fresh;
    world w;
    open_world(NULL, 2, 64, KT_KV_F16, &w);
    kt_request_params r = request_of(two_pictures, 2);
    ask(&w, &r, &first);
    assert_int_equal(first.report.n_cached, 0);
    ask(&w, &r, &again);
    same_answer(&first, &again);
    assert_true(again.report.n_cached > first.report.n_prompt - 20);
    kt_picture swapped[] = {pictures[1], pictures[0]}; /* other pictures at the same places */
    r.prompt.pictures = swapped;
    ask(&w, &r, &other);
    assert_true(other.report.n_cached < 60);
    assert_memory_not_equal(other.logprobs, first.logprobs, sizeof first.logprobs);
    r.service.no_cache = true;
    ask(&w, &r, &fresh);
    same_answer(&other, &fresh);
    close_world(&w);
}

static void company_changes_nothing(void) {
    enum { N = 4 };
    static const char text[] = "[{\"role\":\"user\",\"content\":\"no picture\"}]";
    answer alone[2], got;
    kt_request *reqs[N];
    kt_error err;
    world w;
    open_world(NULL, 2, 96, KT_KV_F16, &w);
    kt_request_params seeing = request_of(two_pictures, 2), plain = request_of(text, 0);
    seeing.service.no_cache = plain.service.no_cache = true;
    ask(&w, &seeing, &alone[0]);
    ask(&w, &plain, &alone[1]);
    for (int k = 0; k < N; k++)
        die_on(kt_engine_submit(w.engine, k % 2 ? &plain : &seeing, &reqs[k], &err), &err);
    for (int k = 0; k < N; k++) {
        listen(reqs[k], &got);
        same_answer(&alone[k % 2], &got);
    }
    close_world(&w);
}

static void refused(const world *w, const kt_request_params *r, kt_status want, const char *text) {
    kt_request *req;
    kt_error err;
    kt_status status = kt_engine_submit(w->engine, r, &req, &err);
    if (status != want || !strstr(err.message, text))
        fail_msg("%s: %s", kt_status_name(status), status ? err.message : "accepted");
}

static void what_cannot_be_seen_is_said(void **state) {
    (void)state;
    kt_model_params mp = kt_model_params_default();
    kt_engine_params ep = {.n_ctx = 128};
    kt_engine *small;
    kt_model *model;
    kt_error err;
    world w, blind;
    make_files(&families[0]);
    open_world(NULL, 2, 64, KT_KV_F16, &w);
    kt_request_params r = request_of(two_pictures, 1);
    refused(&w, &r, KT_E_TEMPLATE, "wrote 2 marks");
    r.prompt.n_pictures = 2;
    pictures[2] = pictures[1];
    pictures[1].len /= 2;
    refused(&w, &r, KT_E_FORMAT, "picture 2: the JPEG file is cut short");
    pictures[1] = pictures[2];
    r.logprobs.prompt = true;
    refused(&w, &r, KT_E_UNSUPPORTED, "log-probabilities");
    r.logprobs.prompt = false;
    die_on(kt_engine_open(w.model, &ep, &small, &err), &err);
    blind = (world){.engine = small};
    refused(&blind, &r, KT_E_CONTEXT_FULL, "with its pictures");
    kt_engine_close(small);
    die_on(kt_model_open(w.ctx, model_path, NULL, &model, &err), &err);
    die_on(kt_engine_open(model, NULL, &small, &err), &err);
    blind = (world){.engine = small};
    refused(&blind, &r, KT_E_UNSUPPORTED, "mmproj");
    kt_engine_close(small);
    kt_model_close(model);
    eye_write(eye_path, "idefics3", KT__TYPE_F32, 24);
    mp.mmproj = eye_path;
    assert_int_equal(kt_model_open(w.ctx, model_path, &mp, &model, &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "another model"));
    close_world(&w);
}

static void family_is_right(void **state) {
    const family *f = *state;
    make_files(f);
    one_answer(f);
    pictures_are_found_again();
    company_changes_nothing();
}

int main(void) {
    struct CMUnitTest tests[FAMILIES + 1] = {
        [FAMILIES] = cmocka_unit_test(what_cannot_be_seen_is_said)};
    for (size_t i = 0; i < FAMILIES; i++) {
        union {
            const void *in;
            void *out;
        } arg = {.in = &families[i]};
        tests[i] = (struct CMUnitTest){families[i].projector, family_is_right, NULL, NULL, arg.out};
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
