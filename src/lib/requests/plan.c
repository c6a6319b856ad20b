#include "requests/plan.h"

#include "base/error.h"
#include "host/pages.h"
#include "kv/f16_copies.h"
#include "requests/draft.h"
#include "sched/sched.h"

enum {
    DEFAULT_CTX = 4096, /* and more, where an eighth of what is free holds its K/V: */
    MOST_DEFAULT_CTX = 32768,
    DEFAULT_CTX_SHARE = 8,
    DEFAULT_BATCH = 2048,
    DEFAULT_UBATCH = 512,
    DEFAULT_SEQS = 8,
    DEFAULT_PARALLEL = 16,
    DEFAULT_QUEUE = 256,
    DEFAULT_GAP_MS = 200,
    DEFAULT_DRAFT = 8,
    DEFAULT_TAIL = 256,
    MOST_TAIL = 1 << 18,
    MAX_SEQS = 4096,
    LEAST_CTX = 512, /* defaults shrink to these where memory is short */
    LEAST_UBATCH = 64,
    BRANCH_WINDOWS = 4, /* that are kept besides those of answers */
    MOST_PAGES = 1 << 30,
    USUAL_POS = 1024, /* positions that an answer among many is given room for */
    OUT_ROWS = 32,
    SMALL_STATE = 1 << 20, /* bytes: copies cost next to nothing */
    LARGE_PARALLEL = 4,    /* answers and sequences by default, where a state is larger */
    LARGE_DRAFT = 3,       /* tokens proposed by default */
    FREE_SHARE = 16,       /* of the budget, where experts take what is left */
    LEAST_SNAPSHOTS = 8,
    MOST_SNAPSHOTS = 256,
    STEP_ROWS = 32,              /* of decode steps with speculation */
    PROCESS_BYTES = 20 << 20,    /* code, libraries, stacks, what tables do not say */
    VOCAB_ENTRY_BYTES = 240,     /* tokenizer, sampler scratch, constraints' tries */
    REQUEST_BYTES = 48 << 10,    /* buffers of a request, besides its tokens */
    INDEX_ENTRY_BYTES = 3 * 144, /* prefix index, per page */
    LEAST_CONSTRAINTS = 8 << 20, /* with the masks: room for one */
    MASK_ENTRY_BYTES = 9,
    MOST_CONSTRAINTS = 256 << 20
};

/* ---- arguments ---- */

kt_engine_params kt_engine_params_default(void) {
    return (kt_engine_params){0};
}

static kt_status check_range(const char *name, int64_t value, int64_t high, kt_error *err) {
    if (value >= 0 && value <= high) return KT_OK;
    return kt__fail(err, KT_E_ARG, "%s is %lld, expected 0 (default) to %lld", name,
                    (long long)value, (long long)high);
}

static kt_status check_params(const kt_engine_params *p, kt_error *err) {
    KT__STEP(check_range("n_ctx", p->n_ctx, KT__MAX_CTX, err));
    KT__STEP(check_range("n_batch", p->n_batch, KT_BATCH_MAX, err));
    KT__STEP(check_range("n_ubatch", p->n_ubatch, KT_UBATCH_MAX, err));
    KT__STEP(check_range("n_seq_max", p->n_seq_max, MAX_SEQS, err));
    KT__STEP(check_range("n_threads", p->n_threads, KT__POOL_MAX_THREADS, err));
    KT__STEP(check_range("n_threads_batch", p->n_threads_batch, KT__POOL_MAX_THREADS, err));
    KT__STEP(check_range("n_parallel", p->n_parallel, KT__SCHED_LANES_MAX, err));
    KT__STEP(check_range("n_queue_max", p->n_queue_max, KT_QUEUE_MAX, err));
    KT__STEP(check_range("gap_ms", p->gap_ms, 1 << 20, err));
    KT__STEP(check_range("target_latency_ms", p->target_latency_ms, 1 << 20, err));
    if (!(p->min_throughput >= 0 && p->min_throughput <= 1e9))
        return kt__fail(err, KT_E_ARG, "min_throughput is %g, expected 0 (default) to 1e9",
                        p->min_throughput);
    if (!(p->memory_threshold >= 0 && p->memory_threshold <= 1))
        return kt__fail(err, KT_E_ARG, "memory_threshold is %g, expected 0 (default) to 1",
                        p->memory_threshold);
    KT__STEP(check_range("n_draft", p->n_draft + (p->n_draft == -1), KT_DRAFT_MAX, err));
    KT__STEP(check_range("draft_from", p->draft_from, KT_DRAFT_FROMS - 1, err));
    KT__STEP(check_range("kv_keys", p->kv_keys, KT_KV_TYPES - 1, err));
    KT__STEP(check_range("kv_values", p->kv_values, KT_KV_TYPES - 1, err));
    KT__STEP(check_range("kv_pressure", p->kv_pressure, KT_KV_PRESSURES - 1, err));
    return check_range("kv_tail", p->kv_tail + (p->kv_tail == -1), MOST_TAIL, err);
}

