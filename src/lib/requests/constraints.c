#include "requests/constraints.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

enum {
    MAX_IDLE = 16,
    MAX_KEY = 16 << 20, /* bytes of what identifies one */
    RETRY_MS = 1000
};

/* A constraint with what it was made of. */
typedef struct entry {
    char *key;
    size_t key_len;
    kt__constraint *constraint;
    size_t bytes;
    bool lent;
    struct entry *next; /* older */
} entry;

struct kt__constraints {
    pthread_mutex_t lock;
    kt__constraints_budget budget;
    /* under the lock */
    uint64_t bytes, charged;
    entry *entries; /* the one used last first */
};

kt_status kt__constraints_create(const kt__constraints_budget *budget, kt__constraints **out,
                                 kt_error *err) {
    *out = NULL;
    kt__constraints *all = kt__calloc(1, sizeof *all);
    if (!all || pthread_mutex_init(&all->lock, NULL) != 0) {
        kt__free(all);
        return kt__fail_nomem(err, "constraints", sizeof *all);
    }
    all->budget = *budget;
    *out = all;
    return KT_OK;
}

static void free_entry(entry *e) {
    if (!e) return;
    kt__constraint_free(e->constraint);
    kt__free(e->key);
    kt__free(e);
}

/* The context's account follows what all of them come to. false: it has no room for that. */
static bool charge_for(kt__constraints *all, uint64_t bytes) {
    const kt__constraints_budget *b = &all->budget;
    uint64_t wanted = bytes > b->planned ? bytes - b->planned : 0;
    if (!b->ctx || wanted == all->charged) return true;
    if (wanted < all->charged) {
        atomic_fetch_sub(&b->ctx->mem_used_bytes, all->charged - wanted);
    } else {
        uint64_t more = wanted - all->charged;
        if (atomic_fetch_add(&b->ctx->mem_used_bytes, more) + more > b->ctx->mem_bytes) {
            atomic_fetch_sub(&b->ctx->mem_used_bytes, more);
            return false;
        }
    }
    all->charged = wanted;
    return true;
}

void kt__constraints_free(kt__constraints *all) {
    if (!all) return;
    (void)charge_for(all, 0);
    for (entry *e = all->entries, *next; e; e = next) {
        next = e->next;
        free_entry(e);
    }
    pthread_mutex_destroy(&all->lock);
    kt__free(all);
}

/* ---- what identifies a constraint ---- */

static void put_size(kt__buf *key, size_t n) {
    (void)kt__buf_append(key, &n, sizeof n);
}

static void put_text(kt__buf *key, const char *text, size_t len) {
    put_size(key, text ? len : SIZE_MAX);
    if (text && len) (void)kt__buf_append(key, text, len);
}

static void put_string(kt__buf *key, const char *text) {
    put_text(key, text, text ? strlen(text) : 0);
}

static void put_strings(kt__buf *key, const char *const *texts, size_t n) {
    put_size(key, n);
    for (size_t i = 0; i < n; i++) put_string(key, texts[i]);
}

static kt_status make_key(const kt_constraint *what, entry *e, kt_error *err) {
    kt__buf key;
    kt__buf_init(&key, MAX_KEY);
    put_strings(&key, what->triggers, what->n_triggers);
    put_size(&key, what->repeat + what->compact * 2u); /* finish_within is the answer's own */
    for (size_t i = 0; i < what->n_forms; i++) {
        const kt_form *f = &what->forms[i];
        put_size(&key, (size_t)f->kind * 4 + f->blanks * 2u + f->any_order);
        put_text(&key, f->text, f->len);
        put_strings(&key, f->choices, f->n_choices);
        put_string(&key, f->before);
        put_string(&key, f->after);
    }
    bool too_long = key.failed;
    e->key_len = key.len;
    e->key = kt__buf_take(&key, &e->key_len);
    if (e->key && !too_long) return KT_OK;
    return kt__fail(err, KT_E_LIMIT, "a constraint of more than %d bytes", (int)MAX_KEY);
}

/* ---- the account ---- */

static void unlink_entry(kt__constraints *all, entry *e) {
    entry **at = &all->entries;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    all->bytes -= e->bytes;
}

static void link_entry(kt__constraints *all, entry *e) {
    e->next = all->entries;
    all->entries = e;
    all->bytes += e->bytes;
}

static entry *oldest_idle(kt__constraints *all, int *n) {
    entry *found = NULL;
    *n = 0;
    for (entry *e = all->entries; e; e = e->next) {
        if (e->lent) continue;
        found = e;
        ++*n;
    }
    return found;
}

/* Drops idle ones until `bytes` more fit, which are charged then, and MAX_IDLE are left at most.
 * false: they do not fit. */
static bool make_room(kt__constraints *all, uint64_t bytes) {
    int n;
    for (;;) {
        entry *e = oldest_idle(all, &n);
        bool fits = all->bytes + bytes <= all->budget.most && charge_for(all, all->bytes + bytes);
        if (!e || (fits && n <= MAX_IDLE)) return fits;
        unlink_entry(all, e);
        free_entry(e);
    }
}

