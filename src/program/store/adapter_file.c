#include "store/adapter_file.h"

#include <sys/stat.h>

#include "base/error.h"
#include "convert/peft.h"

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static kt_status open_peft_folder(kt_model *model, const char *path, kt_adapter **out,
                                  kt_error *err) {
    kt_model_info info;
    kt__peft_file file = {0};
    kt_status status;
    kt_model_get_info(model, &info);
    const kt__peft_model of = {info.arch, info.head_dim};
    KT__TRY(kt__peft_read(path, &of, &file, err));
    status = kt_adapter_open_memory(model, file.data, file.size, path, out, err);
out:
    kt__peft_free(&file);
    return status;
}

kt_status kt__adapter_open_path(kt_model *model, const char *path, kt_adapter **out,
                                kt_error *err) {
    *out = NULL;
    if (is_folder(path)) return open_peft_folder(model, path, out, err);
    return kt_adapter_open(model, path, out, err);
}