static int32_t first_set(int32_t given, int32_t otherwise) {
    return given ? given : otherwise;
}

static bool is_encoder(const kt_model *model) {
    return model->net->hp.features & KT__F_ENCODER;
}

/* An encoder computes a text in one piece: a batch has rows for the longest. Nothing is drafted,
 * and keys and values, which are read both ways and by one layer alone, stay as computed. */
static void hold_whole_texts(const kt_model *model, const kt_engine_params *given,
                             kt_engine_params *p) {
    const kt__hparams *hp = &model->net->hp;
    if (!is_encoder(model)) return;
    int64_t most = hp->features & KT__F_POSITIONS ? hp->n_ctx_train : KT_UBATCH_MAX;
    if (most > KT_UBATCH_MAX) most = KT_UBATCH_MAX;
    if (!given->n_ctx && hp->n_ctx_train < most) most = hp->n_ctx_train;
    if (p->n_ctx > most) p->n_ctx = (int32_t)most;
    p->n_ubatch = first_set(given->n_ubatch, DEFAULT_UBATCH);
    if (p->n_ubatch < p->n_ctx) p->n_ubatch = p->n_ctx;
    if (p->n_batch < p->n_ubatch) p->n_batch = p->n_ubatch;
    p->n_draft = 0;
    p->draft = NULL;
    p->kv_keys = p->kv_values = KT_KV_F16;
    p->kv_tail = 0;
    p->kv_pressure = KT_KV_PRESSURE_OFF;
}

/* Rows of a picture that see each other are computed in one batch. */
static void hold_whole_pictures(const kt_model *model, kt_engine_params *p) {
    const kt__vision *v = model->vision;
    if (!v || !(v->family->has & KT__EYE_BOTH_WAYS)) return;
    if (p->n_ubatch < v->n_rows) p->n_ubatch = v->n_rows;
    if (p->n_batch < p->n_ubatch) p->n_batch = p->n_ubatch;
}

/* How many positions; more than the context would be as good as all. */
static int32_t tail_of(const kt_engine_params *p) {
    bool quantising = p->kv_keys != KT_KV_F16 || p->kv_values != KT_KV_F16;
    bool four = p->kv_keys == KT_KV_Q4_0 || p->kv_values == KT_KV_Q4_0;
    if (!quantising || p->kv_tail < 0) return 0;
    return p->kv_tail || !four ? p->kv_tail : DEFAULT_TAIL;
}

static size_t page_bytes_of(const kt_model *model, const kt_engine_params *p) {
    kt__kv_shape shape = kt__engine_kv_shape(model, p);
    return kt__kv_page_bytes(&shape);
}

/* As long as the model was trained for, as far as the K/V of one such sequence takes no more than
 * its share of what is left. */
static int32_t default_ctx(const kt_model *model, const kt_engine_params *p, uint64_t left) {
    uint64_t pages = left / DEFAULT_CTX_SHARE / page_bytes_of(model, p);
    int64_t n_train = model->net->hp.n_ctx_train, n = DEFAULT_CTX;
    while (n < n_train && n < MOST_DEFAULT_CTX && (uint64_t)(2 * n / KT__PAGE_POS) <= pages) n *= 2;
    return (int32_t)(n_train < n ? n_train : n);
}

static uint64_t state_bytes_of(const kt_model *model) {
    return model->net->state_floats * sizeof(float);
}

/* A large state is room for many positions: fewer of them by default. */
static void spare_states(const kt_engine_params *given, kt_engine_params *p) {
    bool parallel = given->n_parallel || given->n_seq_max;
    if (!parallel && p->n_parallel > LARGE_PARALLEL) p->n_parallel = LARGE_PARALLEL;
    if (!given->n_seq_max && p->n_seq_max > LARGE_PARALLEL) p->n_seq_max = LARGE_PARALLEL;
    if (!given->n_draft && p->n_draft > LARGE_DRAFT) p->n_draft = LARGE_DRAFT;
}

