#include "cli/chat.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "term/cli.h"
#include "term/safe_text.h"

enum { MAX_READ_BYTES = 16 << 20 };

/* A file's name as the shell's users write it: "~/" is the home folder. For kt__free; NULL, with a
 * line about it: there is none, or no memory. */
static char *file_name(const char *command, const char *text) {
    const char *home = getenv("HOME");
    kt__buf name;
    size_t len;
    if (!*text) {
        fprintf(stderr, "(%s needs a file name)\n", command);
        return NULL;
    }
    bool in_home = text[0] == '~' && text[1] == '/' && home;
    kt__buf_init(&name, 8192);
    if (in_home) kt__buf_puts(&name, home);
    kt__buf_puts(&name, text + in_home);
    char *path = kt__buf_take(&name, &len);
    kt__buf_free(&name);
    return path;
}

/* "(the text)" without what could steer the terminal */
static void print_note(const char *before, const char *text, const char *after) {
    fputs(before, stderr);
    kt__safe_print(stderr, text, strlen(text), 400);
    fputs(after, stderr);
}

/* ---- what a user says of an answer: /good, /bad, /fix TEXT ---- */

/* The answer's tokens, with the end of the turn. For kt__free. */
static kt_status encode_answer(const kt__session *s, const char *text, int32_t **out, size_t *n,
                               kt_error *err) {
    size_t len = strlen(text);
    *out = kt__calloc(len + 8, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "an answer", len);
    kt_status status = kt_tokenize(s->model, text, len, 0, *out, len + 4, n, err);
    if (status == KT_OK && s->info.eos_id >= 0 && kt_token_is_eog(s->model, s->info.eos_id))
        (*out)[(*n)++] = s->info.eos_id;
    return status;
}

/* The answer's id, by what was asked and answered: a second word on the same answer replaces the
 * first. */
static void name_answer(const kt_kept *kept, char id[32]) {
    kt__hash h;
    kt__hash_init(&h, 0);
    kt__hash_add(&h, kept->prompt, kept->n_prompt * sizeof *kept->prompt);
    kt__hash_add(&h, kept->answer, kept->n_answer * sizeof *kept->answer);
    snprintf(id, 32, "run-%016llx", (unsigned long long)kt__hash_end(&h).w[0]);
}

/* NULL: nobody asked. */
static const char *last_question(const kt__chat *c) {
    for (size_t i = c->messages.n; i > 0; i--)
        if (!strcmp(c->messages.items[i - 1].role, "user")) return c->messages.items[i - 1].content;
    return NULL;
}

static kt_status give_feedback(kt__chat *c, float score, const char *correction,
                               kt_feedback_result *result, kt_error *err) {
    kt__session *s = c->session;
    kt_request_params asked = kt__session_request(s);
    int32_t *prompt = NULL, *answer = NULL;
    kt_kept kept = {0};
    kt_status status;
    asked.prompt.messages = c->messages.items;
    asked.prompt.n_messages = c->messages.n - 1;
    KT__TRY(kt_request_encode(s->model, &asked, &prompt, &kept.n_prompt, err));
    KT__TRY(encode_answer(s, c->messages.items[c->messages.n - 1].content, &answer, &kept.n_answer,
                          err));
    kept.prompt = prompt;
    kept.answer = answer;
    kept.question = last_question(c);
    kept.n_question = kept.question ? strlen(kept.question) : 0;
    char id[32];
    name_answer(&kept, id);
    const kt_feedback_params params = {.kept = &kept,
                                       .about = id,
                                       .score = score,
                                       .correction = correction,
                                       .n_correction = correction ? strlen(correction) : 0};
    KT__TRY(kt_feedback(s->learner, &params, result, err));
out:
    kt_free(prompt);
    kt__free(answer);
    return status;
}

