#include "store/pull.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "convert/json_file.h"
#include "convert/plan.h"
#include "convert/safetensors.h"
#include "gguf/gguf.h"
#include "host/pages.h"
#include "store/hub.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"

/* ---- settings of Hugging Face's own tools ---- */

static const char *set_variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

const char *kt__hf_endpoint(void) {
    return set_variable("HF_ENDPOINT");
}

/* The first of these that is set decides, whether its file is there or not. */
static bool token_path(char *out, size_t size) {
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_TOKEN_PATH", ""},
                  {"HF_HOME", "/token"},
                  {"XDG_CACHE_HOME", "/huggingface/token"},
                  {"HOME", "/.cache/huggingface/token"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = set_variable(places[i].variable);
        if (!value) continue;
        int n = snprintf(out, size, "%s%s", value, places[i].below);
        return n > 0 && (size_t)n < size;
    }
    return false;
}

kt_status kt__hf_token(kt__access *access, kt_error *err) {
    char path[4096], text[sizeof access->token] = "";
    const char *token = set_variable("HF_TOKEN");
    kt_status status = KT_OK;
    if (access->token[0]) return KT_OK;
    if (token) return kt__access_add_token(access, token, "HF_TOKEN", err);
    if (!token_path(path, sizeof path)) return KT_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return KT_OK; /* not logged in */
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n < 0)
        status = kt__fail_system(err, errno, path, "cannot read the hub's token");
    else if (text[strspn(text, " \t\r\n")])
        status = kt__access_add_token(access, text, path, err);
    explicit_bzero(text, sizeof text);
    close(fd);
    return status;
}

/* ---- getting a model ---- */

enum { MAX_PATH = 4096, SPARE_BYTES = 64 << 20, MAX_CONFIG = 16 << 20, STAGING_SEED = 0x70756c6d };

typedef struct pull {
    const kt__pull_params *params;
    kt__access access;
    kt__offer offer;
    kt__pull_report *report;
    char root[MAX_PATH], staging[MAX_PATH];
    int lock;
    size_t key; /* the file that makes them a model: config.json, or the first part */
    bool is_folder;
    uint64_t total, before; /* bytes of all files, of those before the present one */
    kt_error *err;
} pull;

/* ---- places ---- */

static bool home_path(const char *variable, const char *below, const char *rest, char *out,
                      size_t size) {
    const char *xdg = getenv(variable), *home = getenv("HOME");
    int n = -1;
    if (xdg && kt__files_is_absolute(xdg))
        n = snprintf(out, size, "%s/%s", xdg, rest);
    else if (home && kt__files_is_absolute(home))
        n = snprintf(out, size, "%s/%s/%s", home, below, rest);
    return n > 0 && (size_t)n < size;
}

bool kt__store_dir(const kt__store *store, char *out, size_t size) {
    if (!store->dir) return home_path("XDG_DATA_HOME", ".local/share", "kentang/models", out, size);
    return snprintf(out, size, "%s", store->dir) < (int)size;
}

static kt_status fail_no_dir(kt_error *err) {
    return kt__fail(err, KT_E_ARG, "no folder for models: set HOME, or models_dir");
}

kt_status kt__store_shelf(const kt__store *store, kt__shelf *out, kt_error *err) {
    char dir[MAX_PATH];
    *out = (kt__shelf){0};
    if (!kt__store_dir(store, dir, sizeof dir)) return fail_no_dir(err);
    return kt__shelf_open(dir, out, err);
}

static bool join_path(char out[MAX_PATH], const char *dir, const char *a, const char *b) {
    if (strlen(dir) + strlen(a) + (b ? strlen(b) : 0) + 2 >= MAX_PATH - 64) return false;
    char *end = stpcpy(out, dir);
    *end++ = '/';
    end = stpcpy(end, a);
    if (b) *end++ = '/';
    if (b) (void)stpcpy(end, b);
    return true;
}

static bool final_path(const pull *p, size_t i, char out[MAX_PATH]) {
    return join_path(out, p->root, p->offer.dir, p->offer.files[i].name);
}

static bool staged_path(const pull *p, size_t i, char out[MAX_PATH]) {
    return join_path(out, p->staging, p->offer.files[i].name, NULL);
}

/* ---- the offer ---- */

