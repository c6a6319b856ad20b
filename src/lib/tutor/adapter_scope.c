#include "tutor/adapter_scope.h"

#include "bank/bank.h"
#include "context/adapter.h"
#include "prompt/notes.h"

enum { ARENA_BLOCK = 1 << 14, ARENA_MOST = 1 << 30 };

static bool opens_text(kt_bank *bank, const char *text, size_t len) {
    kt__bank_hit hit;
    return bank && kt__bank_find(bank, text, len, &hit, 1) > 0;
}

/* Without memory it does not open: the model answers alone. */
static bool opens_request(kt_bank *bank, const kt_request_params *request) {
    kt__arena arena;
    kt__user_text *texts;
    kt_error ignored;
    size_t n;
    bool opens = false;
    kt__arena_init(&arena, ARENA_BLOCK, ARENA_MOST);
    if (kt__user_texts_of(&arena, request, &texts, &n, &ignored) == KT_OK)
        for (size_t i = 0; i < n && !opens; i++)
            opens = opens_text(bank, texts[i].text, texts[i].len);
    kt__arena_free(&arena);
    return opens;
}

kt_adapter *kt_learned_adapter(const kt_learned *learned, const kt_request_params *request) {
    if (!learned->adapter || !learned->adapter->scoped) return learned->adapter;
    if (request->bank && request->note_tokens >= 0) return NULL; /* the notes say it */
    return opens_request(learned->bank, request) ? learned->adapter : NULL;
}

bool kt__item_opens(kt_bank *bank, const kt__feedback_item *item) {
    return item->kind != KT__FEEDBACK_SCORE && item->question &&
           opens_text(bank, item->question, item->n_question);
}

kt_adapter *kt__adapter_for_item(kt_adapter *adapter, kt_bank *bank,
                                 const kt__feedback_item *item) {
    if (!adapter || !adapter->scoped) return adapter;
    return item->question && opens_text(bank, item->question, item->n_question) ? adapter : NULL;
}
