#include "term/foreign_opts.h"

#include <stdio.h>

#define ON(option, letters, second, member, words, why)                       \
    {                                                                         \
        .name = option, .brief = letters, .also = second, .kind = KT__OPT_ON, \
        .at = offsetof(kt__foreign_opts, member), .choices = words,           \
        .help = "accepted, but has no effect: " why                           \
    }

static const kt__opt table[] = {
    {.name = "gpu-layers",
     .brief = "ngl",
     .also = "n-gpu-layers",
     .kind = KT__OPT_TEXT,
     .at = offsetof(kt__foreign_opts, gpu_layers),
     .arg = "N",
     .help = "accepted, but has no effect: all is computed by the processor"},
    ON("flash-attn", "fa", NULL, flash_attention, "on|off|auto",
       "attention is always computed so; on, off or auto may follow"),
    ON("jinja", NULL, NULL, jinja, NULL, "chat templates are always interpreted"),
    ON("no-warmup", NULL, NULL, no_warmup, NULL, "there is no warm-up"),
    ON("cont-batching", "cb", NULL, cont_batching, NULL, "answers are always computed together"),
};

kt__opt_group kt__foreign_opts_group(kt__foreign_opts *opts) {
    return (kt__opt_group){"For command lines of llama.cpp", table, KT__COUNT(table), opts};
}

void kt__foreign_opts_note(const kt__foreign_opts *o) {
    const struct {
        bool given;
        const char *name;
    } rows[] = {{o->gpu_layers != NULL, "-ngl"},
                {o->flash_attention, "-fa"},
                {o->jinja, "--jinja"},
                {o->no_warmup, "--no-warmup"},
                {o->cont_batching, "--cont-batching"}};
    bool any = false;
    for (size_t i = 0; i < KT__COUNT(rows); i++) {
        if (!rows[i].given) continue;
        fprintf(stderr, "%s %s", any ? "" : "kentang: without effect here:", rows[i].name);
        any = true;
    }
    if (any) fputc('\n', stderr);
}
