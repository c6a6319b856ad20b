/* What the environment tells Hugging Face's own tools, read as they read it.
 *
 * Owns: HF_ENDPOINT, HF_TOKEN, and the file that their login leaves. They count where nothing of ours
 * (an option, kentang.toml, KENTANG_HUB, hub-token) was set, and for Hugging Face's hub alone. Any
 * thread. */
#ifndef KT_STORE_HF_SETTINGS_H
#define KT_STORE_HF_SETTINGS_H

#include "store/fetch.h"

/* HF_ENDPOINT; NULL: not set. */
const char *kt__hf_endpoint(void);
/* Gives access the token of HF_TOKEN or of HF_TOKEN_PATH, HF_HOME/token, ~/.cache/huggingface/token,
 * where it has none. No token anywhere is no error. */
kt_status kt__hf_token(kt__access *access, kt_error *err) KT_CHECKED;

#endif
