#include "context/page_job.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/page_use.h"
#include "host/relay.h"

enum { STACK_BYTES = 128 << 10 };

struct kt__page_job {
    const kt__gguf *gguf;
    kt__idle_thread idle;
    /* under its lock */
    bool running;
    kt__relay_end end;
};

kt_status kt__page_job_create(const kt__gguf *gguf, const kt__activity *activity,
                              kt__page_job **out, kt_error *err) {
    *out = NULL;
    kt__page_job *job = kt__calloc(1, sizeof *job);
    if (!job) return kt__fail_nomem(err, "the pages of a model", sizeof *job);
    kt_status status = kt__idle_thread_init(&job->idle, activity, err);
    if (status != KT_OK) {
        kt__free(job);
        return status;
    }
    job->gguf = gguf;
    *out = job;
    return KT_OK;
}

void kt__page_job_destroy(kt__page_job *job) {
    if (!job) return;
    kt__idle_thread_free(&job->idle);
    kt__free(job);
}

static bool wait_for_idle(void *job) {
    return kt__idle_thread_wait(&((kt__page_job *)job)->idle);
}

/* Not of the lowest priority: while pages are read, threads that change the process's mappings wait. */
static void *relay_parts(void *arg) {
    kt__page_job *job = arg;
    kt__relay_end end = KT__RELAY_LARGE;
    for (int i = 0; i < kt__gguf_n_parts(job->gguf) && end <= KT__RELAY_LARGE; i++) {
        const uint8_t *data;
        uint64_t size;
        const kt__filemap *map = kt__gguf_part_bytes(job->gguf, i, &data, &size);
        if (!map || !map->mapped) continue;
        kt__relay_end of_part = kt__relay_run(map, wait_for_idle, job);
        if (of_part != KT__RELAY_LARGE) end = of_part;
    }
    pthread_mutex_lock(&job->idle.lock);
    job->end = end;
    job->running = false;
    pthread_mutex_unlock(&job->idle.lock);
    return NULL;
}

kt_status kt__page_job_start(kt__page_job *job, kt_error *err) {
    int rc = 0;
    pthread_mutex_lock(&job->idle.lock);
    if (!job->idle.started) {
        rc = kt__idle_thread_start(&job->idle, "kt-pages", STACK_BYTES, relay_parts, job);
        job->running = rc == 0;
    }
    pthread_mutex_unlock(&job->idle.lock);
    if (rc == 0) return KT_OK;
    return kt__fail(err, KT_E_NOMEM, "no thread for the model's pages: %s", strerror(rc));
}

static void count_pages(const kt__gguf *gguf, kt_pages_info *out) {
    for (int i = 0; i < kt__gguf_n_parts(gguf); i++) {
        const uint8_t *data;
        uint64_t size;
        kt__page_use use;
        const kt__filemap *map = kt__gguf_part_bytes(gguf, i, &data, &size);
        bool known = map ? kt__page_use_of_file(map, &use) : kt__page_use_at("", data, size, &use);
        out->bytes += size;
        if (!known) continue;
        out->mapped_bytes += use.mapped_bytes;
        out->large_bytes += use.large_bytes;
    }
}

void kt__page_job_get(kt__page_job *job, kt_pages_info *out) {
    static const char *const ends[] = {
        [KT__RELAY_DONE] = "read again into large pages",
        [KT__RELAY_LARGE] = "nothing to do",
        [KT__RELAY_STOPPED] = "stopped",
        [KT__RELAY_SLOW] = "left as they are: the disk is slow",
        [KT__RELAY_SHARED] = "left as they are: another process uses the file",
        [KT__RELAY_UNKNOWN] = "left as they are: the system does not offer it here",
    };
    *out = (kt_pages_info){.ended = ""};
    count_pages(job->gguf, out);
    pthread_mutex_lock(&job->idle.lock);
    out->running = job->running;
    if (job->idle.started && !job->running) out->ended = ends[job->end];
    pthread_mutex_unlock(&job->idle.lock);
}
