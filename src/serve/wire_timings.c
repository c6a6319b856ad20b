/* Where an answer's time went, as every interface tells it. */
#include "base/json_out.h"
#include "serve/metrics.h"
#include "serve/wire.h"

void kt__wire_write_timings(kt__buf *out, const kt_request_report *r) {
    (void)kt__buf_printf(
        out,
        ",\"timings\":{\"total_ms\":%.3f,\"first_token_ms\":%.3f,\"tokenize_ms\":%.3f,"
        "\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"sample_ms\":%.3f,"
        "\"wait_ms\":%.3f,\"held_ms\":%.3f,\"tokens_per_second\":%.2f,\"preempted\":%d,"
        "\"drafted\":%d,\"accepted\":%d,\"bottleneck\":",
        (double)r->total_us / 1e3, (double)r->first_token_us / 1e3, (double)r->tokenize_us / 1e3,
        (double)r->queue_us / 1e3, (double)r->prefill_us / 1e3, (double)r->decode_us / 1e3,
        (double)r->sample_us / 1e3, (double)r->wait_us / 1e3, (double)r->held_us / 1e3,
        kt__tokens_per_second(r), r->n_preempted, r->n_drafted, r->n_accepted);
    const char *bottleneck = r->bottleneck ? r->bottleneck : "";
    kt__json_text(out, bottleneck);
    (void)kt__buf_putc(out, '}');
}