static kt_engine_params with_defaults(const kt_model *model, const kt_engine_params *given,
                                      uint64_t left) {
    kt_engine_params p = *given;
    int n_pool = kt__pool_size(model->ctx->pool);
    int64_t n_train = model->net->hp.n_ctx_train;
    p.n_draft = p.n_draft < 0 || is_encoder(model) ? 0 : first_set(p.n_draft, DEFAULT_DRAFT);
    if (!p.n_ctx && is_encoder(model))
        p.n_ctx = (int32_t)(n_train < KT_UBATCH_MAX ? n_train : KT_UBATCH_MAX);
    if (!p.n_ctx) p.n_ctx = default_ctx(model, &p, left);
    int32_t parallel = p.n_seq_max ? p.n_seq_max : DEFAULT_PARALLEL;
    if (parallel > KT__SCHED_LANES_MAX) parallel = KT__SCHED_LANES_MAX;
    p.n_parallel = first_set(p.n_parallel, parallel);
    p.n_seq_max = first_set(p.n_seq_max, DEFAULT_SEQS);
    p.n_batch = first_set(p.n_batch, DEFAULT_BATCH);
    p.n_ubatch = first_set(p.n_ubatch, DEFAULT_UBATCH);
    if (p.n_ubatch > p.n_batch) p.n_ubatch = p.n_batch;
    p.n_queue_max = first_set(p.n_queue_max, DEFAULT_QUEUE);
    p.gap_ms = first_set(p.gap_ms, DEFAULT_GAP_MS);
    if (state_bytes_of(model) > SMALL_STATE) spare_states(given, &p);
    if (p.n_draft == 0 || p.draft_from == KT_DRAFT_TEXT) p.draft = NULL;
    p.kv_tail = tail_of(&p);
    hold_whole_texts(model, given, &p);
    hold_whole_pictures(model, &p);
    if (p.n_threads > n_pool) p.n_threads = n_pool;
    if (p.n_threads_batch > n_pool) p.n_threads_batch = n_pool;
    return p;
}

/* ---- parts ---- */

kt__fwd_params kt__plan_prompt_fwd(const kt_model *model, const kt_engine_params *p,
                                   int n_out_max) {
    return (kt__fwd_params){.n_tok_max = p->n_ubatch,
                            .n_out_max = n_out_max,
                            .n_ctx = p->n_ctx,
                            .keys_quantised = p->kv_keys != KT_KV_F16 || p->kv_pressure,
                            .mtp = kt__engine_uses_mtp(model, p),
                            .states = kt__engine_keeps_states(model, p),
                            .exact = model->params.exact,
                            .plain_attention = model->params.plain_attention,
                            .blas = model->blas,
                            .device = model->device,
                            .experts = model->experts};
}

kt__fwd_params kt__plan_step_fwd(const kt_model *model, const kt_engine_params *p) {
    int rows = p->n_parallel * (1 + p->n_draft);
    if (rows > STEP_ROWS) rows = p->n_parallel > STEP_ROWS ? p->n_parallel : STEP_ROWS;
    return (kt__fwd_params){.n_tok_max = rows,
                            .n_out_max = rows,
                            .n_ctx = p->n_ctx,
                            .keys_quantised = p->kv_keys != KT_KV_F16 || p->kv_pressure,
                            .mtp = kt__engine_uses_mtp(model, p),
                            .states = kt__engine_keeps_states(model, p),
                            .exact = model->params.exact,
                            .plain_attention = model->params.plain_attention,
                            .device = model->device,
                            .experts = model->experts};
}

/* An answer reads its page, the tail and page 0 in f16. Besides that, proposals reach into further
 * pages, or, of one answer, a prompt's batch makes a new tail while it reads the old one; of
 * several answers, each may have one page more. Without a tail a sequence or its copy has one page
 * at its end. What ended stays in what others do not need. A prompts' batch fills the other pages
 * in one layer at a time. */
kt__kv_room kt__plan_kv_room(const kt__kv_shape *shape, const kt_engine_params *p) {
    int batch = p->n_ubatch / KT__PAGE_POS, drafts = kt__pages_of(p->n_draft);
    int end = shape->n_tail + 1 + shape->first_f16, lanes = p->n_parallel;
    int tails = batch < lanes * (shape->n_tail + 1) ? batch : lanes * (shape->n_tail + 1);
    int more = (lanes - 1) * (drafts > 1 ? drafts : 1) + (tails > drafts ? tails : drafts);
    int idle = kt__kv_reads_f16_ends(shape) ? 0 : p->n_seq_max + 2;
    return (kt__kv_room){.n_kept = lanes * end + more + idle,
                         .n_staged = batch >= shape->n_tail ? batch + 1 - shape->n_tail : 0};
}

/* Of an answer at full length, pages that lie nowhere but in their f16 copy. */
static int64_t placeless_pages(const kt__kv_shape *shape) {
    return kt__kv_reads_f16_ends(shape) ? shape->n_tail + shape->first_f16 : 0;
}

int64_t kt__plan_places(const kt__kv_shape *shape, int64_t n_pos) {
    int64_t n = kt__pages_of(n_pos), without = placeless_pages(shape);
    if (without == 0) return n + 1;
    return n > without ? n - without : 1;
}

uint64_t kt__plan_f16_copy_bytes(const kt__kv_shape *shape, const kt_engine_params *p) {
    kt__kv_room room = kt__plan_kv_room(shape, p);
    if (!kt__kv_is_quantised(shape)) return 0;
    return (uint64_t)room.n_kept * kt__f16_copies_kept_bytes(shape) +
           (uint64_t)room.n_staged * kt__f16_copies_staged_bytes(shape);
}

/* What a number of pages takes, where layers with a window keep parts of fewer. */
typedef struct page_cost {
    uint64_t whole; /* a page's bytes; */
    uint64_t local; /* of these, in layers with a window */
    int64_t n_windows, n_kept;
} page_cost;