kt_status kt__store_access(const kt__store *s, bool bare, kt__access *out, kt_error *err) {
    char token[MAX_PATH];
    const char *token_file = s->token_file;
    if (s->offline) return kt__fail(err, KT_E_STATE, "`offline` is set: no hub is asked");
    if (!token_file &&
        home_path("XDG_CONFIG_HOME", ".config", "kentang/hub-token", token, sizeof token))
        token_file = token;
    const char *hub = s->hub ? s->hub : bare ? KT__STORE_REGISTRY : kt__hf_endpoint();
    KT__STEP(kt__access_open(hub ? hub : KT__STORE_HUB, token_file, out, err));
    return s->hub || bare ? KT_OK : kt__hf_token(out, err);
}

static kt_status ask_offer(pull *p) {
    const kt__store *s = p->params->store;
    kt__hub_name name;
    KT__STEP(kt__hub_name_parse(p->params->name, &name, p->err));
    if (s->offline)
        return kt__fail(p->err, KT_E_STATE,
                        "\"%.100s\" is not on this machine, and `offline` is set: nothing is "
                        "fetched",
                        p->params->name);
    KT__STEP(kt__store_access(s, !name.url[0] && !strchr(name.repo, '/'), &p->access, p->err));
    p->access.stop = p->params->stop;
    return kt__hub_ask(&p->access, &name, p->params->name, &p->offer, p->err);
}

/* Whether the folder of the i-th file has one, of whichever version: it serves all models there. */
static bool mmproj_is_there(const pull *p, size_t i) {
    char path[MAX_PATH];
    bool found = false;
    const struct dirent *entry;
    if (!final_path(p, i, path)) return false;
    *strrchr(path, '/') = '\0';
    DIR *dir = opendir(path);
    while (dir && !found && (entry = readdir(dir))) found = kt__name_is_mmproj(entry->d_name);
    if (dir) closedir(dir);
    return found;
}

/* An mmproj file that comes with a model is not fetched where the model's folder has one. */
static void leave_mmproj(pull *p) {
    kt__offer *o = &p->offer;
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++) {
        if (o->n > 1 && kt__name_is_mmproj(o->files[i].name) && mmproj_is_there(p, i))
            kt__remote_free(&o->files[i]);
        else
            o->files[n++] = o->files[i];
    }
    o->n = n;
}

static void find_key(pull *p) {
    int part, n;
    size_t stem;
    for (size_t i = 0; i < p->offer.n; i++) {
        const kt__remote *r = &p->offer.files[i];
        bool is_config = !strcmp(r->name, "config.json");
        bool is_first = kt__name_is_gguf(r->name) &&
                        (!kt__name_is_mmproj(r->name) || p->offer.n == 1) &&
                        (!kt__name_split(r->name, &part, &n, &stem) || part == 1);
        if (is_config || is_first) p->key = i;
        p->is_folder |= is_config;
        p->total += r->bytes;
        p->report->n_checked += r->sha[0] != '\0';
    }
}

static void describe_pull(pull *p) {
    kt__pull_report *r = p->report;
    r->is_folder = p->is_folder;
    r->n_files = (int)p->offer.n;
    r->bytes = p->total;
    snprintf(r->source, sizeof r->source, "%.500s", p->offer.source);
    snprintf(r->revision, sizeof r->revision, "%.60s", p->offer.revision);
    const char *sha = p->offer.files[p->key].sha;
    if (strlen(sha) == sizeof r->digest - 1) memcpy(r->digest, sha, sizeof r->digest);
    if (p->is_folder)
        (void)join_path(r->path, p->root, p->offer.dir, NULL);
    else
        (void)final_path(p, p->key, r->path);
}

/* ---- what is there already ---- */

static kt_status read_origin(const pull *p, json_t **out) {
    char path[MAX_PATH + 64];
    kt_error ignored;
    kt__shelf_origin_path(p->report->path, p->is_folder, path, sizeof path);
    *out = NULL;
    return kt__folder_read_json(path, MAX_CONFIG, false, out, &ignored);
}

/* The note that pull left next to it names the same version of this file. */
static bool same_version(const json_t *origin, const kt__remote *r) {
    const json_t *noted = json_object_get(json_object_get(origin, "files"), r->name);
    const char *sha = json_string_value(json_object_get(noted, "sha"));
    const char *etag = json_string_value(json_object_get(noted, "etag"));
    if (r->sha[0] && sha && sha[0]) return !strcmp(sha, r->sha);
    return etag && !strcmp(etag, r->etag);
}

