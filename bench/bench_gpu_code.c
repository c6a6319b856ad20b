/* The machine code of the products, for a chip that need not be there: makes their pipelines, so that the driver
 * prints them. Read by bench/gpu_code, which counts their instructions.
 *
 *   bench_gpu_code DEVICE TYPE one|tile|one_dots|tile_dots */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/steps.h"

static const struct {
    const char *name;
    kt__gpu_shader shader;
} shaders[] = {{"one", KT__SHADER_mm_one},
               {"tile", KT__SHADER_mm_tile},
               {"one_dots", KT__SHADER_mm_one_dots},
               {"tile_dots", KT__SHADER_mm_tile_dots}};

int main(int argc, char **argv) {
    const kt__gpu_faults untested = {.untested = true};
    kt__gpu *gpu;
    kt_error err;
    if (argc != 4) {
        fprintf(stderr, "usage: bench_gpu_code DEVICE TYPE one|tile|one_dots|tile_dots\n");
        return 2;
    }
    if (kt__gpu_open(argv[1], NULL, &untested, &gpu, &err) != KT_OK) {
        fprintf(stderr, "bench_gpu_code: %s\n", err.message);
        return 1;
    }
    printf("device: %s, byte dots in hardware: %s\n", kt__gpu_get_info(gpu)->name,
           gpu->found.facts.has_fast_dots ? "yes" : "no");
    fflush(stdout);
    bool made = false;
    for (size_t s = 0; s < sizeof shaders / sizeof *shaders; s++)
        for (int t = 0; t < KT__TYPE_COUNT; t++) {
            kt__gpu_product_kind how = kt__gpu_product_of((kt__type)t);
            if (how.in_units && strcmp(shaders[s].name, argv[3]) == 0 &&
                strcmp(kt__type_get((kt__type)t)->name, argv[2]) == 0)
                made = kt__gpu_pipeline(gpu, shaders[s].shader, how.kind) != VK_NULL_HANDLE;
        }
    fflush(stdout);
    _exit(made ? 0 : 1); /* drivers of chips that are absent do not close */
}
