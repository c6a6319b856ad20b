#include "lab/advice.h"

#include <stdio.h>

#include "convert/quantize.h"

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
    return KT_OK;
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
}
