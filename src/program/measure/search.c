/* kentang search: models of the hub that fit this machine, before anything is fetched. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "measure/limits.h"
#include "setup/model_file.h"
#include "store/hub.h"
#include "term/cli.h"
#include "term/options.h"

enum {
    MAX_WORDS = 16,
    DEFAULT_HITS = 10,
};

typedef struct search_opts {
    const char *hub, *token_file;
    int32_t n_most;
    bool all, json;
} search_opts;

#define AT(member) offsetof(search_opts, member)

static const kt__opt table[] = {
    {.name = "most",
     .brief = "n",
     .kind = KT__OPT_INT,
     .at = AT(n_most),
     .min = 1,
     .max = KT__HUB_HITS_MAX,
     .arg = "N",
     .help = "repositories to look at, those that are fetched most first (default 10)"},
    {.name = "all",
     .kind = KT__OPT_ON,
     .at = AT(all),
     .help = "also those of which nothing fits this machine"},
    {.name = "json", .kind = KT__OPT_ON, .at = AT(json), .help = "one JSON object a line"},
    {.name = "hub",
     .kind = KT__OPT_TEXT,
     .at = AT(hub),
     .arg = "URL",
     .help = "a hub with Hugging Face's interface (default: `hub`, KENTANG_HUB, else " KT__STORE_HUB
             ")"},
    {.name = "token-file",
     .kind = KT__OPT_TEXT,
     .at = AT(token_file),
     .arg = "FILE",
     .help = "the hub's token; only you may be able to read it (default: as for pull)"},
};
#undef AT

/* What is known of this machine. */
typedef struct search_machine {
    uint64_t memory;
    double read_bytes_per_s; /* 0: not measured */
} search_machine;

static void print_head(void) {
    printf("%-52s %-7s %9s %9s %7s %5s %10s\n", "name, for pull and -m", "", "size", "memory",
           "tok/s", "sees", "downloads");
}

static void print_hit(const search_opts *o, const kt__hub_hit *hit, const kt__hub_suited *s,
                      const search_machine *m) {
    double tok_s = m->read_bytes_per_s > 0 ? m->read_bytes_per_s / (double)s->bytes : 0;
    char name[400], speed[32] = "";
    snprintf(name, sizeof name, "%s:%s", hit->repo, s->tag);
    if (o->json) {
        json_t *v = json_pack("{s:s,s:I,s:I,s:f,s:b,s:b,s:I}", "name", name, "bytes",
                              (json_int_t)s->bytes, "memory_bytes", (json_int_t)s->memory,
                              "tok_s_at_most", tok_s, "fits", s->fits, "sees", s->sees, "downloads",
                              (json_int_t)hit->downloads);
        if (v) json_dumpf(v, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        json_decref(v);
        putchar('\n');
        return;
    }
    if (tok_s > 0) snprintf(speed, sizeof speed, "%.*f", tok_s < 10, tok_s);
    printf("%-60s %6.2f GB %6.2f GB %7s %5s %10llu%s\n", name, (double)s->bytes / 1e9,
           (double)s->memory / 1e9, speed, s->sees ? "yes" : "", (unsigned long long)hit->downloads,
           s->fits ? "" : "  does not fit");
}

static kt_status look_at_hit(const search_opts *o, const kt__access *access, const kt__hub_hit *hit,
                             const search_machine *m, int *n_shown, kt_error *err) {
    kt__hub_suited s;
    KT__STEP(kt__hub_suit(access, hit->repo, m->memory, &s, err));
    if (!s.tag || (!s.fits && !o->all)) return KT_OK;
    if (!*n_shown && !o->json) print_head();
    ++*n_shown;
    print_hit(o, hit, &s, m);
    return KT_OK;
}

static kt_status search_hub(const search_opts *o, const kt__store *store, const char *words,
                            kt_error *err) {
    kt__access access = {0};
    kt__hub_hit *hits = kt__calloc(KT__HUB_HITS_MAX, sizeof *hits);
    size_t n = 0;
    int n_shown = 0;
    kt_status status;
    search_machine m;
    if (!hits) KT__TRY(kt__fail_nomem(err, "a list of models", KT__HUB_HITS_MAX * sizeof *hits));
    KT__TRY(kt__store_access(store, false, &access, err));
    KT__TRY(kt__hub_search(&access, words, (size_t)o->n_most, hits, &n, err));
    kt__advice_machine(&m.memory, &m.read_bytes_per_s);
    for (size_t i = 0; i < n; i++) { /* one that cannot be looked at is passed over */
        kt_error why;
        if (look_at_hit(o, &access, &hits[i], &m, &n_shown, &why) != KT_OK)
            fprintf(stderr, "kentang: %s: %s\n", hits[i].repo, why.message);
    }
    if (!o->json)
        fprintf(
            stderr,
            n_shown
                ? "kentang: %d of %zu fit; memory is about, tok/s is what reading the weights "
                  "allows here at most\n"
                : "kentang: %d of %zu models that the hub has for this fit the memory that is free "
                  "(--all shows the others)\n",
            n_shown, n);
out:
    kt__access_close(&access);
    kt__free(hits);
    return status;
}

static int run_search(const search_opts *o, const char *const *words, size_t n_words) {
    kt__config *config;
    kt_error err;
    kt__buf text;
    kt_status status = kt__model_name_config(&config, &err);
    if (status != KT_OK) return kt__cli_fail("search", &err);
    kt__store store = kt__model_name_store(config);
    if (o->hub) store.hub = o->hub;
    if (o->token_file) store.token_file = o->token_file;
    kt__buf_init(&text, 4096);
    for (size_t i = 0; i < n_words; i++)
        (void)kt__buf_printf(&text, "%s%s", i ? " " : "", words[i]);
    if (!text.len)
        status = kt__fail(&err, KT_E_ARG, "words are missing: kentang search qwen instruct");
    else
        status = search_hub(o, &store, text.data, &err);
    kt__buf_free(&text);
    kt__config_free(config);
    return status == KT_OK ? 0 : kt__cli_fail("search", &err);
}

int kt__cmd_search(int argc, char **argv) {
    search_opts opts = {.n_most = DEFAULT_HITS};
    const kt__opt_group groups[] = {{"Options", table, KT__COUNT(table), &opts}};
    const kt__syntax syntax = {
        .command = "search",
        .usage = "WORDS [OPTIONS]",
        .about =
            "Models of a hub that fit this machine: what pull and -m call them, how much they would\n"
            "fetch, the memory that they need and how many tokens a second the machine allows. Of\n"
            "each repository the Q4_K_M, or where that does not fit a smaller one.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .max_words = MAX_WORDS,
        .notes = "Examples:\n"
                 "  kentang search qwen3 instruct\n"
                 "  kentang search smolvlm -n 20",
    };
    const char *words[MAX_WORDS] = {NULL};
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    return code >= 0 ? code : run_search(&opts, words, n_words);
}
