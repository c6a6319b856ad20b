#include "measure/plot_scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double largest = 1e30; /* beyond it, differences of doubles may be no numbers */

bool kt__scale_takes(bool log, double value) {
    return isfinite(value) && fabs(value) < largest && (!log || value > 1 / largest);
}

void kt__scale_widen(bool log, double value, double *low, double *high) {
    if (!kt__scale_takes(log, value)) return;
    if (value < *low) *low = value;
    if (value > *high) *high = value;
}

/* 1, 2 or 5 times a power of ten, so that about n of them make the range. */
static double round_step(double range, int n) {
    double raw = range / n, power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

static void linear_ticks(kt__scale *s, bool round, int n_ticks) {
    double step = round_step(s->high - s->low, n_ticks > 0 ? n_ticks : 1);
    if (round) {
        s->low = step * floor(s->low / step + 1e-9);
        s->high = step * ceil(s->high / step - 1e-9);
    }
    double places = -floor(log10(step) + 1e-9);
    s->decimals = places <= 0 ? 0 : places > 12 ? 12 : (int)places;
    for (double k = ceil(s->low / step - 1e-9); s->n_ticks < KT__SCALE_MAX_TICKS; k++) {
        if (k * step > s->high + step * 1e-6) break;
        s->ticks[s->n_ticks++] = k == 0 ? 0 : k * step;
    }
}

/* Powers of ten, as many as there is room for. */
static void log_ticks(kt__scale *s, bool round, int n_ticks) {
    if (round || s->high - s->low < 1) {
        s->low = floor(s->low + 1e-9);
        s->high = ceil(s->high - 1e-9);
    }
    double step = ceil((s->high - s->low) / (n_ticks > 0 ? n_ticks : 1));
    for (double k = ceil(s->low - 1e-9); s->n_ticks < KT__SCALE_MAX_TICKS; k += step) {
        if (k > s->high + 1e-9) break;
        s->ticks[s->n_ticks++] = pow(10, k);
    }
}

void kt__scale_make(bool log, double low, double high, bool round, int n_ticks, kt__scale *out) {
    *out = (kt__scale){.log = log, .to = 1};
    if (!(low <= high)) low = log ? 1 : 0, high = log ? 10 : 1;
    out->low = log ? log10(low) : low;
    out->high = log ? log10(high) : high;
    if (out->high - out->low < 1e-9 * fabs(out->high) || out->high <= out->low) {
        double half = log ? 0.5 : out->high == 0 ? 0.5 : 0.1 * fabs(out->high);
        bool zero = !log && low == 0; /* an axis that begins at 0 still does */
        out->low -= zero ? 0 : half;
        out->high += half;
    }
    (log ? log_ticks : linear_ticks)(out, round, n_ticks);
}

void kt__scale_set_ticks(kt__scale *scale, const double *values, int n) {
    scale->n_ticks = 0;
    scale->decimals = -1;
    for (int i = 0; i < n && i < KT__SCALE_MAX_TICKS; i++)
        scale->ticks[scale->n_ticks++] = values[i];
}

double kt__scale_at(const kt__scale *s, double value) {
    double at = s->log ? log10(value) : value;
    return s->from + (at - s->low) / (s->high - s->low) * (s->to - s->from);
}

/* 2000000: 2M */
static const char *short_text(double value, int decimals, char out[KT__NUMBER_BYTES]) {
    static const char *const units[] = {"", "k", "M", "G", "T"};
    size_t unit = 0;
    double size = fabs(value);
    if (size >= 1e5)
        for (; size >= 1000 && unit + 1 < sizeof units / sizeof *units; size /= 1000) unit++;
    if (size >= 1e5) {
        snprintf(out, KT__NUMBER_BYTES, "%.1e", value);
    } else if (unit) {
        snprintf(out, KT__NUMBER_BYTES, "%s%.4g%s", value < 0 ? "-" : "", size, units[unit]);
    } else {
        snprintf(out, KT__NUMBER_BYTES, "%.*f", decimals, value);
    }
    return out;
}

const char *kt__scale_text(const kt__scale *s, int tick, char out[KT__NUMBER_BYTES]) {
    double value = s->ticks[tick], size = fabs(value);
    if (size > 0 && size < 1e-4) {
        snprintf(out, KT__NUMBER_BYTES, "%.0e", value);
        return out;
    }
    if (!s->log && s->decimals >= 0) return short_text(value, s->decimals, out);
    if (size >= 1e5) return short_text(value, 0, out);
    snprintf(out, KT__NUMBER_BYTES, "%.6g", value);
    return out;
}
