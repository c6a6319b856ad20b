/* The growable vector of ids. */
#include "tokenizer/tokenizer_impl.h"

void kt__ids_init(kt__ids *ids, size_t max) {
    *ids = (kt__ids){.max = max};
}

void kt__ids_free(kt__ids *ids) {
    kt__free(ids->data);
    *ids = (kt__ids){.max = ids->max};
}

kt_status kt__ids_reserve(kt__ids *ids, size_t n, kt_error *err) {
    if (n <= ids->cap - ids->len) return KT_OK;
    if (n > ids->max - ids->len) return kt__fail(err, KT_E_LIMIT, "more than %zu tokens", ids->max);
    size_t cap = ids->cap + ids->cap / 2;
    if (cap < ids->len + n) cap = ids->len + n;
    if (cap < 64) cap = 64;
    if (cap > ids->max) cap = ids->max;
    int32_t *data = kt__realloc_array(ids->data, cap, sizeof *data);
    if (!data) return kt__fail_nomem(err, "tokens", cap);
    ids->data = data;
    ids->cap = cap;
    return KT_OK;
}

kt_status kt__ids_push(kt__ids *ids, int32_t id, kt_error *err) {
    if (ids->len == ids->cap) {
        kt_status status = kt__ids_reserve(ids, 1, err);
        if (status != KT_OK) return status;
    }
    ids->data[ids->len++] = id;
    return KT_OK;
}

int32_t *kt__ids_take(kt__ids *ids, size_t *n) {
    int32_t *data = ids->data ? ids->data : kt__malloc(sizeof *data);
    if (!data) return NULL;
    *n = ids->len;
    *ids = (kt__ids){.max = ids->max};
    return data;
}
