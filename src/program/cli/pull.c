/* kentang pull: gets a model from a hub. */
#include <stdio.h>

#include "base/error.h"
#include "setup/model_file.h"
#include "term/cli.h"
#include "term/options.h"

typedef struct pull_opts {
    const char *as, *hub, *token_file;
    bool offline;
    int32_t n_connections;
} pull_opts;

#define AT(member) offsetof(pull_opts, member)

static const kt__opt table[] = {
    {.name = "as",
     .kind = KT__OPT_TEXT,
     .at = AT(as),
     .arg = "NAME",
     .help = "another name for it besides its own, for -m, serve and the rest"},
    {.name = "hub",
     .kind = KT__OPT_TEXT,
     .at = AT(hub),
     .arg = "URL",
     .help = "where from: a hub, a mirror, a folder that a web server lists, a registry (default: "
             "`hub` of kentang.toml, KENTANG_HUB, else " KT__STORE_HUB ", and " KT__STORE_REGISTRY
             " for names without an owner)"},
    {.name = "token-file",
     .kind = KT__OPT_TEXT,
     .at = AT(token_file),
     .arg = "FILE",
     .help = "the hub's token for gated models; only you may be able to read it (default: "
             "`hub_token`, else hub-token next to kentang.toml)"},
    {.name = "offline",
     .kind = KT__OPT_ON,
     .at = AT(offline),
     .help = "ask no hub: an error where the model is not here (also KENTANG_OFFLINE)"},
    {.name = "connections",
     .brief = "j",
     .kind = KT__OPT_INT,
     .at = AT(n_connections),
     .min = 1,
     .max = 16,
     .arg = "N",
     .help = "parts fetched side by side (default 4)"},
};
#undef AT

static kt_status name_it(const kt__store *store, const char *as, const char *path, kt_error *err) {
    kt__shelf shelf;
    kt_status status = kt__store_shelf(store, &shelf, err);
    const kt__shelf_model *model = status == KT_OK ? kt__shelf_at(&shelf, path) : NULL;
    if (model) status = kt__shelf_link(&shelf, as, model, err);
    kt__shelf_close(&shelf);
    return status;
}

static int run_pull(const pull_opts *o, const char *name) {
    kt__config *config;
    kt__pull_report report;
    kt_error err;
    kt_status status = kt__model_name_config(&config, &err);
    if (status != KT_OK) return kt__cli_fail("pull", &err);
    kt__store store = kt__model_name_store(config);
    if (o->hub) store.hub = o->hub;
    if (o->token_file) store.token_file = o->token_file;
    store.offline |= o->offline;
    store.n_connections = o->n_connections;
    status = kt__model_name_pull(&store, name, &report, &err);
    if (status == KT_OK && o->as) status = name_it(&store, o->as, report.path, &err);
    if (status == KT_OK) puts(report.path);
    kt__config_free(config);
    return status == KT_OK ? 0 : kt__cli_fail("pull", &err);
}

int kt__cmd_pull(int argc, char **argv) {
    pull_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", table, KT__COUNT(table), &opts}};
    const kt__syntax syntax = {
        .command = "pull",
        .usage = "[OPTIONS] NAME",
        .about =
            "Gets a model and prints its path. NAME is OWNER/REPO[@REVISION][/FILE][:TAG] of a "
            "hub,\n"
            "NAME[:TAG] of a registry, or an address. Without file and tag: the only model that "
            "is\n"
            "there, its Q4_K_M, or the folder of config.json and .safetensors. What broke off "
            "goes\n"
            "on at the next run; what came is compared with the hub's checksum and opened as a\n"
            "hostile file before it gets its name; no file is ever replaced.",
        .groups = groups,
        .n_groups = 1,
        .min_words = 1,
        .max_words = 1,
        .word = "NAME",
        .notes = "Examples:\n"
                 "  kentang pull Qwen/Qwen2.5-1.5B-Instruct-GGUF:q4_k_m --as qwen\n"
                 "  kentang pull qwen2.5:1.5b\n"
                 "  kentang pull http://box.lan/models/model.gguf\n"
                 "  kentang run -m qwen -p \"Halo\"",
    };
    const char *word = NULL;
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, &word, &n_words);
    return code >= 0 ? code : run_pull(&opts, word);
}