/* The windows of all answers, of one of them while a prefill batch or proposals extend it: what the
 * store cannot do with less. Of further pages a quarter, up to some windows, stays for those who
 * branch off. */
static page_cost page_cost_of(const kt__kv_shape *shape, const kt_engine_params *p) {
    uint64_t local = kt__kv_bytes(shape, 1, 1) - kt__kv_bytes(shape, 1, 0);
    int64_t rows = p->n_ubatch > p->n_draft * p->n_parallel ? p->n_ubatch
                                                            : p->n_draft * p->n_parallel;
    return (page_cost){.whole = kt__kv_page_bytes(shape),
                       .local = local,
                       .n_windows = p->n_parallel * (int64_t)(shape->n_window + 2) +
                                    rows / KT__PAGE_POS + 1,
                       .n_kept = BRANCH_WINDOWS * (int64_t)(shape->n_window + 1)};
}

int32_t kt__plan_local_pages(const kt__kv_shape *shape, const kt_engine_params *p,
                             int64_t n_pages) {
    const page_cost cost = page_cost_of(shape, p);
    int64_t more = n_pages - cost.n_windows, kept = more / 4;
    if (more <= 0) return (int32_t)n_pages;
    return (int32_t)(cost.n_windows + (kept < cost.n_kept ? kept : cost.n_kept));
}

/* Takes up to `most` pages of that price from what is left of the bytes. */
static int64_t buy_pages(uint64_t *bytes, uint64_t price, int64_t most) {
    uint64_t n = *bytes / price;
    if (n > (uint64_t)most) n = (uint64_t)most;
    *bytes -= n * price;
    return (int64_t)n;
}

/* The most pages within so many bytes, each with `extra` of its own besides. */
static int64_t pages_within(const page_cost *cost, uint64_t bytes, uint64_t extra) {
    uint64_t whole = cost->whole + extra, global = whole - cost->local;
    int64_t n = buy_pages(&bytes, whole, cost->n_windows);
    if (n == cost->n_windows) n += buy_pages(&bytes, global + cost->local / 4, 4 * cost->n_kept);
    if (n == cost->n_windows + 4 * cost->n_kept)
        n += buy_pages(&bytes, global > 0 ? global : 1, MOST_PAGES);
    return n;
}

/* An answer's state and the one that is being written; a sequence's; those after proposals, which
 * may all be right; and snapshots, for a share of what is left. */
static int32_t n_states_for(const kt_model *model, const kt_engine_params *p, uint64_t left) {
    uint64_t bytes = state_bytes_of(model);
    if (bytes == 0) return 0;
    uint64_t kept = left / 16 / bytes, least = (uint64_t)p->n_parallel + LEAST_SNAPSHOTS;
    if (kept < least) kept = least;
    if (kept > MOST_SNAPSHOTS) kept = MOST_SNAPSHOTS;
    int32_t proposed = kt__plan_step_fwd(model, p).n_tok_max - p->n_parallel;
    return 2 * p->n_parallel + p->n_seq_max + proposed + (int32_t)kept;
}

static uint64_t split_floats(const kt__hparams *hp, int n_head_kv, int dim_v, uint64_t tasks) {
    if (n_head_kv == 0) return 0;
    if (tasks < (uint64_t)n_head_kv) tasks = (uint64_t)n_head_kv;
    return tasks * (uint64_t)(hp->n_head / n_head_kv) * ((uint64_t)dim_v + 2);
}

/* The device's own: a tile a worker, with the ends of what is not shared, and split attention's
 * partial results at full length. */
static uint64_t device_bytes(const kt_model *model, const kt_engine_params *p) {
    const kt__hparams *hp = &model->net->hp;
    uint64_t threads = (uint64_t)kt__pool_size(model->ctx->pool), tasks = threads * 4;
    uint64_t splits = (uint64_t)(p->n_ctx / KT__SPLIT_POS + 2);
    uint64_t global = split_floats(hp, hp->n_head_kv, hp->head_dim_v, tasks);
    uint64_t local = split_floats(hp, hp->local.n_head_kv, hp->local.head_dim_v, tasks);
    uint64_t partial = splits * (global > local ? global : local) * sizeof(float);
    return threads * ((2u << 20) + kt__pages_unit() - 1) + partial;
}

static int out_rows(const kt_engine_params *p) {
    int n = p->n_seq_max > OUT_ROWS ? p->n_seq_max : OUT_ROWS;
    return n < p->n_ubatch ? n : p->n_ubatch;
}

/* The encoder's buffers with its device's, and what is kept of pictures. */
static uint64_t pictures_bytes(const kt_model *model) {
    uint64_t threads = (uint64_t)kt__pool_size(model->ctx->pool);
    if (!model->vision) return 0;
    return kt__seer_plan_bytes(model->vision) + threads * (4u << 20) + KT__VIEWS_BYTES;
}