static entry *take_same(kt__constraints *all, const entry *like) {
    pthread_mutex_lock(&all->lock);
    entry *e = all->entries;
    while (e && (e->lent || e->key_len != like->key_len ||
                 memcmp(e->key, like->key, like->key_len) != 0))
        e = e->next;
    if (e) {
        unlink_entry(all, e);
        e->lent = true;
        link_entry(all, e);
    }
    pthread_mutex_unlock(&all->lock);
    return e;
}

static kt_status put_new(kt__constraints *all, entry *e, kt_error *err) {
    const double mib = 1048576.0;
    pthread_mutex_lock(&all->lock);
    bool fits = make_room(all, e->bytes);
    uint64_t others = all->bytes;
    if (fits) link_entry(all, e);
    pthread_mutex_unlock(&all->lock);
    if (fits) return KT_OK;
    kt_status status = kt__fail(
        err, others ? KT_E_BUSY : KT_E_NOMEM,
        "a constraint of %.1f MiB, with %.1f in use, is over the %.1f that this engine has for "
        "constraints: give more memory (--mem), or try again when others have ended",
        (double)e->bytes / mib, (double)others / mib, (double)all->budget.most / mib);
    if (others && err) err->retry_ms = RETRY_MS;
    return status;
}

/* ---- the vocabulary ---- */

/* Only tokens that write something can bring a text forward. */
static bool writes_text(const kt__tokenizer *tok, int32_t id) {
    switch (kt__tokenizer_token_attr(tok, id)) {
    case KT__TOK_UNUSED:
    case KT__TOK_UNDEFINED:
    case KT__TOK_UNKNOWN:
    case KT__TOK_CONTROL: return false;
    default: return !kt__tokenizer_is_eog(tok, id);
    }
}

static const char *written_bytes(void *ctx, int32_t id, size_t *len) {
    const kt__tokenizer *tok = ctx;
    kt__str bytes = writes_text(tok, id) ? kt__tokenizer_token_bytes(tok, id) : (kt__str){"", 0};
    *len = bytes.len;
    return bytes.s;
}

static const char *control_name(void *ctx, int32_t id, size_t *len) {
    const kt__tokenizer *tok = ctx;
    bool control = kt__tokenizer_token_attr(tok, id) == KT__TOK_CONTROL ||
                   kt__tokenizer_is_eog(tok, id);
    kt__str name = control ? kt__tokenizer_token_text(tok, id) : (kt__str){"", 0};
    *len = name.len;
    return name.s;
}

static bool ends_answer(void *ctx, int32_t id) {
    return kt__tokenizer_is_eog(ctx, id);
}

/* The model's, made by the first who asks. */
static kt_status need_vocab(kt_model *model, kt_error *err) {
    kt__held_vocab *vocab, *first = NULL;
    if (!model->tok)
        return kt__fail(err, KT_E_UNSUPPORTED, "%s has no vocabulary: its answers have no text",
                        model->info.path);
    if (atomic_load(&model->held_vocab)) return KT_OK;
    const kt__held_vocab_source source = {.bytes = written_bytes,
                                          .name = control_name,
                                          .ends = ends_answer,
                                          .ctx = model->tok,
                                          .n_vocab = model->net->hp.n_vocab};
    kt_status status = kt__held_vocab_create(&source, &vocab, err);
    if (status != KT_OK || atomic_compare_exchange_strong(&model->held_vocab, &first, vocab))
        return status;
    kt__held_vocab_free(vocab); /* another one was faster */
    return KT_OK;
}

/* ---- lending ---- */

static kt_status make_entry(kt_engine *engine, const kt_constraint *what, entry *e, kt_error *err) {
    kt_model *model = engine->model;
    kt_status status = need_vocab(model, err);
    if (status != KT_OK) return status;
    status = kt__constraint_create(what, atomic_load(&model->held_vocab), &e->constraint, err);
    if (status != KT_OK) return status;
    e->bytes = kt__constraint_bytes(e->constraint) + e->key_len;
    e->lent = true;
    return put_new(engine->constraints, e, err);
}

kt_status kt__constraints_lend(kt_engine *engine, const kt_constraint *what, kt__constraint **out,
                               kt_error *err) {
    *out = NULL;
    if (what->n_forms == 0) return KT_OK;
    entry *e = kt__calloc(1, sizeof *e), *known = NULL;
    if (!e) return kt__fail_nomem(err, "a constraint", sizeof *e);
    kt_status status = make_key(what, e, err);
    if (status == KT_OK) known = take_same(engine->constraints, e);
    if (status == KT_OK && !known) status = make_entry(engine, what, e, err);
    if (status == KT_OK) *out = known ? known->constraint : e->constraint;
    if (status != KT_OK || known) free_entry(e);
    return status;
}

void kt__constraints_give_back(kt_engine *engine, kt__constraint *constraint) {
    kt__constraints *all = engine->constraints;
    if (!constraint) return;
    pthread_mutex_lock(&all->lock);
    entry *e = all->entries;
    while (e->constraint != constraint) e = e->next;
    e->lent = false;
    bool worn = !kt__constraint_has_room(constraint);
    if (worn) {
        unlink_entry(all, e);
        free_entry(e);
    }
    (void)make_room(all, 0);
    pthread_mutex_unlock(&all->lock);
}