/* *n: how many of the files lie in their place; another version of one is an error. */
static kt_status count_present(const pull *p, size_t *n) {
    char path[MAX_PATH];
    struct stat st;
    json_t *origin;
    kt_status status = read_origin(p, &origin);
    *n = 0;
    status = KT_OK;
    for (size_t i = 0; i < p->offer.n && status == KT_OK; i++) {
        const kt__remote *r = &p->offer.files[i];
        if (!final_path(p, i, path)) {
            status = kt__fail(p->err, KT_E_ARG, "the model's path is too long");
        } else if (lstat(path, &st) == 0) {
            ++*n;
            if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != r->bytes ||
                !same_version(origin, r))
                status = kt__fail_at(p->err, KT_E_STATE, path, UINT64_MAX,
                                     "another file of that name is there, and is not replaced; to "
                                     "get this one: kentang rm, or move it away");
        }
    }
    json_decref(origin);
    return status;
}

/* ---- unfinished downloads: DIR/.unfinished/NAME-VERSION ---- */

static void hash_text(kt__hash *hash, const char *text) {
    kt__hash_add(hash, text, strlen(text) + 1);
}

/* Two runs for the same version meet in the same folder. */
static bool name_staging(pull *p) {
    kt__hash name, version;
    kt__hash_init(&name, STAGING_SEED);
    kt__hash_init(&version, STAGING_SEED);
    hash_text(&name, p->offer.dir);
    hash_text(&name, p->offer.files[p->key].name);
    for (size_t i = 0; i < p->offer.n; i++) {
        const kt__remote *r = &p->offer.files[i];
        hash_text(&version, r->name);
        hash_text(&version, r->sha);
        hash_text(&version, r->etag);
        kt__hash_add(&version, &r->bytes, sizeof r->bytes);
    }
    int n = snprintf(p->staging, sizeof p->staging, "%s/.unfinished/%016llx-%016llx", p->root,
                     (unsigned long long)kt__hash_end(&name).w[0],
                     (unsigned long long)kt__hash_end(&version).w[0]);
    return n > 0 && (size_t)n < sizeof p->staging - KT__NAME_MAX - 64;
}

/* Removes a folder of downloads with what is in it; returns the bytes it had. */
static uint64_t walk_unfinished(const char *path, bool remove, int depth) {
    char below[MAX_PATH];
    const struct dirent *entry;
    struct stat st;
    uint64_t bytes = 0;
    DIR *dir = depth < 8 ? opendir(path) : NULL;
    while (dir && (entry = readdir(dir))) {
        int n = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        bool dots = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
        if (dots || n < 0 || (size_t)n >= sizeof below || lstat(below, &st) != 0) continue;
        if (S_ISDIR(st.st_mode)) {
            bytes += walk_unfinished(below, remove, depth + 1);
        } else {
            bytes += (uint64_t)st.st_blocks * 512;
            if (remove) (void)unlink(below);
        }
    }
    if (dir) closedir(dir);
    if (remove) (void)rmdir(path);
    return bytes;
}

uint64_t kt__pull_unfinished(const char *dir, bool remove) {
    char path[MAX_PATH];
    if (!join_path(path, dir, ".unfinished", NULL)) return 0;
    return walk_unfinished(path, remove, 0);
}

/* Of the same model, but of a version that the hub has no more. */
static void remove_older(const pull *p) {
    const char *own = strrchr(p->staging, '/') + 1;
    char parent[MAX_PATH], path[MAX_PATH + 256];
    const struct dirent *entry;
    snprintf(parent, sizeof parent, "%.*s", (int)(own - p->staging - 1), p->staging);
    DIR *dir = opendir(parent);
    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, own, 17) != 0 || !strcmp(entry->d_name, own)) continue;
        snprintf(path, sizeof path, "%s/%.200s", parent, entry->d_name);
        (void)walk_unfinished(path, true, 0);
    }
    if (dir) closedir(dir);
}

