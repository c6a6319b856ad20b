/* A made-up architecture from end to end: rows of tests/new_arch in arch.def, archs.def and tensors.def, a preset's
 * numbers and a config.json are all that synth, the converter, the model and its adapters know of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "convert/convert.h"
#include "convert_folder.h"
#include "model/lora.h"
#include "model/net.h"
#include "synth/synth.h"

static char dir[] = "/tmp/kt_new_arch_XXXXXX";
static char converted[64];
static kt_error err;

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* What the architecture's row says of a layer: norms of queries and keys, and biases. */
static kt__net *bind_madeup(const kt__gguf *gguf) {
    kt__net *net = NULL;
    if (kt__net_bind(gguf, NULL, &net, &err) != KT_OK) fail_msg("%s", err.message);
    assert_string_equal(net->hp.arch, "madeup");
    for (int i = 0; i < net->hp.n_layer; i++) {
        assert_non_null(net->layers[i].t[KT__SLOT_ATTN_Q_NORM].v);
        assert_non_null(net->layers[i].t[KT__SLOT_ATTN_K_NORM].v);
        assert_non_null(net->layers[i].bq);
        assert_non_null(net->layers[i].wq.data);
        assert_non_null(net->layers[i].down.data);
    }
    return net;
}

static void test_synth_from_numbers(void **state) {
    (void)state;
    static const kt__synth_preset madeup = {.name = "madeup",
                                            .arch = "madeup",
                                            .n_layer = 2,
                                            .d_model = 64,
                                            .d_ff = 96,
                                            .n_head = 4,
                                            .n_head_kv = 2,
                                            .head_dim = 16,
                                            .n_vocab = 512,
                                            .n_ctx = 128,
                                            .eps = 1e-5f,
                                            .rope_base = 1e4f,
                                            .tied = true};
    kt__synth_plan plan;
    kt__synth_image image;
    kt__gguf *gguf;
    assert_int_equal(kt__synth_plan_make(&madeup, kt__recipe_find("q8_0"), 1, 0, &plan, &err),
                     KT_OK);
    assert_int_equal(kt__synth_image_make(&plan, 1, &image, &err), KT_OK);
    assert_int_equal(kt__gguf_open_memory(image.data, image.size, false, &gguf, &err), KT_OK);
    kt__net_free(bind_madeup(gguf));
    kt__gguf_close(gguf);
    kt__synth_image_free(&image);
    kt__synth_plan_free(&plan);
}

static void test_an_unknown_architecture_is_refused(void **state) {
    (void)state;
    static const kt__synth_preset other = {.name = "other", .arch = "unheard-of", .n_vocab = 512};
    kt__synth_plan plan;
    assert_int_equal(kt__synth_plan_make(&other, kt__recipe_find("q8_0"), 1, 0, &plan, &err),
                     KT_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "unheard-of"));
    kt__synth_plan_free(&plan);
}

static kt__gguf *open_converted(void) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__gguf *gguf;
    assert_int_equal(kt__gguf_open(converted, &params, &gguf, &err), KT_OK);
    return gguf;
}

static void test_convert_from_a_config(void **state) {
    (void)state;
    static const cf_vector more[] = {{"query_scale.weight", CF_MODEL / CF_HEADS},
                                     {"key_scale.weight", CF_MODEL / CF_HEADS},
                                     {"q_proj.bias", CF_MODEL},
                                     {"k_proj.bias", CF_MODEL / 2},
                                     {"v_proj.bias", CF_MODEL / 2},
                                     {NULL, 0}};
    char folder[64];
    kt__convert_report report;
    snprintf(folder, sizeof folder, "%s/model", dir);
    snprintf(converted, sizeof converted, "%s/out.gguf", dir);
    cf_folder(folder, CF_VOCAB);
    cf_config(folder, "MadeUpForCausalLM",
              "\"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000, ");
    cf_weights_file(folder, CF_VOCAB, more);
    const kt__convert_output output = {.target = converted, .n_threads = 1};
    if (kt__convert_folder(folder, kt__recipe_find("q8_0"), &output, &report, &err) != KT_OK)
        fail_msg("%s", err.message);
    kt__gguf *gguf = open_converted();
    kt__net *net = bind_madeup(gguf);
    assert_int_equal(net->layers[0].wq.type, KT__TYPE_Q8_0);
    kt__net_free(net);
    kt__gguf_close(gguf);
}

static void test_an_adapter_of_it(void **state) {
    (void)state;
    const kt__synth_lora_params params = {.base = converted, .rank = 4, .seed = 1};
    const kt__gguf_open_params open = {.use_mmap = true};
    char path[64];
    kt__gguf *adapter;
    kt__lora_pack pack;
    snprintf(path, sizeof path, "%s/adapter.gguf", dir);
    assert_int_equal(kt__synth_lora_write(&params, path, &err), KT_OK);
    assert_int_equal(kt__gguf_open(path, &open, &adapter, &err), KT_OK);
    assert_int_equal(kt__gguf_n_tensors(adapter), 2 * 7); /* A and B of every matrix */
    kt__gguf *gguf = open_converted();
    kt__net *net = bind_madeup(gguf);
    if (kt__lora_file_read(adapter, net, &pack, &err) != KT_OK) fail_msg("%s", err.message);
    kt__lora_pack_free(&pack);
    kt__net_free(net);
    kt__gguf_close(gguf);
    kt__gguf_close(adapter);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synth_from_numbers),
        cmocka_unit_test(test_an_unknown_architecture_is_refused),
        cmocka_unit_test(test_convert_from_a_config),
        cmocka_unit_test(test_an_adapter_of_it),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