static uint64_t scratch_bytes(const kt_model *model, const kt_engine_params *p) {
    kt__fwd_params prompt = kt__plan_prompt_fwd(model, p, out_rows(p));
    kt__fwd_params step = kt__plan_step_fwd(model, p);
    return kt__fwd_plan_bytes(model->net, &prompt) + kt__fwd_plan_bytes(model->net, &step) +
           2 * device_bytes(model, p) + pictures_bytes(model);
}

static uint64_t tables_bytes(const kt_model *model, const kt_engine_params *p) {
    uint64_t n_vocab = (uint64_t)model->net->hp.n_vocab, n_ctx = (uint64_t)p->n_ctx;
    uint64_t seqs = (uint64_t)p->n_seq_max * (n_vocab * sizeof(float) + n_ctx * sizeof(int32_t));
    uint64_t n_req = (uint64_t)p->n_parallel + (uint64_t)p->n_queue_max;
    return PROCESS_BYTES + KT__PLAN_DISK_QUEUE_BYTES + n_vocab * VOCAB_ENTRY_BYTES + seqs +
           n_req * (REQUEST_BYTES + n_ctx * sizeof(int32_t));
}

/* Constraints of answers: one always has room, ... */
static uint64_t least_constraints(const kt_model *model) {
    return LEAST_CONSTRAINTS + (uint64_t)model->net->hp.n_vocab * MASK_ENTRY_BYTES;
}

/* ... and more with a larger budget: pages leave that free, and it is charged as it is used. */
static uint64_t constraint_bytes(const kt_model *model, uint64_t left) {
    uint64_t least = least_constraints(model);
    uint64_t bytes = left / 16 > least ? left / 16 : least;
    return bytes < MOST_CONSTRAINTS ? bytes : MOST_CONSTRAINTS;
}

/* ---- the plan ---- */

/* What may be shared out: the budget without what others have and without these weights. */
static uint64_t left_for(const kt_model *model, kt_mem_plan *m) {
    const kt_ctx *ctx = model->ctx;
    uint64_t taken = atomic_load(&ctx->mem_used_bytes);
    bool mapped = model->params.use_mmap;
    m->budget_bytes = ctx->mem_bytes;
    m->weights_bytes = kt__model_resident_bytes(model);
    m->expert_kept_bytes = kt__expert_store_bytes(model->experts);
    m->expert_bytes = m->expert_kept_bytes ? kt__expert_store_file_bytes(model->experts) : 0;
    m->weights_counted = ctx->mem_given || !mapped || m->expert_kept_bytes;
    bool charged = atomic_load(&model->n_charged) > 0;
    m->others_bytes = taken;
    if (m->weights_counted && !charged) taken += m->weights_bytes;
    return m->budget_bytes > taken ? m->budget_bytes - taken : 0;
}

/* Of the plan, what is not pages. */
static uint64_t fixed_bytes(const kt_mem_plan *m) {
    return m->scratch_bytes + m->tables_bytes + m->draft_bytes + m->kv_f16_bytes + m->state_bytes;
}

static int64_t at_least_one(int64_t n) {
    return n > 0 ? n : 1;
}

/* Pages in f16 where a sequence's older ones are pressed until it fits; least: where none is. */
static int64_t least_narrow(const kt_model *model, const kt__kv_shape *shape, int32_t n_ctx,
                            int64_t least) {
    kt__kv_room room = {.presses = true};
    int64_t wanted = kt__pages_of(n_ctx), n = 3 * KT__SPLIT_PAGES;
    kt__key_bias_outliers(model->net, room.f16_keys);
    while (n < least && kt__kv_plan_pressed(shape, &room, n, kt__plan_wide_pages(0)) < wanted)
        n += KT__SPLIT_PAGES;
    return n < least ? n + KT__SPLIT_PAGES - 1 : least;
}

