#include "convert/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "convert/config.h"
#include "convert/json_file.h"

enum { MAX_FILE = 1 << 20, MAX_MODULES = 16 };

typedef struct module_reader {
    const char *dir;  /* of the model */
    const char *path; /* of the module, below it */
    char *folder, *config_path;
    json_t *config;
    kt__sentence *out;
    kt_error *err;
} module_reader;

static kt_status refuse_module(const module_reader *r, const char *name, const char *why) {
    return kt__fail_at(r->err, KT_E_UNSUPPORTED, r->config_path, UINT64_MAX, "\"%s\": %s", name,
                       why);
}

/* ---- pooling ---- */

/* Five flags in older files, of which one is set; "pooling_mode" in newer ones. */
static kt_status read_pooling(module_reader *r) {
    static const struct {
        const char *flag, *mode;
        int pooling;
    } kinds[] = {{"pooling_mode_mean_tokens", "mean", KT__HF_POOL_MEAN},
                 {"pooling_mode_cls_token", "cls", KT__HF_POOL_CLS},
                 {"pooling_mode_lasttoken", "lasttoken", KT__HF_POOL_LAST},
                 {"pooling_mode_max_tokens", "max", KT__HF_NONE},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", KT__HF_NONE},
                 {"pooling_mode_weightedmean_tokens", "weightedmean", KT__HF_NONE}};
    const char *mode = json_string_value(json_object_get(r->config, "pooling_mode"));
    const char *found = NULL;
    int n = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool set = json_is_true(json_object_get(r->config, kinds[i].flag)) ||
                   (mode && strcmp(mode, kinds[i].mode) == 0);
        if (!set) continue;
        n++;
        found = kinds[i].flag;
        r->out->pooling = kinds[i].pooling;
    }
    if (n == 1 && r->out->pooling != KT__HF_NONE) return KT_OK;
    return refuse_module(r, found ? found : "pooling_mode",
                         "pooling by mean, by the first token or by the last one is supported");
}

/* ---- dense layers ---- */

static bool is_identity(const char *function) {
    const char *dot = strrchr(function, '.');
    return strcmp(dot ? dot + 1 : function, "Identity") == 0;
}

static kt_status read_dense(module_reader *r) {
    const char *function = json_string_value(json_object_get(r->config, "activation_function"));
    const kt__shard *shard;
    size_t i = r->out->n_dense;
    if (!function || !is_identity(function))
        return refuse_module(r, "activation_function", "GGUF has no function after a dense layer");
    if (i == KT__SENTENCE_MAX_DENSE)
        return refuse_module(r, "in_features", "a third dense layer, of which GGUF has two");
    KT__STEP(kt__folder_open(r->folder, &r->out->dense[i], r->err));
    r->out->n_dense++;
    r->out->dense_weight[i] = kt__folder_find(&r->out->dense[i], "linear.weight", &shard);
    r->out->dense_bias[i] = kt__folder_find(&r->out->dense[i], "linear.bias", &shard);
    if (!r->out->dense_weight[i] || r->out->dense_weight[i]->n_dims != 2 ||
        r->out->dense[i].n_tensors != (r->out->dense_bias[i] ? 2 : 1))
        return kt__fail_at(r->err, KT_E_FORMAT, r->out->dense[i].shards[0].path, UINT64_MAX,
                           "one matrix, 'linear.weight', is expected, and at most a 'linear.bias'");
    return KT_OK;
}

/* ---- a comparison of two tokens ---- */

static kt_status read_comparison(module_reader *r) {
    json_t *yes = json_object_get(r->config, "true_token_id");
    json_t *no = json_object_get(r->config, "false_token_id");
    r->out->compares = true;
    r->out->yes_id = json_is_integer(yes) ? json_integer_value(yes) : -1;
    r->out->no_id = json_is_integer(no) ? json_integer_value(no) : -1;
    if (r->out->yes_id >= 0 && (r->out->no_id >= 0 || !no || json_is_null(no))) return KT_OK;
    return refuse_module(r, "true_token_id", "ids of the two tokens are expected");
}

/* ---- modules ---- */

typedef kt_status module_fn(module_reader *r);

/* By the last part of the module's type; those without a function change nothing that is written:
 * lengths are the client's wish. */
static const struct {
    const char *type;
    module_fn *read;
} modules[] = {{"Transformer", NULL},
               {"Normalize", NULL},
               {"Pooling", read_pooling},
               {"Dense", read_dense},
               {"LogitScore", read_comparison}};

static bool is_plain_name(const char *name) {
    return name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < 200;
}

static kt_status open_module(module_reader *r, module_fn *read) {
    if (!is_plain_name(r->path))
        return kt__fail_at(r->err, KT_E_FORMAT, r->dir, UINT64_MAX,
                           "modules.json names the folder '%.60s', which is not below the model's",
                           r->path);
    r->folder = kt__folder_path(r->dir, r->path);
    r->config_path = r->folder ? kt__folder_path(r->folder, "config.json") : NULL;
    if (!r->config_path) return kt__fail_nomem(r->err, "a path", strlen(r->path));
    KT__STEP(kt__folder_check_link(r->folder, r->err));
    KT__STEP(kt__folder_read_json(r->config_path, MAX_FILE, true, &r->config, r->err));
    return read(r);
}

static kt_status read_module(const char *dir, const json_t *entry, kt__sentence *out,
                             kt_error *err) {
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    module_reader r = {.dir = dir, .path = path ? path : "", .out = out, .err = err};
    for (size_t i = 0; type && i < sizeof modules / sizeof *modules; i++) {
        if (strcmp(dot ? dot + 1 : type, modules[i].type) != 0) continue;
        kt_status status = modules[i].read ? open_module(&r, modules[i].read) : KT_OK;
        json_decref(r.config);
        kt__free(r.config_path);
        kt__free(r.folder);
        return status;
    }
    return kt__fail_at(err, KT_E_UNSUPPORTED, dir, UINT64_MAX,
                       "modules.json has a module of type '%.80s', which is not supported "
                       "(Transformer, Pooling, Dense, Normalize, LogitScore)",
                       type ? type : "(none named)");
}

/* A folder of sentence-transformers without its list of modules has lost how texts are pooled. */
static kt_status check_list(const char *dir, const char *path, const json_t *list, kt_error *err) {
    char *sign = list ? NULL : kt__folder_path(dir, "config_sentence_transformers.json");
    bool lost = sign && kt__file_exists(sign);
    kt__free(sign);
    if (!lost) return KT_OK;
    return kt__fail_at(err, KT_E_IO, path, UINT64_MAX,
                       "the file is missing, and config_sentence_transformers.json is there: get "
                       "the whole folder again, with what modules.json names");
}

kt_status kt__sentence_open(const char *dir, kt__sentence *out, kt_error *err) {
    char *path = kt__folder_path(dir, "modules.json");
    json_t *list = NULL;
    kt_status status;
    *out = (kt__sentence){.pooling = KT__HF_NONE};
    KT__TRY(path ? KT_OK : kt__fail_nomem(err, "a path", strlen(dir)));
    KT__TRY(kt__folder_read_list(path, MAX_FILE, MAX_MODULES, &list, err));
    KT__TRY(check_list(dir, path, list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        KT__TRY(read_module(dir, json_array_get(list, i), out, err));
out:
    json_decref(list);
    kt__free(path);
    return status;
}

void kt__sentence_close(kt__sentence *sentence) {
    for (size_t i = 0; i < KT__SENTENCE_MAX_DENSE; i++) kt__folder_close(&sentence->dense[i]);
    *sentence = (kt__sentence){0};
}