static void note_feedback(kt__chat *c, float score, const char *correction) {
    kt_error err = {0};
    kt_feedback_result r;
    size_t n = c->messages.n;
    if (!c->session->learner) {
        fputs("(learning is off: start with --learn)\n", stderr);
    } else if (n < 2 || strcmp(c->messages.items[n - 1].role, "assistant") != 0) {
        fputs("(there is no answer to speak of)\n", stderr);
    } else if (correction && !*correction) {
        fputs("(/fix needs the answer as it should have been)\n", stderr);
    } else if (give_feedback(c, score, correction, &r, &err) != KT_OK) {
        kt__chat_show_error(c, &err);
    } else if (r.n_pairs) {
        fprintf(stderr, "(learned as fb_%llu: %d tokens, version %lld)\n", (unsigned long long)r.id,
                (int)r.n_pairs, (long long)r.version);
    } else {
        fprintf(stderr, "(noted as fb_%llu)\n", (unsigned long long)r.id);
    }
}

/* ---- the conversation's messages ---- */

static void cmd_clear(kt__chat *c, const char *text) {
    (void)text;
    kt__messages_cut(&c->messages, kt__messages_n_system(&c->messages));
    kt__buf_clear(&c->attached);
    fputs("(a new conversation)\n", stderr);
}

static void cmd_system(kt__chat *c, const char *text) {
    kt_error err = {0};
    bool none = !strcmp(text, "none");
    if (*text && kt__messages_set_system(&c->messages, none ? NULL : text, &err) != KT_OK) {
        kt__chat_show_error(c, &err);
        return;
    }
    print_note("(system: ",
               kt__messages_n_system(&c->messages) ? c->messages.items[0].content : "none", ")\n");
}

static void cmd_retry(kt__chat *c, const char *text) {
    (void)text;
    size_t n = c->messages.n;
    if (n < 2 || strcmp(c->messages.items[n - 1].role, "assistant") != 0) {
        fputs("(there is no answer to try again)\n", stderr);
        return;
    }
    kt__chat_answer_again(c);
}

static void cmd_good(kt__chat *c, const char *text) {
    (void)text;
    note_feedback(c, 1, NULL);
}

static void cmd_bad(kt__chat *c, const char *text) {
    (void)text;
    note_feedback(c, 0, NULL);
}

static void cmd_fix(kt__chat *c, const char *text) {
    note_feedback(c, 0, text);
}

static void cmd_undo(kt__chat *c, const char *text) {
    (void)text;
    size_t least = kt__messages_n_system(&c->messages), n = c->messages.n;
    if (n <= least) {
        fputs("(there is nothing to take back)\n", stderr);
        return;
    }
    kt__messages_cut(&c->messages, n - least >= 2 ? n - 2 : least);
    fprintf(stderr, "(the last exchange is taken back; %zu messages remain)\n",
            c->messages.n - least);
}

static void cmd_drop(kt__chat *c, const char *text) {
    (void)text;
    if (!kt__messages_drop_oldest(&c->messages)) {
        fputs("(there is no older exchange to drop; /clear forgets all)\n", stderr);
        return;
    }
    fprintf(stderr, "(the oldest exchange is dropped; %zu messages remain)\n",
            c->messages.n - kt__messages_n_system(&c->messages));
}

/* ---- files ---- */

static void cmd_save(kt__chat *c, const char *text) {
    kt_error err = {0};
    char *path = file_name("/save", text);
    if (!path) return;
    if (kt__messages_save(&c->messages, path, &err) == KT_OK)
        fprintf(stderr, "(%zu messages are in %s)\n", c->messages.n, path);
    else
        kt__chat_show_error(c, &err);
    kt__free(path);
}

static void cmd_load(kt__chat *c, const char *text) {
    kt_error err = {0};
    char *path = file_name("/load", text);
    if (!path) return;
    if (kt__messages_load(&c->messages, path, &err) == KT_OK)
        fprintf(stderr, "(%zu messages are loaded; the conversation continues from there)\n",
                c->messages.n);
    else
        kt__chat_show_error(c, &err);
    kt__free(path);
}