/* Fills in what depends on the parameters; true if a whole sequence, at least, fits. */
static bool try_params(const kt_model *model, const kt_engine_params *p, uint64_t left,
                       kt__plan *out) {
    kt__kv_shape shape = kt__engine_kv_shape(model, p);
    const page_cost cost = page_cost_of(&shape, p);
    kt_mem_plan *m = &out->mem;
    m->scratch_bytes = scratch_bytes(model, p);
    /* a default budget is what is free now: the process is there already */
    m->tables_bytes = model->ctx->mem_given ? tables_bytes(model, p) + least_constraints(model) : 0;
    out->constraint_bytes = constraint_bytes(model, left);
    m->draft_bytes = p->draft ? kt__draft_plan_bytes(model, p) : 0;
    m->kv_f16_bytes = kt__plan_f16_copy_bytes(&shape, p);
    out->n_states = n_states_for(model, p, left);
    m->state_bytes = (uint64_t)out->n_states * state_bytes_of(model);
    uint64_t kept = model->ctx->mem_given ? out->constraint_bytes - least_constraints(model) : 0;
    uint64_t fixed = fixed_bytes(m) + kept;
    uint64_t room = left > fixed ? left - fixed : 0;
    int64_t most = pages_within(&cost, room, INDEX_ENTRY_BYTES), all = pages_within(&cost, room, 0);
    int64_t spare = p->kv_pressure ? 2 * KT__SPLIT_PAGES - 1 : 0;
    int64_t least = kt__plan_places(&shape, p->n_ctx) + spare, lanes = p->n_parallel;
    if (out->narrow) least = least_narrow(model, &shape, p->n_ctx, least);
    if (p->n_seq_max > lanes) lanes = p->n_seq_max;
    /* a long context of one is room enough for usual ones of all */
    int64_t usual = kt__plan_places(&shape, p->n_ctx < DEFAULT_CTX ? p->n_ctx : DEFAULT_CTX);
    int64_t want = usual * lanes + spare > least ? usual * lanes + spare : least;
    if (model->ctx->mem_given) {
        want *= 4; /* what is left keeps earlier prompts */
    } else if (most > pages_within(&cost, left / 2, 0)) {
        most = pages_within(&cost, left / 2, 0); /* others live here, too */
        if (most < least && all >= least) most = least;
    }
    if (p->kv_bytes) want = most = at_least_one(pages_within(&cost, p->kv_bytes, 0));
    out->n_pages = want < most ? want : most;
    out->n_local = kt__plan_local_pages(&shape, p, out->n_pages);
    return p->kv_bytes ? want <= all : out->n_pages >= least;
}

/* What was left to us shrinks until it fits: batches first, then answers at once, then the context.
 */
static bool shrink_params(const kt_engine_params *given, kt_engine_params *p) {
    if (!given->n_ubatch && p->n_ubatch > LEAST_UBATCH) {
        p->n_ubatch /= 2;
    } else if (!given->n_parallel && !given->n_seq_max && p->n_parallel > 1) {
        p->n_parallel /= 2;
    } else if (!given->n_seq_max && p->n_seq_max > 1) {
        p->n_seq_max /= 2;
    } else if (!given->n_queue_max && p->n_queue_max > 16) {
        p->n_queue_max /= 2;
    } else if (!given->n_ctx && p->n_ctx > LEAST_CTX) {
        p->n_ctx /= 2;
    } else {
        return false;
    }
    return true;
}

/* Positions that so many places, and the tails of answers at work, come to; a store that presses pages keeps a split's. */
static int64_t n_positions(const kt_model *model, const kt_engine_params *p, int64_t n_pages) {
    kt__kv_shape shape = kt__engine_kv_shape(model, p);
    if (p->kv_pressure) n_pages = (n_pages / KT__SPLIT_PAGES - 1) * KT__SPLIT_PAGES;
    return (n_pages + placeless_pages(&shape) * p->n_parallel) * KT__PAGE_POS;
}

/* No more than a quarter of what is left for batches, and room for a usual answer in each lane:
 * what breaks that shrinks. */
static bool rebalance_params(const kt_model *model, const kt_engine_params *given,
                             kt_engine_params *p, uint64_t left, const kt__plan *plan) {
    int64_t usual = p->n_ctx < USUAL_POS ? p->n_ctx : USUAL_POS;
    bool heavy = plan->mem.scratch_bytes > left / 4;
    bool stateful = plan->mem.state_bytes > left / 4;
    bool crowded = n_positions(model, p, plan->n_pages) < usual * p->n_parallel;
    if (heavy && !given->n_ubatch && p->n_ubatch > LEAST_UBATCH) {
        p->n_ubatch /= 2;
    } else if (stateful && !given->n_parallel && !given->n_seq_max && p->n_parallel > 1) {
        p->n_parallel /= 2;
    } else if (stateful && !given->n_seq_max && p->n_seq_max > 1) {
        p->n_seq_max /= 2;
    } else if (crowded && !given->n_parallel && !given->n_seq_max && !given->kv_bytes &&
               p->n_parallel > 1) {
        p->n_parallel /= 2;
    } else {
        return false;
    }
    return true;
}

static kt_status fail_plan(const kt__plan *plan, uint64_t left, kt_error *err) {
    const kt_mem_plan *m = &plan->mem;
    const double mib = 1048576.0;
    uint64_t fixed = fixed_bytes(m);
    return kt__fail(
        err, KT_E_NOMEM,
        "the budget of %.0f MiB leaves %.0f MiB for this engine (weights take %.0f MiB, others %.0f "
        "MiB); it needs %.0f MiB for batches and tables, and the K/V of one sequence of %d positions: "
        "give more (--mem), or ask for a smaller context (-c), fewer sequences or a smaller batch "
        "(-ub)",
        (double)m->budget_bytes / mib, (double)left / mib,
        m->weights_counted ? (double)m->weights_bytes / mib : 0.0, (double)m->others_bytes / mib,
        (double)fixed / mib, plan->params.n_ctx);
}

