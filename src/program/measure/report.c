#include "measure/report.h"

#include "base/alloc.h"
#include "base/error.h"
#include "host/host.h"
#include "kt_revision.h" /* written by cmake/revision.cmake: KT_REVISION */
#include "measure/html.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/system.h"

/* ---- the option and the file ---- */

static const kt__opt table[] = {
    {.name = "report",
     .kind = KT__OPT_TEXT,
     .at = offsetof(kt__report_opts, path),
     .arg = "FILE.html",
     .help =
         "the result as a page as well: plots, tables, the command and the machine, in one file "
         "that needs nothing else"},
};

kt__report_opts kt__report_opts_of(int argc, char **argv) {
    return (kt__report_opts){.argc = argc, .argv = argv};
}

kt__opt_group kt__report_opts_group(kt__report_opts *opts) {
    return (kt__opt_group){"Report", table, KT__COUNT(table), opts};
}

/* ---- the command ---- */

static void append_word(kt__buf *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=,@%+-";
    kt__buf_putc(out, ' ');
    if (*word && !word[strspn(word, plain)]) {
        kt__buf_puts(out, word);
        return;
    }
    kt__buf_putc(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            kt__buf_puts(out, "'\\''");
        else
            kt__buf_putc(out, *word);
    }
    kt__buf_putc(out, '\'');
}

/* Bytes of a word that names a key: "--key" and "--key=..."; 0: it does not. */
static size_t key_option(const char *word) {
    static const char *const names[] = {"--key", "--api-key"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (!strncmp(word, names[i], n) && (!word[n] || word[n] == '=')) return n;
    }
    return 0;
}

void kt__report_command(const kt__report_opts *opts, kt__buf *out) {
    kt__buf_puts(out, "kentang");
    for (int i = 0; i < opts->argc; i++) {
        size_t key = key_option(opts->argv[i]);
        if (!key) {
            append_word(out, opts->argv[i]);
            continue;
        }
        kt__buf_printf(out, " %.*s KEY", (int)key, opts->argv[i]);
        i += !opts->argv[i][key];
    }
}

/* ---- the file ---- */

static kt_status fail_report(const kt__report_opts *opts, kt_error *err) {
    return kt__fail_system(err, errno, opts->path, "cannot write the report");
}

/* A new file next to the report: what is renamed is on the same disk. */
static kt_status open_temp(const kt__report_opts *opts, char **temp, int *fd, kt_error *err) {
    size_t size = strlen(opts->path) + 32;
    *temp = kt__malloc(size);
    if (!*temp) return kt__fail_nomem(err, "a path", size);
    snprintf(*temp, size, "%s.%ld.tmp", opts->path, kt__process_number());
    *fd = kt__fd_open(*temp, KT__OPEN_WRITE | KT__OPEN_CREATE | KT__OPEN_NEW);
    return *fd >= 0 ? KT_OK : fail_report(opts, err);
}

kt_status kt__report_check(const kt__report_opts *opts, kt_error *err) {
    kt__file_info st;
    char *temp = NULL;
    int fd = -1;
    if (!opts->path) return KT_OK;
    if (!*opts->path || !strcmp(opts->path, "-"))
        return kt__fail(err, KT_E_ARG, "--report needs the name of a file");
    if (kt__file_look(opts->path, &st) && !st.is_file) {
        if (st.is_folder) {
            errno = EISDIR;
            return fail_report(opts, err);
        }
        return kt__fail_at(err, KT_E_ARG, opts->path, UINT64_MAX,
                           "--report would replace what is no file");
    }
    kt_status status = open_temp(opts, &temp, &fd, err);
    if (fd >= 0) {
        kt__fd_close(fd);
        kt__file_remove(temp);
    }
    kt__free(temp);
    return status;
}

