/* kt_struct_size, kt_abi: the sizes of kentang.h's structures as this library was compiled. */
#include <kentang.h>
#include <string.h>

size_t kt_struct_size(const char *name) {
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {
#define X(type) {#type, sizeof(type)},
        KT_STRUCT_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!strcmp(sizes[i].name, name)) return sizes[i].bytes;
    }
    return 0;
}

uint64_t kt_abi(void) {
    return kt_header_abi();
}