static void fill_sums(const kt_model *model, kt__plan *out) {
    kt_mem_plan *m = &out->mem;
    const kt_engine_params *p = &out->params;
    kt__kv_shape shape = kt__engine_kv_shape(model, p);
    m->kv_bytes = kt__kv_bytes(&shape, out->n_pages, out->n_local);
    m->tables_bytes += (uint64_t)out->n_pages * INDEX_ENTRY_BYTES;
    m->kv_positions = n_positions(model, p, out->n_pages);
    m->total_bytes = m->kv_bytes + fixed_bytes(m) + (m->weights_counted ? m->weights_bytes : 0);
    if (kt__engine_uses_mtp(model, p)) m->kv_draft_bytes = m->kv_bytes / (uint64_t)shape.n_layer;
    m->n_ctx = p->n_ctx;
    m->n_batch = p->n_batch;
    m->n_ubatch = p->n_ubatch;
    m->n_parallel = p->n_parallel;
    m->n_seq_max = p->n_seq_max;
    m->kv_keys = p->kv_keys;
    m->kv_values = p->kv_values;
    m->kv_tail = p->kv_tail;
    if (kt__kv_has_local_parts(&shape))
        m->kv_window_positions = (int64_t)out->n_local * KT__PAGE_POS;
    for (int i = 0; i < shape.n_layer; i++)
        m->n_f16_layers += shape.k_form != kt__kv_k_form(&shape, i);
}

int64_t kt__plan_pages_within(const kt__plan *plan, double share) {
    const kt_mem_plan *m = &plan->mem;
    double page = (double)m->kv_bytes / (double)plan->n_pages;
    double fixed = (double)(m->total_bytes - m->kv_bytes + m->others_bytes);
    double pages = (share * (double)m->budget_bytes - fixed) / page;
    int64_t least = kt__pages_of(m->n_ctx) + 1;
    if (pages >= (double)plan->n_pages) return plan->n_pages;
    return pages > (double)least ? (int64_t)pages : least;
}

static kt_status fail_tail(const kt__plan *plan, kt_error *err) {
    return kt__fail(err, KT_E_ARG,
                    "a tail of %d positions in f16 (--kv-tail) is longer than the context of %d: "
                    "ask for at most that, or for a longer context (-c)",
                    plan->params.kv_tail, plan->params.n_ctx);
}

static kt_status check_attention(const kt_model *model, const kt_engine_params *p, kt_error *err) {
    bool quantised = p->kv_keys != KT_KV_F16 || p->kv_values != KT_KV_F16;
    if (!model->params.plain_attention || !quantised) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "plain attention reads keys and values in f16: leave their type out (--kv, "
                    "-ctk, -ctv), or the attention's (-fa off)");
}

/* A context that was asked for and does not fit in f16 may fit where running answers' pages are pressed. */
static bool narrow_plan(const kt_model *model, const kt_engine_params *given, uint64_t left,
                        kt__plan *out) {
    if (given->kv_pressure != KT_KV_PRESSURE_ALL || !given->n_ctx || out->narrow ||
        is_encoder(model))
        return false;
    out->narrow = true;
    out->params = with_defaults(model, given, left);
    return true;
}

/* With so many bytes for what is not weights; true if that fits. */
static bool plan_within(const kt_model *model, const kt_engine_params *given, uint64_t left,
                        kt__plan *out) {
    out->params = with_defaults(model, given, left);
    bool fits = try_params(model, &out->params, left, out);
    kt_engine_params fixed = *given;
    if (is_encoder(model)) fixed.n_ubatch = out->params.n_ubatch; /* follows the context */
    while (fits ? rebalance_params(model, &fixed, &out->params, left, out)
                : shrink_params(&fixed, &out->params) || narrow_plan(model, given, left, out)) {
        hold_whole_texts(model, given, &out->params);
        fits = try_params(model, &out->params, left, out);
    }
    out->n_out_max = out_rows(&out->params);
    out->constraints_planned = least_constraints(model);
    if (fits) fill_sums(model, out);
    return fits;
}

/* ---- experts that are read as they are needed ---- */

/* The model's first engine decides; mapped weights that are too many would be read again and again. */
static bool is_too_large(const kt_model *model, const kt__plan *plan, bool fits) {
    const kt_mem_plan *m = &plan->mem;
    if (!model->experts || m->expert_kept_bytes || atomic_load(&model->n_charged) > 0) return false;
    if (m->weights_counted || !fits) return !fits;
    return m->others_bytes + m->weights_bytes + m->total_bytes > m->budget_bytes;
}

/* The other weights, and of what is left three quarters for experts, at least, or what the rest needs leaves them. A
 * sixteenth of the budget stays free, for adapters, and for what else lives here. */
