/* What the server counts, and Prometheus' text of it.
 *
 * Owns: histograms over finished requests of each model, counts of HTTP answers and refusals; reads
 * the engines' own counts and the cgroup's and process's figures when asked. Never waits for a
 * computation. Any thread. */
#ifndef KT_SERVICES_METRICS_H
#define KT_SERVICES_METRICS_H

#include <kentang.h>

#include "base/buf.h"
#include "services/models.h"

typedef struct kt__metrics kt__metrics;

/* X(name, metric, help): histograms for each model, in seconds unless the name says otherwise */
#define KT__HISTOGRAM_LIST(X)                                                                    \
    X(KT__HIST_FIRST, "time_to_first_token_seconds", "from the arrival to the first token")      \
    X(KT__HIST_GAP, "inter_token_latency_seconds", "between two tokens of an answer")            \
    X(KT__HIST_ALL, "inference_duration_seconds", "from the arrival to the end of an answer")    \
    X(KT__HIST_QUEUE, "request_queue_time_seconds", "waiting to be started or resumed")          \
    X(KT__HIST_TOKENIZE, "request_tokenize_time_seconds", "in the template and the tokenizer")   \
    X(KT__HIST_PREFILL, "request_prefill_time_seconds", "in batches of the prompt")              \
    X(KT__HIST_DECODE, "request_decode_time_seconds", "in batches of the answer")                \
    X(KT__HIST_SAMPLE, "request_sampling_time_seconds", "in the sampler, text and stop strings") \
    X(KT__HIST_RATE, "request_tokens_per_second", "tokens a second after the first token")

typedef enum kt__histogram_id {
#define X(name, metric, help) name,
    KT__HISTOGRAM_LIST(X)
#undef X
        KT__HISTOGRAMS
} kt__histogram_id;

kt_status KT_CHECKED kt__metrics_create(kt__models *models, kt__metrics **out, kt_error *err);
void kt__metrics_free(kt__metrics *metrics);
/* From now on the figures of learning are there; before anything else is asked of it. */
void kt__metrics_show_learning(kt__metrics *metrics);

void kt__metrics_observe(kt__metrics *metrics, const kt__served *model, kt__histogram_id id,
                         double value);
/* All of a finished choice. */
void kt__metrics_finished(kt__metrics *metrics, const kt__served *model,
                          const kt_request_report *report);
/* An answer of HTTP, or of the socket with code 0 or the error's HTTP status. route: a constant. */
void kt__metrics_answer(kt__metrics *metrics, const char *route, int code);
/* by: +1 and -1. interface: a constant, "http" or "socket". */
void kt__metrics_connection(kt__metrics *metrics, bool socket, int by);
/* A connection that found no room. */
void kt__metrics_refused(kt__metrics *metrics, bool socket);
void kt__metrics_write(kt__metrics *metrics, kt__buf *out);

/* What the system says of the process, as Prometheus' text.
 *
 * Owns: reading /proc and the cgroup when asked. Keeps nothing. Any thread. */

/* The two comment lines before the samples of kentang_NAME. */
void kt__metric_head(kt__buf *out, const char *name, const char *type, const char *help);
void kt__system_metrics_write(kt__buf *out);

#endif
