#include <stdio.h>
#include <string.h>

#include "cli/rig.h"
#include "cli/tune.h"

static const double least_gain = 1.02, least_confidence = 0.9;

bool kt__duel_add(kt__duel *duel, int value, const char *name) {
    if (duel->n == KT__DUEL_MAX) return false;
    for (int i = 0; i < duel->n; i++)
        if (duel->entries[i].value == value) return false;
    kt__duel_entry *entry = &duel->entries[duel->n++];
    memset(entry, 0, sizeof *entry);
    entry->value = value;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return true;
}

/* 1 minus the probability of at least `wins` heads in n throws of a fair coin. */
static double sign_test(int wins, int n) {
    double term = 1, below = 0; /* term: n over k, divided by 2^n at the end */
    for (int k = 0; k < wins; k++) {
        below += term;
        term = term * (n - k) / (k + 1);
    }
    for (int k = 0; k < n; k++) below *= 0.5;
    return below;
}

static void conclude(kt__duel *duel) {
    const kt__duel_entry *standard = &duel->entries[duel->standard];
    double best = least_gain;
    duel->chosen = duel->standard;
    for (int i = 0; i < duel->n; i++) {
        kt__duel_entry *e = &duel->entries[i];
        double speeds[KT__DUEL_ROUNDS], ratios[KT__DUEL_ROUNDS];
        e->wins = 0;
        for (int r = 0; r < duel->n_rounds; r++) {
            speeds[r] = e->tok_s[r];
            ratios[r] = e->tok_s[r] / standard->tok_s[r];
            e->wins += ratios[r] > 1;
        }
        e->median = kt__rig_median(speeds, duel->n_rounds);
        e->ratio = kt__rig_median(ratios, duel->n_rounds);
        e->confidence = sign_test(e->wins, duel->n_rounds);
        if (i == duel->standard || e->ratio < best || e->confidence < least_confidence) continue;
        best = e->ratio;
        duel->chosen = i;
    }
}

kt_status kt__duel_run(kt__duel *duel, kt__duel_fn *fn, void *user, kt_error *err) {
    for (int round = -1; round < duel->n_rounds; round++) {
        for (int k = 0; k < duel->n; k++) {
            int i = round % 2 ? duel->n - 1 - k : k;
            double tok_s;
            kt_status status = fn(user, duel->entries[i].value, &tok_s, err);
            if (status != KT_OK) return status;
            if (round >= 0) duel->entries[i].tok_s[round] = tok_s;
        }
        fprintf(stderr, "\rkentang tune: %s: %d of %d rounds ", duel->what,
                round < 0 ? 0 : round + 1, duel->n_rounds);
    }
    fputs("\n", stderr);
    conclude(duel);
    return KT_OK;
}

void kt__duel_print(const kt__duel *duel) {
    for (int i = 0; i < duel->n; i++) {
        const kt__duel_entry *e = &duel->entries[i];
        char against[64] = "default";
        if (i != duel->standard)
            snprintf(against, sizeof against, "%+.1f%%, faster in %d of %d (%.0f%%)",
                     100 * (e->ratio - 1), e->wins, duel->n_rounds, 100 * e->confidence);
        printf("| %-24s | %-32s | %10.2f | %-34s | %-6s |\n", i ? "" : duel->what, e->name,
               e->median, against, i == duel->chosen ? "chosen" : "");
    }
}