static bool plan_with_store(const kt_model *model, const kt_engine_params *given, kt__plan *out) {
    const kt__expert_store *store = model->experts;
    kt__plan plan = {.mem = out->mem};
    kt_mem_plan *m = &plan.mem;
    uint64_t other = m->weights_bytes - kt__expert_store_file_bytes(store);
    uint64_t taken = m->others_bytes + other + m->budget_bytes / FREE_SHARE;
    uint64_t left = m->budget_bytes > taken ? m->budget_bytes - taken : 0;
    uint64_t least = kt__expert_store_least(store);
    if (left <= least) return false;
    m->weights_counted = true;
    m->weights_bytes = 0;
    uint64_t most = left - least, rest = left / 4 < most ? left / 4 : most;
    while (!plan_within(model, given, rest, &plan)) {
        if (rest == most) return false;
        rest = rest + rest / 2 < most ? rest + rest / 2 : most;
    }
    if (m->total_bytes > most) return false;
    uint64_t later = model->ctx->mem_given ? plan.constraint_bytes - plan.constraints_planned : 0;
    uint64_t room = kt__expert_store_room(store), kept = left - m->total_bytes;
    kept = kept > least + later ? kept - later : least;
    m->expert_bytes = kt__expert_store_file_bytes(store);
    m->expert_kept_bytes = kept < room ? kept : room;
    m->weights_bytes = other + m->expert_kept_bytes;
    m->total_bytes += m->weights_bytes;
    *out = plan;
    return true;
}

static kt_status check_generates(const kt_model *model, kt_error *err) {
    if (!kt__model_is_assistant(model)) return KT_OK;
    return kt__fail(
        err, KT_E_ARG,
        "%s is a %s, which proposes tokens of a gemma-4 model and answers nothing alone: "
        "name that model with -m, and this file with --draft-model",
        model->info.path, model->net->hp.arch);
}

static kt_status check_pressure(const kt_model *model, const kt_engine_params *given,
                                kt_error *err) {
    const char *why = kt__ctx_split(model->ctx)            ? "several processes compute"
                      : model->params.plain_attention      ? "-fa off computes"
                      : given->kv_keys || given->kv_values ? "are not in f16"
                                                           : NULL;
    if (!why) return KT_OK;
    return kt__fail(
        err, KT_E_UNSUPPORTED,
        "kv_pressure turns keys and values from f16 to 8 bits, but these %s%s: leave it off", why,
        given->kv_keys || given->kv_values ? "" : " with");
}

kt_status kt__plan_make(const kt_model *model, const kt_engine_params *given, kt__plan *out,
                        kt_error *err) {
    *out = (kt__plan){0};
    KT__STEP(check_generates(model, err));
    KT__STEP(check_params(given, err));
    KT__STEP(check_attention(model, given, err));
    if (given->draft) KT__STEP(kt__draft_check(model, given->draft, err));
    if (given->kv_pressure && !is_encoder(model)) KT__STEP(check_pressure(model, given, err));
    uint64_t left = left_for(model, &out->mem);
    bool fits = plan_within(model, given, left, out);
    if (is_too_large(model, out, fits) && plan_with_store(model, given, out)) fits = true;
    if (given->kv_tail > out->params.n_ctx && out->params.kv_tail) return fail_tail(out, err);
    return fits ? KT_OK : fail_plan(out, left, err);
}

kt_status kt_engine_plan(const kt_model *model, const kt_engine_params *params, kt_mem_plan *out,
                         kt_error *err) {
    kt_engine_params given = params ? *params : kt_engine_params_default();
    kt__plan plan;
    kt__error_clear(err);
    *out = (kt_mem_plan){0};
    kt_status status = kt__model_needs_net(model, err);
    if (status == KT_OK) status = kt__plan_make(model, &given, &plan, err);
    if (status == KT_OK || status == KT_E_NOMEM) *out = plan.mem;
    return status;
}

/* ---- the account ---- */

kt_status kt__plan_charge(kt_engine *engine, const kt__plan *plan, kt_error *err) {
    kt_model *model = engine->model;
    kt_ctx *ctx = model->ctx;
    const kt_mem_plan *m = &plan->mem;
    uint64_t weights = m->weights_counted ? m->weights_bytes : 0;
    uint64_t bytes = m->total_bytes - weights;
    if (atomic_fetch_add(&model->n_charged, 1) == 0) bytes += weights;
    engine->mem_bytes = m->total_bytes - weights;
    engine->mem_weights_bytes = weights;
    uint64_t before = atomic_fetch_add(&ctx->mem_used_bytes, bytes);
    if (before + bytes > ctx->mem_bytes) {
        kt__plan_discharge(engine);
        return fail_plan(plan, ctx->mem_bytes > before ? ctx->mem_bytes - before : 0, err);
    }
    return m->expert_kept_bytes ? kt__expert_store_start(model->experts, m->expert_kept_bytes, err)
                                : KT_OK;
}

void kt__plan_discharge(kt_engine *engine) {
    kt_model *model = engine->model;
    uint64_t bytes = engine->mem_bytes;
    if (!bytes) return;
    if (atomic_fetch_sub(&model->n_charged, 1) == 1) {
        bytes += engine->mem_weights_bytes;
        kt__expert_store_stop(model->experts);
    }
    atomic_fetch_sub(&model->ctx->mem_used_bytes, bytes);
    engine->mem_bytes = 0;
}
