#include "measure/limits.h"

#include <stdio.h>

#include "base/error.h"
#include "convert/convert.h"
#include "gguf/gguf.h"
#include "measure/figures.h"

/* Of the short measurement: writing what is read, and reading it. */
enum { WRITE_US = 150000, READ_US = 100000 };

/* The share of free memory that weights may take: keys and values, and others, need some. */
static const double weights_share = 0.75;
/* Below this, waiting costs more than the next better recipe gains: about reading speed. */
static const double slow_tok_s = 6.0;

static const char *const by_quality[KT__ADVICE_ROWS] = {"q8_0",   "q6_k",   "q5_k_m", "q4_k_m",
                                                        "q4_k_s", "iq4_xs", "q3_k_m", "q2_k"};

static void choose_row(kt__advice *a) {
    size_t i = 0;
    while (i < KT__ADVICE_ROWS && !a->rows[i].fits) i++;
    a->best = i;
    if (i == KT__ADVICE_ROWS) {
        snprintf(a->why, sizeof a->why, "none fits into the free memory: take a smaller model");
        return;
    }
    size_t largest = i;
    while (i + 1 < KT__ADVICE_ROWS && a->rows[i].tok_s > 0 && a->rows[i].tok_s < slow_tok_s &&
           i < 5) /* three bits are not worth a little speed */
        i++;
    a->best = i;
    if (i != largest)
        snprintf(a->why, sizeof a->why, "%s fits, too, but would say at most %.1f tokens a second",
                 a->rows[largest].recipe, a->rows[largest].tok_s);
    else if (i == 0)
        snprintf(a->why, sizeof a->why, "the nearest to the original, and it fits");
    else
        snprintf(a->why, sizeof a->why, "the best that fits: %s would take %.0f MiB",
                 a->rows[i - 1].recipe, (double)a->rows[i - 1].bytes / (1 << 20));
}

/* Whether a matrix of the file has blocks: it is quantised already. */
static kt_status look_at_types(const char *model, bool *quantised, kt_error *err) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__gguf *g;
    kt_status status = kt__gguf_open(model, &params, &g, err);
    if (status != KT_OK) return status;
    *quantised = false;
    for (size_t i = 0; i < kt__gguf_n_tensors(g); i++) {
        uint32_t elems, bytes;
        bool known = kt__gguf_tensor_type_layout(kt__gguf_tensor_at(g, i)->type, &elems, &bytes);
        *quantised = *quantised || (known && elems > 1);
    }
    kt__gguf_close(g);
    return KT_OK;
}

kt_status kt__advise(const char *model, uint64_t memory, double read_bytes_per_s, kt__advice *out,
                     kt_error *err) {
    for (size_t i = 0; i < KT__ADVICE_ROWS; i++) {
        kt__advice_row *row = &out->rows[i];
        *row = (kt__advice_row){.recipe = by_quality[i]};
        kt_status status = kt__quantize_bytes(model, kt__recipe_find(by_quality[i]), &row->bytes,
                                              err);
        if (status != KT_OK) return status;
        row->fits = (double)row->bytes <= weights_share * (double)memory;
        row->tok_s = read_bytes_per_s / (double)row->bytes;
    }
    choose_row(out);
    return look_at_types(model, &out->from_original, err);
}

/* Bytes a second of all threads that kentang would use; 0: it cannot be measured. */
static double measure_read_shortly(const kt__limits *limits) {
    kt__topology topology;
    kt__random_file file;
    kt__pool *pool;
    kt_error ignored;
    char why[128];
    double read = 0.0;
    kt__topology_detect(&topology);
    int n = kt__threads_default(&topology, limits, why, sizeof why);
    uint64_t size = kt__random_file_size(&topology, limits);
    if (n > KT__POOL_MAX_THREADS) n = KT__POOL_MAX_THREADS;
    if (kt__pool_create(n, &pool, &ignored) != KT_OK) return 0.0;
    if (kt__random_file_open(size, WRITE_US, &file, &ignored) == KT_OK) {
        (void)kt__measure_read(pool, n, file.data, file.size, 0); /* maps the pages */
        read = kt__measure_read(pool, n, file.data, file.size, READ_US);
        kt__random_file_close(&file);
    }
    kt__pool_destroy(pool);
    return read;
}

void kt__advice_machine(uint64_t *memory, double *read_bytes_per_s) {
    kt__limits limits;
    kt__limits_read(&limits);
    *memory = kt__mem_budget_default(&limits);
    *read_bytes_per_s = measure_read_shortly(&limits);
}

kt_status kt__advise_here(const char *model, kt__advice *out, kt_error *err) {
    kt__limits limits;
    kt__limits_read(&limits);
    kt_status status = kt__advise(model, kt__mem_budget_default(&limits), 0.0, out, err);
    if (status != KT_OK) return status; /* and nothing is measured */
    return kt__advise(model, kt__mem_budget_default(&limits), measure_read_shortly(&limits), out,
                      err);
}

json_t *kt__advice_json(const kt__advice *a) {
    json_t *rows = json_array();
    for (size_t i = 0; i < KT__ADVICE_ROWS; i++) {
        const kt__advice_row *row = &a->rows[i];
        json_array_append_new(rows, json_pack("{s:s, s:I, s:o, s:b}", "recipe", row->recipe,
                                              "bytes", (json_int_t)row->bytes, "tok_s_at_most",
                                              kt__json_positive(row->tok_s), "fits", row->fits));
    }
    bool any = a->best < KT__ADVICE_ROWS;
    return json_pack("{s:o, s:s, s:b, s:o}", "recommended",
                     any ? json_string(a->rows[a->best].recipe) : json_null(), "why", a->why,
                     "from_original", a->from_original, "recipes", rows);
}

void kt__advice_print(const kt__advice *a) {
    bool measured = a->rows[0].tok_s > 0;
    printf("\n%-10s%10s%s\n", "recipe", "MiB", measured ? "   tokens a second, at most" : "");
    for (size_t i = 0; i < KT__ADVICE_ROWS; i++) {
        const kt__advice_row *row = &a->rows[i];
        printf("%-10s%10.0f", row->recipe, (double)row->bytes / (1 << 20));
        if (measured) printf("%27.1f", row->tok_s);
        printf("%s\n", i == a->best ? "   recommended" : row->fits ? "" : "   does not fit");
    }
    if (a->best < KT__ADVICE_ROWS)
        printf("recommended: %s: %s\n", a->rows[a->best].recipe, a->why);
    else
        printf("%s\n", a->why);
    if (a->from_original)
        puts("this file is quantised already: a recipe wants the weights from before that");
}
