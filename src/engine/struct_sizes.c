/* kt_struct_size: the sizes of kentang.h's structures as this library was compiled. */
#include <kentang.h>
#include <string.h>

size_t kt_struct_size(const char *name) {
#define SIZE(type) \
    { #type, sizeof(type) }
    static const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {
        SIZE(kt_error),          SIZE(kt_ctx_params),     SIZE(kt_model_params),
        SIZE(kt_model_info),     SIZE(kt_engine_params),  SIZE(kt_engine_info),
        SIZE(kt_mem_plan),       SIZE(kt_eval_item),      SIZE(kt_logit_bias),
        SIZE(kt_sampling),       SIZE(kt_gen_params),     SIZE(kt_cache_miss),
        SIZE(kt_request_report), SIZE(kt_message),        SIZE(kt_request_params),
        SIZE(kt_event),          SIZE(kt_engine_stats),   SIZE(kt_profile),
        SIZE(kt_cache_params),   SIZE(kt_cache_stats),    SIZE(kt_hash_info),
        SIZE(kt_heat),           SIZE(kt_recommendation),
    };
#undef SIZE
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!strcmp(sizes[i].name, name)) return sizes[i].bytes;
    }
    return 0;
}
