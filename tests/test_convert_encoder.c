/* convert: a file of an encoder of pictures is quantised as its published form is: matrices of layers and
 * projections take the type, filters, positions, what is turned and vectors stay. */
#include <unistd.h>

#include "convert/convert.h"
#include "quant/recipe.h"
#include "vision_fixture.h"

static const char *const source = "convert_encoder_f16.gguf", *const target =
                                                                  "convert_encoder_q8.gguf";

static kt__type type_of(const kt__gguf *g, const char *name) {
    const kt__gguf_tensor *t = kt__gguf_find_tensor(g, name);
    assert_non_null(t);
    return kt__type_from_ggml(t->type);
}

static kt__gguf *quantise(const char *projector) {
    const kt__quantize_params params = {.source = source, .recipe = kt__recipe_find("q8_0")};
    const kt__convert_output output = {.target = target, .n_threads = 1};
    const kt__gguf_open_params open = {.use_mmap = true};
    kt__convert_report report;
    kt__gguf *g;
    kt_error err;
    eye_write(source, projector, KT__TYPE_F16, 32);
    die_on(kt__quantize_file(&params, &output, &report, &err), &err);
    die_on(kt__gguf_open(target, &open, &g, &err), &err);
    unlink(source);
    unlink(target);
    return g;
}

static void matrices_of_encoders_take_the_type(void **state) {
    static const struct {
        const char *projector, *name;
        kt__type type;
    } cases[] = {
        {"idefics3", "v.blk.0.attn_q.weight", KT__TYPE_Q8_0},
        {"idefics3", "v.blk.1.ffn_down.weight", KT__TYPE_Q8_0},
        {"idefics3", "v.blk.1.attn_q.bias", KT__TYPE_F32},
        {"idefics3", "v.blk.1.ln1.weight", KT__TYPE_F32},
        {"idefics3", "mm.model.fc.weight", KT__TYPE_Q8_0},
        {"gemma3", "v.blk.0.attn_out.weight", KT__TYPE_Q8_0},
        {"gemma3", "mm.soft_emb_norm.weight", KT__TYPE_F32},
        {"gemma3", "mm.input_projection.weight", KT__TYPE_F16},
        {"qwen3vl_merger", "v.deepstack.0.fc1.weight", KT__TYPE_Q8_0},
        {"qwen3vl_merger", "v.deepstack.0.norm.weight", KT__TYPE_F32},
        {"qwen3vl_merger", "mm.2.weight", KT__TYPE_Q8_0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__gguf *g = quantise(cases[i].projector);
        print_message("%s of %s\n", cases[i].name, cases[i].projector);
        assert_int_equal(type_of(g, cases[i].name), cases[i].type);
        kt__gguf_close(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrices_of_encoders_take_the_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