static void cmd_read(kt__chat *c, const char *text) {
    kt_error err = {0};
    size_t len = 0;
    char *content = NULL, *path = file_name("/read", text);
    if (!path) return;
    if (kt__text_file_read(path, MAX_READ_BYTES, false, &content, &len, &err) != KT_OK) {
        kt__chat_show_error(c, &err);
    } else if (!kt__buf_append(&c->attached, content, len)) {
        c->attached.failed = false;
        fprintf(stderr, "(%s does not fit: one message holds 16 MB)\n", path);
    } else {
        if (len && content[len - 1] != '\n') kt__buf_putc(&c->attached, '\n');
        fprintf(stderr, "(%s, %zu bytes, goes before your next message)\n", path, len);
    }
    kt__free(content);
    kt__free(path);
}

static void cmd_image(kt__chat *c, const char *text) {
    (void)c, (void)text;
    fputs(
        "(a picture goes with one prompt: kentang run --image FILE -p \"...\". /read FILE adds a text file.)\n",
        stderr);
}

/* ---- settings and figures ---- */

static bool is_number(const kt__opt *opt) {
    return opt->kind == KT__OPT_INT || opt->kind == KT__OPT_FLOAT || opt->kind == KT__OPT_SEED;
}

static void print_setting(const kt__opt *opt, const kt__sampling_opts *sampling) {
    const char *at = (const char *)sampling + opt->at;
    fprintf(stderr, "  %-20s ", opt->name);
    if (opt->kind == KT__OPT_INT) {
        fprintf(stderr, "%d\n", (int)*(const int32_t *)(const void *)at);
    } else if (opt->kind == KT__OPT_FLOAT) {
        fprintf(stderr, "%g\n", (double)*(const float *)(const void *)at);
    } else {
        uint64_t seed = *(const uint64_t *)(const void *)at;
        if (seed == KT_SEED_RANDOM)
            fputs("random\n", stderr);
        else
            fprintf(stderr, "%llu\n", (unsigned long long)seed);
    }
}

static void print_settings(kt__sampling_opts *sampling) {
    const kt__opt_group groups[] = {kt__sampling_opts_length_group(sampling),
                                    kt__sampling_opts_group(sampling)};
    for (size_t g = 0; g < KT__COUNT(groups); g++) {
        for (size_t i = 0; i < groups[g].n_opts; i++) {
            if (is_number(&groups[g].opts[i])) print_setting(&groups[g].opts[i], sampling);
        }
    }
}

/* The option NAME of "NAME VALUE"; dashes may be underscores. */
static const kt__opt *find_setting(const kt__opt_group *groups, size_t n, const char *text,
                                   size_t len) {
    for (size_t g = 0; g < n; g++) {
        for (size_t i = 0; i < groups[g].n_opts; i++) {
            const kt__opt *opt = &groups[g].opts[i];
            size_t k = 0;
            while (k < len && opt->name[k] &&
                   (opt->name[k] == text[k] || (opt->name[k] == '-' && text[k] == '_')))
                k++;
            if (is_number(opt) && k == len && !opt->name[k]) return opt;
        }
    }
    return NULL;
}

static void cmd_set(kt__chat *c, const char *text) {
    const kt__opt_group groups[] = {kt__sampling_opts_length_group(c->setup->sampling),
                                    kt__sampling_opts_group(c->setup->sampling)};
    char expected[256];
    size_t len = strcspn(text, " =");
    const char *value = text + len + strspn(text + len, " =");
    if (!*text) {
        print_settings(c->setup->sampling);
        return;
    }
    const kt__opt *opt = find_setting(groups, KT__COUNT(groups), text, len);
    if (!opt) {
        print_note("(no setting ", text, "; /set lists them)\n");
    } else if (*value && !kt__opt_set(opt, c->setup->sampling, value, expected, sizeof expected)) {
        fprintf(stderr, "(%s: expected %s)\n", opt->name, expected);
    } else {
        print_setting(opt, c->setup->sampling);
    }
}