kt_status kt__report_write(const kt__report_opts *opts, const kt__buf *bytes, kt_error *err) {
    char *temp = NULL;
    int fd = -1;
    kt_status status = open_temp(opts, &temp, &fd, err);
    if (fd >= 0) {
        bool whole = kt__fd_write_at(fd, bytes->data, bytes->len, 0) && kt__fd_sync(fd);
        int why = whole ? 0 : errno;
        if (!kt__fd_close(fd) && !why) why = errno;
        if (!why && rename(temp, opts->path) != 0) why = errno;
        if (why) {
            kt__file_remove(temp);
            errno = why;
            status = fail_report(opts, err);
        }
    }
    kt__free(temp);
    return status;
}

/* ---- the page ---- */

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1b1b;--dim:#565656;--line:#d9d9d9;--quiet:#a3a3a3;"
    "--c0:#0062a8;--c1:#b34700;--c2:#00734f;--c3:#9c3a76;--c4:#7a6200;--c5:#5a4fb8}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--bg:#16181a;--fg:#e8e8e8;--dim:#adadad;"
    "--line:#3c4043;--quiet:#7d7d7d;--c0:#63b5f5;--c1:#f79a54;--c2:#45c99a;--c3:#e38cc0;--c4:#d6bd3f;"
    "--c5:#b0a6ff}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:62rem;padding:1rem;background:var(--bg);color:var(--fg);"
    "font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}"
    "h3{font-size:1rem;margin:0 0 .25rem}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1.5rem}\n"
    ".plot{margin:0;min-width:0;max-width:44rem}.plot>svg{width:100%;height:auto;display:block;overflow:visible}\n"
    "svg text{font-size:12.5px;fill:var(--dim)}svg .label{fill:var(--fg);paint-order:stroke;stroke:var(--bg);stroke-width:3px;"
    "stroke-linejoin:round}.end{text-anchor:end}"
    ".mid{text-anchor:middle}\n"
    ".c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}"
    ".c5{--c:var(--c5)}.quiet{--c:var(--quiet)}\n"
    "path{fill:none;stroke:none;vector-effect:non-scaling-stroke}.grid{stroke:var(--line)}"
    ".axis{stroke:var(--dim)}.line{stroke:var(--c,var(--dim));stroke-width:2;stroke-linejoin:round}"
    ".dashed{stroke-dasharray:5 4;stroke-width:1.5}.dotted{stroke-dasharray:2 3}"
    ".mark{fill:var(--c);stroke:var(--bg)}.range{stroke:var(--c);stroke-width:1.5}.bar{fill:var(--c)}"
    ".span{stroke:var(--fg);stroke-width:1.5}.halo{stroke:var(--bg);stroke-width:4}.limit{stroke:var(--fg);stroke-width:3}\n"
    ".keys{list-style:none;margin:.25rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;"
    "font-size:.875rem}.key{width:24px;height:12px;vertical-align:-1px}.note{color:var(--dim);"
    "font-size:.875rem}\n"
    ".scroll{overflow-x:auto;margin:0 0 1.5rem}table{border-collapse:collapse;font-size:.875rem;"
    "font-variant-numeric:tabular-nums;overflow-wrap:normal}caption{text-align:left;font-weight:600;"
    "padding:.25rem 0}th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;"
    "vertical-align:top}th:first-child,.w{text-align:left;padding-left:0}tbody th{font-weight:400;"
    "min-width:7.5rem;max-width:24rem;overflow-wrap:anywhere}\n"
    "dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.2rem 1rem;margin:0}dt{"
    "color:var(--dim)}dd{margin:0}pre{white-space:pre-wrap;border:1px solid var(--line);"
    "border-radius:4px;padding:.5rem .75rem;margin:0 0 1rem;font-size:.875rem}\n"
    "@media (max-width:30rem){dl{grid-template-columns:minmax(0,1fr)}dd{margin:0 0 .4rem}"
    "svg text{font-size:14px}}\n"
    "@media print{:root{font-size:10pt}body{max-width:none;padding:0}.plots{grid-template-columns:1fr 1fr}"
    ".plot,tr,dl,pre{break-inside:avoid}h2,h3,caption{break-after:avoid}.scroll{overflow:visible}"
    "table{font-size:8pt}*{print-color-adjust:exact}}\n";