static kt_status open_staging(pull *p) {
    char path[MAX_PATH];
    if (!name_staging(p)) return kt__fail(p->err, KT_E_ARG, "the model's path is too long");
    (void)join_path(path, p->staging, ".lock", NULL);
    kt__make_parents(path);
    p->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (p->lock < 0) return kt__fail_system(p->err, errno, path, "cannot create it");
    if (flock(p->lock, LOCK_EX | LOCK_NB) != 0)
        return kt__fail(p->err, KT_E_STATE, "\"%.100s\" is being fetched by another process",
                        p->params->name);
    remove_older(p);
    return KT_OK;
}

/* What is still to come must fit, with some to spare, before the first byte is asked for. */
static kt_status check_room(const pull *p) {
    struct statvfs fs;
    uint64_t here = walk_unfinished(p->staging, false, 0);
    uint64_t wanted = p->total > here ? p->total - here : 0;
    if (statvfs(p->staging, &fs) != 0) return KT_OK;
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    uint64_t spare = wanted / 64 < SPARE_BYTES ? wanted / 64 : SPARE_BYTES;
    if (wanted + spare <= room) return KT_OK;
    return kt__fail_at(p->err, KT_E_IO, p->root, UINT64_MAX,
                       "no room: %.1f MB are to come and %.1f MB are free; take a smaller "
                       "quantisation, or set models_dir to another disk",
                       (double)wanted / 1e6, (double)room / 1e6);
}

static bool rename_new(const char *from, const char *to) {
    /* not every C library has a function for it */
    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    return link(from, to) == 0 && unlink(from) == 0; /* a file system without that call */
}

/* What an earlier run had named before it was killed comes back to the others, to be checked and
 * named with them. It is no model yet: the file that makes it one is named last. */
static void take_back(const pull *p) {
    char from[MAX_PATH], to[MAX_PATH];
    for (size_t i = 0; i < p->offer.n; i++) {
        if (!final_path(p, i, from) || !staged_path(p, i, to)) continue;
        kt__make_parents(to);
        (void)rename_new(from, to);
    }
}

/* ---- fetching ---- */

static void show_whole(void *user, uint64_t done, uint64_t total) {
    const pull *p = user;
    (void)total;
    if (p->params->progress) p->params->progress(p->params->user, p->before + done, p->total);
}

static kt_status fetch_file(pull *p, size_t i) {
    const kt__remote *r = &p->offer.files[i];
    const int n = p->params->store->n_connections;
    const kt__download_params params = {n ? n : 4, show_whole, p};
    char path[MAX_PATH];
    struct stat st;
    if (!staged_path(p, i, path)) return kt__fail(p->err, KT_E_ARG, "the model's path is too long");
    kt__make_parents(path);
    if (stat(path, &st) == 0 && (uint64_t)st.st_size == r->bytes) return KT_OK; /* complete */
    return kt__download(&p->access, r, path, &params, p->err);
}

static kt_status fetch_files(pull *p) {
    kt_status status = KT_OK;
    for (size_t i = 0; i < p->offer.n && status == KT_OK; i++) {
        status = fetch_file(p, i);
        p->before += p->offer.files[i].bytes;
    }
    return status;
}

/* ---- the check ---- */

static kt_status check_gguf(const pull *p, size_t i) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__gguf *gguf = NULL;
    kt__str arch = {"", 0};
    char path[MAX_PATH];
    kt_status status;
    (void)staged_path(p, i, path);
    KT__TRY(kt__gguf_open(path, &params, &gguf, p->err));
    KT__TRY(kt__gguf_get_str(gguf, "general.architecture", true, &arch, p->err));
out:
    kt__gguf_close(gguf);
    return status;
}

static kt_status check_folder(const pull *p) {
    kt__folder folder = {0};
    kt__sentence sentence = {0};
    json_t *config = NULL;
    char path[MAX_PATH];
    kt_status status;
    (void)staged_path(p, p->key, path);
    KT__TRY(kt__folder_read_json(path, MAX_CONFIG, true, &config, p->err));
    KT__TRY(kt__folder_open(p->staging, &folder, p->err));
    status = kt__sentence_open(p->staging, &sentence, p->err);
    if (status == KT_E_UNSUPPORTED) status = KT_OK; /* convert says so, and more than that */
out:
    kt__sentence_close(&sentence);
    kt__folder_close(&folder);
    json_decref(config);
    return status;
}

