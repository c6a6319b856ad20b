/* Sites of adapters: each lies in a tensor that the model has, in synthetic models of every architecture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "model/lora.h"
#include "model/net.h"
#include "synth/synth.h"

static kt_error err;

/* How many sites begin in tensors of the layers. */
static int check_sites(const kt__gguf *gguf, const kt__net *net) {
    int n = 0;
    for (int block = 0; block < net->hp.n_layer; block++) {
        for (int site = 0; site < KT__SITES; site++) {
            char name[64];
            int n_sites, n_row, n_col, rows = 0;
            kt__lora_site_tensor(net, block, (kt__lora_site)site, name, &n_sites);
            if (n_sites == 0) continue;
            const kt__gguf_tensor *t = kt__gguf_find_tensor(gguf, name);
            if (!t) fail_msg("%s: there is no %s", net->hp.arch, name);
            for (int i = 0; i < n_sites; i++) {
                kt__lora_shape(net, block, (kt__lora_site)(site + i), &n_row, &n_col);
                rows += n_row;
            }
            if (!net->state_floats) { /* adapters of models with a state are refused */
                assert_int_equal(t->ne[0], n_col);
                assert_int_equal(t->ne[1], rows);
            }
            n++;
        }
    }
    return n;
}

static void test_sites_lie_in_tensors(void **state) {
    (void)state;
    for (size_t p = 0; p < kt__synth_n_presets(); p++) {
        const kt__synth_preset *ps = kt__synth_preset_at(p);
        kt__synth_plan plan;
        kt__synth_image image;
        kt__gguf *gguf;
        kt__net *net;
        if (strncmp(ps->name, "tiny-", 5) != 0) continue;
        assert_int_equal(kt__synth_plan_make(ps, kt__recipe_find("q4_0"), 1, 0, &plan, &err),
                         KT_OK);
        assert_int_equal(kt__synth_image_make(&plan, 2, &image, &err), KT_OK);
        assert_int_equal(kt__gguf_open_memory(image.data, image.size, false, &gguf, &err), KT_OK);
        assert_int_equal(kt__net_bind(gguf, NULL, &net, &err), KT_OK);
        int n = check_sites(gguf, net);
        if (net->hp.features & KT__F_LATENT) assert_int_equal(n, 0);
        if (strcmp(ps->arch, "llama") == 0) assert_int_equal(n, 7 * net->hp.n_layer);
        if (strcmp(ps->arch, "phi3") == 0) assert_int_equal(n, 4 * net->hp.n_layer);
        kt__net_free(net);
        kt__gguf_close(gguf);
        kt__synth_image_free(&image);
        kt__synth_plan_free(&plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sites_lie_in_tensors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
