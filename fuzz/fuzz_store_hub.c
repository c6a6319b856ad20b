/* What a hub answers, and names: the first byte chooses the reader. Every name that comes out is safe. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/hub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt__offer offer = {0};
    kt__hub_name name;
    kt_error err;
    kt_status status;
    if (size < 1) return 0;
    char *text = kt__strndup((const char *)data + 1, size - 1);
    if (!text) return 0;
    switch (data[0] % 5) {
    case 0: status = kt__hub_read_tree(text, size - 1, "http://h/", &offer, &err); break;
    case 1: status = kt__hub_read_manifest(text, size - 1, "u/", "n.gguf", &offer, &err); break;
    case 2: status = kt__hub_read_listing(text, size - 1, "http://h/", &offer, &err); break;
    case 3: {
        kt__hub_hit hits[4];
        size_t n;
        status = kt__hub_read_hits(text, size - 1, "http://h/", 4, hits, &n, &err);
        for (size_t i = 0; status == KT_OK && i < n; i++)
            if (!kt__name_is_safe(hits[i].repo)) abort();
        break;
    }
    default:
        status = kt__hub_name_parse(text, &name, &err);
        if (status == KT_OK && !kt__name_is_safe(name.repo)) abort();
    }
    for (size_t i = 0; status == KT_OK && i < offer.n; i++)
        if (!kt__name_is_safe(offer.files[i].name)) abort();
    kt__offer_free(&offer);
    kt__free(text);
    return 0;
}
