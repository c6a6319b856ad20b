#include "context/demo.h"

#ifdef KT_HAVE_DEMO
extern const unsigned char kt__demo_blob[], kt__demo_blob_end[];

const void *kt__demo_model(size_t *size) {
    *size = (size_t)(kt__demo_blob_end - kt__demo_blob);
    return kt__demo_blob;
}
#else
const void *kt__demo_model(size_t *size) {
    *size = 0;
    return NULL;
}
#endif