static void cmd_stats(kt__chat *c, const char *text) {
    (void)text;
    if (c->figures->n_answers) kt__figures_print(c->figures);
    fprintf(stderr, "(%zu of %d positions are in use)\n", kt_seq_len(c->session->seq),
            (int)c->session->engine_info.n_ctx);
}

static void cmd_quit(kt__chat *c, const char *text) {
    (void)text;
    c->quit = true;
}

/* ---- the list ---- */

static void cmd_help(kt__chat *c, const char *text);

static const struct {
    const char *name, *arg, *help; /* help NULL: another name */
    void (*run)(kt__chat *c, const char *text);
} commands[] = {
    {"/help", "", "this list", cmd_help},
    {"/clear", "", "forget the conversation (the system message stays)", cmd_clear},
    {"/system", " TEXT", "set the system message; none removes it, nothing shows it", cmd_system},
    {"/set", " NAME VALUE", "change a setting (temp, seed, predict, ...); nothing lists them",
     cmd_set},
    {"/retry", "", "another answer to the last question (also /regen)", cmd_retry},
    {"/regen", "", NULL, cmd_retry},
    {"/good", "", "the last answer was right: remember it (needs --learn)", cmd_good},
    {"/bad", "", "the last answer was wrong: only noted", cmd_bad},
    {"/fix", " TEXT", "what the last answer should have been: remember it", cmd_fix},
    {"/undo", "", "take back the last question and its answer", cmd_undo},
    {"/drop", "", "forget the oldest question and its answer: room in the context", cmd_drop},
    {"/read", " FILE", "put a text file before the next message", cmd_read},
    {"/save", " FILE", "write the messages as JSON", cmd_save},
    {"/load", " FILE", "continue with messages that /save wrote", cmd_load},
    {"/image", "", NULL, cmd_image},
    {"/stats", "", "speed, memory and context so far", cmd_stats},
    {"/quit", "", "end (also /exit, /bye, Ctrl-D)", cmd_quit},
    {"/exit", "", NULL, cmd_quit},
    {"/bye", "", NULL, cmd_quit},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void cmd_help(kt__chat *c, const char *text) {
    (void)c, (void)text;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (!commands[i].help) continue;
        fprintf(stderr, "  %s%-*s %s\n", commands[i].name, (int)(16 - strlen(commands[i].name)),
                commands[i].arg, commands[i].help);
    }
    fputs(
        "  A pasted text is one message. \"\"\" begins and ends one of several lines; a line that\n"
        "  ends with \\ continues on the next. // begins a message with a slash.\n"
        "  Ctrl-C stops an answer, what it said stays; at the prompt it drops the line, twice\n"
        "  ends. Up and Ctrl-R find earlier entries, Tab completes a command.\n",
        stderr);
}

size_t kt__chat_command_names(const char *names[], size_t max) {
    size_t n = 0;
    for (; n < N_COMMANDS && n < max; n++) names[n] = commands[n].name;
    return n;
}

bool kt__chat_is_command(const char *entry) {
    size_t len = 1;
    if (entry[0] != '/') return false;
    while (isalpha((unsigned char)entry[len])) len++;
    return entry[len] == '\0' || entry[len] == ' ';
}

void kt__chat_command(kt__chat *c, const char *entry) {
    size_t len = strcspn(entry, " ");
    const char *text = entry + len + strspn(entry + len, " ");
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strlen(commands[i].name) != len || memcmp(commands[i].name, entry, len) != 0) continue;
        commands[i].run(c, text);
        return;
    }
    const char *names[N_COMMANDS];
    const char *near = kt__nearest_name(entry, len, names,
                                        kt__chat_command_names(names, N_COMMANDS));
    if (near)
        fprintf(stderr, "(unknown command %.*s; did you mean %s?)\n", (int)len, entry, near);
    else
        fprintf(stderr, "(unknown command %.*s; see /help)\n", (int)len, entry);
}
