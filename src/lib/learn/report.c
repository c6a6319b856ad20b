#include "learn/report.h"

#include "base/json.h"

static void put_number(kt__buf *out, const char *key, double value, int decimals) {
    kt__json_key(out, key);
    kt__buf_printf(out, "%.*f", decimals, value);
}

static void put_int(kt__buf *out, const char *key, int64_t value) {
    kt__json_key(out, key);
    kt__buf_printf(out, "%lld", (long long)value);
}

static void put_loss(kt__buf *out, const char *key, const kt__learn_loss *loss) {
    kt__json_key(out, key);
    kt__buf_putc(out, '{');
    put_int(out, "tokens", loss->n);
    put_number(out, "before", loss->before, 5);
    put_number(out, "after", loss->after, 5);
    kt__buf_putc(out, '}');
}

static void put_bool(kt__buf *out, const char *key, bool value) {
    kt__json_key(out, key);
    kt__buf_puts(out, value ? "true" : "false");
}

void kt__learn_report_add_training(kt__learn_report *to, const kt__learn_report *from) {
    to->n_step += from->n_step;
    to->n_dropped += from->n_dropped;
    to->n_token += from->n_token;
    to->train_loss = from->train_loss;
    to->cpu_ms += from->cpu_ms;
    to->wall_ms += from->wall_ms;
    to->stopped |= from->stopped;
    to->n_resumed += from->n_resumed;
}

void kt__learn_report_json(const kt__learn_report *r, kt__buf *out) {
    kt__buf_putc(out, '{');
    put_bool(out, "publish", r->publish);
    kt__json_member(out, "why", r->why);
    put_number(out, "quality_delta", r->quality_delta, 3);
    put_number(out, "gain_low", r->gain_low, 3);
    put_number(out, "pair_low", r->pair_low, 3);
    put_loss(out, "held_out", &r->held);
    put_loss(out, "anchor", &r->anchor);
    put_number(out, "anchor_kl", r->anchor_kl, 6);
    put_int(out, "samples_trained", r->n_train);
    put_int(out, "samples_held_out", r->n_held);
    put_int(out, "samples_anchor", r->n_anchor);
    put_bool(out, "scoped", r->scoped);
    put_int(out, "held_out_right", r->n_held_right);
    put_int(out, "corrections", r->n_recall);
    put_int(out, "corrections_recalled", r->recalled);
    put_int(out, "earlier", r->n_earlier);
    put_int(out, "earlier_recalled_before", r->earlier_before);
    put_int(out, "earlier_recalled", r->earlier_kept);
    put_int(out, "neighbours", r->n_neighbour);
    put_int(out, "neighbours_leaked", r->leaks);
    put_int(out, "siblings", r->n_sibling);
    put_int(out, "siblings_leaked", r->sibling_leaks);
    put_int(out, "taught", r->n_taught);
    put_int(out, "taught_right_before", r->taught_before);
    put_int(out, "taught_right", r->taught_after);
    put_int(out, "steps", r->n_step);
    put_int(out, "steps_resumed", r->n_resumed);
    put_int(out, "updates_dropped", r->n_dropped);
    put_int(out, "tokens_trained", r->n_token);
    put_number(out, "train_loss", r->train_loss, 5);
    put_number(out, "share", r->share, 3);
    put_int(out, "cpu_ms", r->cpu_ms);
    put_int(out, "wall_ms", r->wall_ms);
    put_bool(out, "stopped_by_time", r->stopped);
    kt__buf_putc(out, '}');
}
