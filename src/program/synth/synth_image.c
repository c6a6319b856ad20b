/* A synthetic model in memory. The pages are those of an unnamed file in memory, as small as a
 * mapped file's are: anonymous memory may get huge pages and would flatter the measurement
 * on it. / */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "host/host.h"
#include "host/pool.h"
#include "synth/synth.h"

enum { ROWS_GRAIN = 16 };

kt_status kt__synth_put_header(const kt__synth_plan *plan, const kt__gguf *from, kt__gguf_writer *w,
                               kt_error *err) {
    kt__synth_put_meta(plan, w);
    kt_status status = kt__synth_put_vocab(plan, from, w, err);
    if (status != KT_OK) return status;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const kt__synth_tensor *t = &plan->tensors[i];
        uint64_t depth = t->n_dims == 3 ? (uint64_t)t->n_expert : 1;
        const uint64_t ne[3] = {(uint64_t)t->n_cols, (uint64_t)t->n_rows / depth, depth};
        kt__gguf_declare_tensor(w, t->name, kt__type_get(t->type)->ggml_id, t->n_dims, ne);
    }
    return KT_OK;
}

static kt_status check_room(uint64_t bytes, kt_error *err) {
    kt__limits limits;
    kt__limits_read(&limits);
    uint64_t room = kt__mem_budget_default(&limits);
    if (bytes < room - room / 8) return KT_OK;
    return kt__fail(err, KT_E_NOMEM,
                    "this model would take %.1f GiB of memory and %.1f are available: choose a "
                    "smaller preset or quantisation",
                    (double)bytes / (1 << 30), (double)room / (1 << 30));
}

static kt_status map_image(uint64_t bytes, kt__synth_image *out, kt_error *err) {
    void *data = MAP_FAILED;
    kt_status status = check_room(bytes, err);
    if (status != KT_OK) return status;
    int fd = memfd_create("kentang-model", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (data == MAP_FAILED) return kt__fail_nomem(err, "a model in memory", (size_t)bytes);
    *out = (kt__synth_image){data, (size_t)bytes};
    return KT_OK;
}

static kt_status make_header(const kt__synth_plan *plan, kt__synth_image *out, kt_error *err) {
    kt_status status;
    kt__gguf_writer *w = NULL;
    char *head = NULL;
    size_t head_bytes = 0;
    uint64_t data_bytes = 0;
    KT__TRY(kt__gguf_writer_open_memory(&w, err));
    KT__TRY(kt__synth_put_header(plan, NULL, w, err));
    status = kt__gguf_writer_take_header(w, &head, &head_bytes, &data_bytes, err);
    w = NULL;
    if (status != KT_OK) goto out;
    KT__TRY(map_image(head_bytes + data_bytes, out, err));
    memcpy(out->data, head, head_bytes);
out:
    kt__gguf_writer_abort(w);
    kt__free(head);
    return status;
}

typedef struct fill_job {
    const kt__synth_plan *plan;
    size_t tensor, row_bytes;
    uint8_t *out;
} fill_job;

static void fill_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const fill_job *job = arg;
    (void)worker;
    kt__synth_fill(job->plan, job->tensor, begin, end, job->out + (size_t)begin * job->row_bytes);
}

static kt_status fill_image(const kt__synth_plan *plan, int n_threads, kt__synth_image *image,
                            kt_error *err) {
    kt_status status;
    kt__gguf *gguf = NULL;
    kt__pool *pool = NULL;
    KT__TRY(kt__gguf_open_memory(image->data, image->size, false, &gguf, err));
    KT__TRY(kt__pool_create(n_threads, &pool, err));
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const kt__synth_tensor *t = &plan->tensors[i];
        const kt__gguf_tensor *place = kt__gguf_find_tensor(gguf, t->name);
        size_t at = (size_t)(place->data - (const uint8_t *)image->data);
        fill_job job = {plan, i, kt__type_row_bytes(t->type, t->n_cols),
                        (uint8_t *)image->data + at};
        kt__pool_run(pool, t->n_rows, ROWS_GRAIN, fill_rows, &job);
    }
out:
    kt__pool_destroy(pool);
    kt__gguf_close(gguf);
    return status;
}

kt_status kt__synth_image_make(const kt__synth_plan *plan, int n_threads, kt__synth_image *out,
                               kt_error *err) {
    memset(out, 0, sizeof *out);
    kt_status status = make_header(plan, out, err);
    if (status == KT_OK) status = fill_image(plan, n_threads, out, err);
    if (status != KT_OK) kt__synth_image_free(out);
    return status;
}

void kt__synth_image_free(kt__synth_image *image) {
    if (image->data) munmap(image->data, image->size);
    memset(image, 0, sizeof *image);
}
