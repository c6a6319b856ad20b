#include "store/hub.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

enum { MAX_PART = 200 };

/* ---- names ---- */

bool kt__name_is_safe(const char *name) {
    size_t part = 0;
    if (!*name || strlen(name) > KT__NAME_MAX) return false;
    for (const char *c = name;; c++) {
        if (*c == '/' || !*c) {
            if (part == 0 || part > MAX_PART) return false;
            part = 0;
            if (!*c) return true;
        } else {
            if (*c < ' ' || *c > '~' || *c == '\\' || (part == 0 && *c == '.')) return false;
            part++;
        }
    }
}

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), e = strlen(end);
    return n > e && kt__strcasecmp(name + n - e, end) == 0;
}

bool kt__name_is_gguf(const char *name) {
    return ends_with(name, ".gguf");
}

bool kt__name_is_mmproj(const char *name) {
    return kt__name_is_gguf(name) && strcasestr(kt__files_name(name), "mmproj");
}

static bool five_digit_number(const char *s, int *out) {
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        *out = *out * 10 + (s[i] - '0');
    }
    return true;
}

bool kt__name_split(const char *name, int *part, int *n_parts, size_t *stem_len) {
    size_t n = strlen(name), tail = strlen("-00000-of-00000.gguf");
    if (n <= tail || !kt__name_is_gguf(name)) return false;
    const char *end = name + n - tail;
    if (end[0] != '-' || strncmp(end + 6, "-of-", 4) != 0) return false;
    *stem_len = n - tail;
    return five_digit_number(end + 1, part) && five_digit_number(end + 10, n_parts) && *part > 0 &&
           *part <= *n_parts;
}

bool kt__name_has_tag(const char *name, const char *tag) {
    size_t len = strlen(tag);
    for (const char *at = name; len && *at; at++) {
        if (kt__strncasecmp(at, tag, len) != 0) continue;
        bool begins = at == name || !isalnum((unsigned char)at[-1]);
        if (begins && !isalnum((unsigned char)at[len]) && at[len] != '_') return true;
    }
    return false;
}

/* ---- models among files ---- */

/* Files with the same model: one file, or all parts of a split one. */
static bool same_model(const char *a, const char *b) {
    int part, n_a, n_b;
    size_t stem_a, stem_b;
    if (!strcmp(a, b)) return true;
    return kt__name_split(a, &part, &n_a, &stem_a) && kt__name_split(b, &part, &n_b, &stem_b) &&
           n_a == n_b && stem_a == stem_b && !strncmp(a, b, stem_a);
}

/* "imatrix_unsloth.gguf", "Model-imatrix.gguf": what the columns weigh. Models that were quantised
 * with one have the word in the middle of their name, if at all. */
static bool is_importance(const char *name) {
    return kt__strncasecmp(name, "imatrix", 7) == 0 || ends_with(name, "imatrix.gguf");
}

/* A language model and not the picture part or the importance matrix next to it. */
static bool is_model_file(const char *name) {
    const char *base = kt__files_name(name);
    return kt__name_is_gguf(name) && !kt__name_is_mmproj(name) && !is_importance(base);
}

static int mmproj_rank(const char *name) {
    static const char *const tags[] = {"q8_0", "f16", "bf16"};
    int rank = 0, n = sizeof tags / sizeof *tags;
    while (rank < n && !kt__name_has_tag(name, tags[rank])) rank++;
    return rank;
}

static bool same_folder(const char *a, const char *b) {
    ptrdiff_t n = kt__files_name(a) - a;
    return n == kt__files_name(b) - b && !strncmp(a, b, (size_t)n);
}

/* Encoders are small, and lose by few bits: the first of the tags above. */
static void choose_mmproj(const char *const *names, size_t n, const char *model, bool *chosen) {
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        if (!kt__name_is_mmproj(names[i]) || !same_folder(names[i], model)) continue;
        if (best == n || mmproj_rank(names[i]) < mmproj_rank(names[best])) best = i;
    }
    if (best < n && !kt__name_is_mmproj(model)) chosen[best] = true;
}

static kt_status choose_model(const char *const *names, size_t n, const char *first,
                              const kt__wish *wish, bool *chosen, kt_error *err) {
    int part, n_parts = 1, found = 0;
    size_t stem;
    if (!kt__name_split(first, &part, &n_parts, &stem)) n_parts = 1;
    for (size_t i = 0; i < n; i++) {
        chosen[i] = same_model(first, names[i]);
        found += chosen[i];
    }
    choose_mmproj(names, n, first, chosen);
    if (found == n_parts) return KT_OK;
    return kt__fail(err, KT_E_FORMAT, "%.200s: %d of %d parts of \"%.100s\" are there", wish->what,
                    found, n_parts, first);
}