void kt__report_begin(kt__report *r, const kt__report_opts *opts, const char *title,
                      const char *summary) {
    *r = (kt__report){.opts = opts};
    kt__buf_init(&r->out, KT__REPORT_MAX_BYTES);
    kt__buf_puts(&r->out,
                 "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                 "style-src 'unsafe-inline'\"/>\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                 "<meta name=\"generator\" content=\"kentang " KT_VERSION "\"/>\n");
    kt__html_element(&r->out, "title", title);
    kt__buf_printf(&r->out, "\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", style);
    kt__html_element(&r->out, "h1", title);
    kt__buf_puts(&r->out, "\n");
    kt__html_element(&r->out, "p", summary);
    kt__buf_puts(&r->out, "\n");
}

/* ---- plots ---- */

static int next_plot(kt__report *r) {
    if (!r->n_plots++)
        kt__buf_puts(&r->out, "<section aria-labelledby=\"plots\">\n<h2 id=\"plots\">Plots</h2>\n"
                              "<div class=\"plots\">\n");
    return r->n_plots;
}

void kt__report_plot(kt__report *r, const kt__plot *plot) {
    kt__plot_draw(&r->out, plot, next_plot(r));
}

void kt__report_bars(kt__report *r, const kt__bar_plot *plot) {
    kt__plot_draw_bars(&r->out, plot, next_plot(r));
}

static void end_plots(kt__report *r) {
    if (r->n_plots && !r->n_tables) kt__buf_puts(&r->out, "</div>\n</section>\n");
}

/* ---- tables ---- */

static bool has_words(const kt__report *r, int column) {
    return r->columns[column][0] == '<';
}

void kt__report_table(kt__report *r, const char *caption, const char *const *columns,
                      int n_columns) {
    end_plots(r);
    if (!r->n_tables++)
        kt__buf_puts(&r->out,
                     "<section aria-labelledby=\"tables\">\n<h2 id=\"tables\">Figures</h2>\n");
    r->columns = columns;
    r->n_columns = n_columns;
    r->column = 0;
    kt__buf_printf(&r->out,
                   "<div class=\"scroll\" role=\"region\" aria-labelledby=\"t%d\" tabindex=\"0\">\n"
                   "<table>\n<caption id=\"t%d\">",
                   r->n_tables, r->n_tables);
    kt__html_text(&r->out, caption);
    kt__buf_puts(&r->out, "</caption>\n<thead><tr>");
    for (int i = 0; i < n_columns; i++)
        kt__html_element(&r->out,
                         has_words(r, i) ? "th scope=\"col\" class=\"w\"" : "th scope=\"col\"",
                         columns[i] + has_words(r, i));
    kt__buf_puts(&r->out, "</tr></thead>\n<tbody>\n");
}

void kt__report_text(kt__report *r, const char *text) {
    int i = r->column++;
    if (!i) kt__buf_puts(&r->out, "<tr>");
    kt__html_element(&r->out,
                     !i                ? "th scope=\"row\""
                     : has_words(r, i) ? "td class=\"w\""
                                       : "td",
                     text);
    if (r->column < r->n_columns) return;
    kt__buf_puts(&r->out, "</tr>\n");
    r->column = 0;
}

void kt__report_cell(kt__report *r, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kt__report_text(r, text);
}

void kt__report_number(kt__report *r, double value, int digits) {
    char text[KT__NUMBER_BYTES];
    kt__report_text(r, kt__html_number(value, digits, text));
}

void kt__report_table_end(kt__report *r) {
    kt__buf_puts(&r->out, "</tbody>\n</table>\n</div>\n");
}

void kt__report_note(kt__report *r, const char *text) {
    kt__html_element(&r->out, "p class=\"note\"", text);
    kt__buf_puts(&r->out, "\n");
}

/* ---- how it came about ---- */

static void add_fact(kt__buf *out, const char *name, const char *text) {
    if (!*text) return;
    kt__html_element(out, "dt", name);
    kt__html_element(out, "dd", text);
    kt__buf_puts(out, "\n");
}

