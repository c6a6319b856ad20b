/* libFuzzer: any bytes as an adapter of the demo model; what is taken is read to its last weight. */
#include <stdlib.h>

#include "context/adapter.h"
#include "context/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink;

static kt_model *demo(void) {
    static kt_ctx *ctx;
    static kt_model *model;
    kt_ctx_params params = kt_ctx_params_default();
    params.n_threads = 1;
    if (!model && (kt_ctx_open(&params, &ctx, NULL) != KT_OK ||
                   kt_model_open_demo(ctx, NULL, &model, NULL) != KT_OK))
        abort();
    return model;
}

static void touch(const kt_adapter *adapter) {
    const unsigned char *bytes = adapter->pack.memory;
    for (size_t i = 0; i < adapter->pack.memory_bytes; i++) sink += bytes[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    kt_adapter *adapter;
    if (kt_adapter_open_memory(demo(), data, size, NULL, &adapter, NULL) == KT_OK) touch(adapter);
    kt_adapter_close(adapter);
    return 0;
}