/* What was refused is not kept: the next run would find it complete. */
static kt_status check_files(pull *p) {
    kt_status status = p->is_folder ? check_folder(p) : check_gguf(p, p->key);
    for (size_t i = 0; i < p->offer.n && status == KT_OK; i++)
        if (i != p->key && kt__name_is_mmproj(p->offer.files[i].name)) status = check_gguf(p, i);
    if (status == KT_E_FORMAT || status == KT_E_LIMIT || status == KT_E_TRUNCATED)
        (void)walk_unfinished(p->staging, true, 0);
    return status;
}

/* ---- the names ---- */

static kt_status publish_file(const pull *p, size_t i) {
    char from[MAX_PATH], to[MAX_PATH];
    if (!staged_path(p, i, from) || !final_path(p, i, to))
        return kt__fail(p->err, KT_E_ARG, "the model's path is too long");
    kt__make_parents(to);
    if (rename_new(from, to)) {
        if (!p->is_folder) kt__relay_written(to);
        return KT_OK;
    }
    return kt__fail_system(p->err, errno, to, "cannot give the file its name");
}

static void put_origin(const pull *p, kt__buf *out) {
    char number[32];
    kt__buf_putc(out, '{');
    kt__json_member(out, "source", p->offer.source);
    kt__json_member(out, "revision", p->offer.revision);
    snprintf(number, sizeof number, "%lld", (long long)time(NULL));
    kt__json_member(out, "pulled", number);
    kt__json_key(out, "files");
    kt__buf_putc(out, '{');
    for (size_t i = 0; i < p->offer.n; i++) {
        const kt__remote *r = &p->offer.files[i];
        kt__json_key(out, r->name);
        kt__buf_putc(out, '{');
        kt__json_member(out, "sha", r->sha);
        kt__json_member(out, "etag", r->etag);
        kt__buf_putc(out, '}');
    }
    kt__buf_puts(out, "}}\n");
}

/* Where it came from: for `show`, and to know the version again. Its loss harms nothing. */
static void write_origin(const pull *p) {
    char path[MAX_PATH + 64];
    kt__buf text;
    kt__buf_init(&text, 8 << 20);
    put_origin(p, &text);
    kt__shelf_origin_path(p->report->path, p->is_folder, path, sizeof path);
    kt__make_parents(path);
    int fd = text.failed ? -1
                         : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd >= 0) {
        if (!kt__fd_write(fd, text.data, text.len)) (void)unlink(path);
        close(fd);
    }
    kt__buf_free(&text);
}

/* The file that makes them a model comes last. */
static kt_status publish_files(pull *p) {
    kt_status status = KT_OK;
    write_origin(p);
    for (size_t i = 0; i < p->offer.n && status == KT_OK; i++)
        if (i != p->key) status = publish_file(p, i);
    if (status == KT_OK) status = publish_file(p, p->key);
    if (status == KT_OK) (void)walk_unfinished(p->staging, true, 0);
    return status;
}

/* ---- the whole ---- */

static kt_status pull_files(pull *p) {
    size_t n_present;
    KT__STEP(ask_offer(p));
    leave_mmproj(p);
    find_key(p);
    describe_pull(p);
    KT__STEP(count_present(p, &n_present));
    p->report->was_there = n_present == p->offer.n;
    if (p->report->was_there) return KT_OK;
    KT__STEP(open_staging(p));
    if (n_present) take_back(p);
    KT__STEP(check_room(p));
    KT__STEP(fetch_files(p));
    KT__STEP(check_files(p));
    return publish_files(p);
}

kt_status kt__pull(const kt__pull_params *params, kt__pull_report *report, kt_error *err) {
    pull *p = kt__calloc(1, sizeof *p);
    *report = (kt__pull_report){0};
    if (!p) return kt__fail_nomem(err, "a download", sizeof *p);
    p->params = params;
    p->report = report;
    p->err = err;
    p->lock = -1;
    kt_status status = KT_E_ARG;
    if (kt__store_dir(params->store, p->root, sizeof p->root))
        status = pull_files(p);
    else
        (void)fail_no_dir(err);
    if (p->lock >= 0) close(p->lock);
    kt__offer_free(&p->offer);
    kt__access_close(&p->access);
    kt__free(p);
    return status;
}