static void describe_cores(const kt__topology *t, const kt__limits *l, char *out, size_t size) {
    int n = snprintf(out, size, "%d core%s, %d processor%s, of which %d may be used", t->n_physical,
                     t->n_physical == 1 ? "" : "s", t->n_logical, t->n_logical == 1 ? "" : "s",
                     l->n_affinity);
    if (l->quota_cpus > 0 && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ", %.2f at a time", l->quota_cpus);
}

static void describe_memory(const kt__limits *l, char *out, size_t size) {
    const double gib = 1 << 30;
    int n = snprintf(out, size, "%.1f GiB, %.1f GiB available", (double)l->mem_total_bytes / gib,
                     (double)l->mem_available_bytes / gib);
    if (l->mem_cgroup_bytes && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ", at most %.1f GiB here",
                 (double)l->mem_cgroup_bytes / gib);
}

static void describe_pages(const kt__limits *l, char *out, size_t size) {
    char thp[64];
    kt__machine_thp(thp, sizeof thp);
    int n = snprintf(out, size, "%llu KiB", (unsigned long long)l->page_bytes / 1024);
    if (*thp && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ", transparent huge pages of %llu MiB: %s",
                 (unsigned long long)l->huge_page_bytes >> 20, thp);
}

static void add_machine(kt__buf *out, const char *isa) {
    kt__cpu cpu;
    kt__topology topology;
    kt__limits limits;
    char text[200];
    kt__cpu_detect(&cpu);
    kt__topology_detect(&topology);
    kt__limits_read(&limits);
    add_fact(out, "Processor", cpu.brand[0] ? cpu.brand : "unknown");
    describe_cores(&topology, &limits, text, sizeof text);
    add_fact(out, "Cores", text);
    describe_memory(&limits, text, sizeof text);
    add_fact(out, "Memory", text);
    describe_pages(&limits, text, sizeof text);
    add_fact(out, "Pages", text);
    kt__machine_system(text, sizeof text);
    add_fact(out, "System", text);
    add_fact(out, "Kernels", isa ? isa : "");
}

static void add_program(kt__buf *out) {
    char text[160];
    const char *revision = kt__machine_revision();
    time_t now = time(NULL);
    struct tm tm;
    snprintf(text, sizeof text, "%s, numerics %d", kt_version(), KENTANG_NUMERICS);
    add_fact(out, "kentang", text);
    add_fact(out, "Revision", *revision ? revision : "not known: not built in a checkout");
    if (localtime_r(&now, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &tm))
        add_fact(out, "Date", text);
}

static void end_page(kt__report *r, const char *isa) {
    kt__buf command;
    kt__buf_init(&command, 1 << 20);
    end_plots(r);
    if (r->n_tables) kt__buf_puts(&r->out, "</section>\n");
    kt__buf_puts(&r->out,
                 "<section aria-labelledby=\"how\">\n<h2 id=\"how\">How it was measured</h2>\n");
    kt__report_command(r->opts, &command);
    kt__html_element(&r->out, "pre", command.data ? command.data : "");
    kt__buf_puts(&r->out, "\n<dl>\n");
    add_machine(&r->out, isa);
    add_program(&r->out);
    kt__buf_puts(&r->out, "</dl>\n</section>\n</main>\n</body>\n</html>\n");
    kt__buf_free(&command);
}

kt_status kt__report_finish(kt__report *r, const char *isa, kt_error *err) {
    end_page(r, isa);
    kt_status status = r->out.failed ? kt__fail_nomem(err, "the report", r->out.len)
                                     : kt__report_write(r->opts, &r->out, err);
    kt__buf_free(&r->out);
    return status;
}

/* ---- machine ---- */

/* The word in brackets: "always [madvise] never". */
void kt__machine_thp(char *out, size_t size) {
    char line[64];
    out[0] = '\0';
    if (!kt__text_line("", "/sys/kernel/mm/transparent_hugepage", "enabled", line, sizeof line))
        return;
    const char *open = strchr(line, '[');
    if (open) snprintf(out, size, "%.*s", (int)strcspn(open + 1, "]"), open + 1);
}

void kt__machine_system(char *out, size_t size) {
    (void)kt__system_name(out, size);
}

const char *kt__machine_revision(void) {
    return KT_REVISION;
}