static void list_models(const char *const *names, size_t n, char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n && at + 60 < size; i++) {
        int part, n_parts;
        size_t stem;
        if (!is_model_file(names[i])) continue;
        if (kt__name_split(names[i], &part, &n_parts, &stem) && part > 1) continue;
        at += (size_t)snprintf(out + at, size - at, "%s%.50s", at ? ", " : "", names[i]);
    }
}

/* The one model whose name has the tag (NULL: any); *n_found says how many there are. */
static const char *find_tagged(const char *const *names, size_t n, const char *tag, int *n_found) {
    const char *found = NULL;
    *n_found = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_model_file(names[i]) || (tag && !kt__name_has_tag(names[i], tag))) continue;
        if (found && same_model(found, names[i])) continue;
        if (!found) found = names[i];
        ++*n_found;
    }
    return found;
}

static kt_status choose_tagged(const char *const *names, size_t n, const kt__wish *wish,
                               bool *chosen, kt_error *err) {
    char there[360];
    int n_found;
    const char *found = find_tagged(names, n, wish->tag, &n_found);
    if (!wish->tag && n_found > 1) found = find_tagged(names, n, "q4_k_m", &n_found);
    if (n_found == 1) return choose_model(names, n, found, wish, chosen, err);
    list_models(names, n, there, sizeof there);
    return kt__fail(err, KT_E_ARG, "%.100s: %s; add :TAG or /FILE. There is: %s", wish->what,
                    n_found     ? "several models fit"
                    : wish->tag ? "no model has that tag"
                                : "which of its models?",
                    there);
}

/* ---- folders ---- */

/* "1_Pooling/config.json", "2_Dense/model.safetensors": the folders that modules.json names. */
static bool is_module_file(const char *name, const char *slash) {
    return name[0] >= '0' && name[0] <= '9' &&
           (strcmp(slash, "/config.json") == 0 || strcmp(slash, "/model.safetensors") == 0);
}

/* What `kentang convert` reads. */
static bool is_folder_file(const char *name, bool has_modules) {
    static const char templates[] = "additional_chat_templates/";
    static const char *const known[] = {"config.json",
                                        "generation_config.json",
                                        "model.safetensors.index.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "tokenizer.model",
                                        "tiktoken.model",
                                        "vocab.json",
                                        "vocab.txt",
                                        "modules.json",
                                        "config_sentence_transformers.json",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "chat_template.json",
                                        "special_tokens_map.json",
                                        "chat_template.jinja"};
    const char *slash = strchr(name, '/');
    if (slash && strncmp(name, templates, sizeof templates - 1) == 0)
        return !strchr(slash + 1, '/') && ends_with(name, ".jinja");
    if (slash) return has_modules && is_module_file(name, slash);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i])) return true;
    /* consolidated: the same weights once more, in their makers' own layout */
    return ends_with(name, ".safetensors") && strncmp(name, "consolidated", 12) != 0;
}

static kt_status choose_folder(const char *const *names, size_t n, const kt__wish *wish,
                               bool *chosen, kt_error *err) {
    bool has_config = false, has_weights = false, has_modules = false;
    for (size_t i = 0; i < n; i++) has_modules |= !strcmp(names[i], "modules.json");
    for (size_t i = 0; i < n; i++) {
        chosen[i] = is_folder_file(names[i], has_modules);
        has_config |= !strcmp(names[i], "config.json");
        has_weights |= chosen[i] && !strchr(names[i], '/') && ends_with(names[i], ".safetensors");
    }
    if (has_config && has_weights) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "%.200s: neither a GGUF file nor a folder with config.json and .safetensors",
                    wish->what);
}

kt_status kt__choose_files(const char *const *names, size_t n, const kt__wish *wish, bool *chosen,
                           kt_error *err) {
    int n_models;
    for (size_t i = 0; i < n; i++) chosen[i] = false;
    for (size_t i = 0; i < n && wish->file; i++)
        if (!strcmp(names[i], wish->file) && kt__name_is_gguf(names[i]))
            return choose_model(names, n, names[i], wish, chosen, err);
    if (wish->file)
        return kt__fail(err, KT_E_ARG, "%.200s: there is no GGUF file \"%.100s\"", wish->what,
                        wish->file);
    (void)find_tagged(names, n, NULL, &n_models);
    if (n_models == 0 && !wish->tag) return choose_folder(names, n, wish, chosen, err);
    return choose_tagged(names, n, wish, chosen, err);
}
