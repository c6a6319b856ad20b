#include "cli/prompt_cache.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"

#define AT(member) offsetof(kt__prompt_cache, member)

static const kt__opt table[] = {
    {.name = "prompt-cache",
     .kind = KT__OPT_TEXT,
     .at = AT(file),
     .arg = "FILE",
     .help = "begin with what FILE holds of the prompt, and keep prompt and answer there for the "
             "next run; it belongs to one model and its options"},
    {.name = "prompt-cache-ro",
     .kind = KT__OPT_ON,
     .at = AT(read_only),
     .help = "only read the file of --prompt-cache"},
};

kt__opt_group kt__prompt_cache_group(kt__prompt_cache *cache) {
    return (kt__opt_group){"Session file", table, KT__COUNT(table), cache};
}

/* A file that cannot be used is an error, not a miss: it would be overwritten. */
kt_status kt__prompt_cache_load(const kt__prompt_cache *cache, kt_seq *seq, kt_error *err) {
    if (!cache->file) {
        if (!cache->read_only) return KT_OK;
        return kt__fail(err, KT_E_ARG, "--prompt-cache-ro needs --prompt-cache FILE");
    }
    if (access(cache->file, F_OK) != 0 && errno == ENOENT) return KT_OK;
    kt_error why;
    kt_status status = kt_seq_restore(seq, cache->file, &why);
    if (status == KT_E_FORMAT || status == KT_E_STATE) {
        return kt__fail_at(err, status, why.where, why.offset,
                           "%s; remove it, or give another --prompt-cache, to begin anew",
                           why.message);
    }
    *err = why;
    return status;
}

kt_status kt__prompt_cache_keep(const kt__prompt_cache *cache, kt_seq *seq, kt_error *err) {
    if (!cache->file || cache->read_only || !kt_seq_len(seq)) return KT_OK;
    return kt_seq_save(seq, cache->file, err);
}
