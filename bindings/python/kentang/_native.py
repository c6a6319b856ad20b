"""The declarations of kentang.h that this package uses, for ctypes.

Structures are those of the header, member by member; the test compares their layout with the C compiler's."""
import ctypes
import ctypes.util
import os
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint64, c_void_p


class kt_error(ctypes.Structure):
    _fields_ = [("code", c_int), ("system", c_int32), ("offset", c_uint64), ("retry_ms", c_int64),
                ("n_tokens", c_int64), ("n_ctx", c_int64), ("where", c_char * 160), ("message", c_char * 480)]


class kt_ctx_params(ctypes.Structure):
    _fields_ = [("isa", c_char_p), ("n_threads", c_int), ("n_threads_max", c_int), ("cpus", c_char_p),
                ("priority", c_int), ("mem_bytes", c_uint64), ("log", c_void_p), ("log_user", c_void_p),
                ("log_level", c_int)]


class kt_model_params(ctypes.Structure):
    _fields_ = [("use_mmap", c_bool), ("use_mlock", c_bool), ("vocab_only", c_bool), ("exact", c_bool),
                ("blas", c_bool), ("blas_library", c_char_p), ("plain_attention", c_bool), ("rope_scaling", c_int), ("rope_freq_base", c_float), ("rope_freq_scale", c_float),
                ("yarn_ext_factor", c_float), ("yarn_attn_factor", c_float), ("yarn_beta_fast", c_float),
                ("yarn_beta_slow", c_float), ("yarn_orig_ctx", c_int32),
                ("chat_template", c_char_p), ("chat_fallback", c_bool),
                ("mmproj", c_char_p), ("n_gpu_layers", c_int32), ("device", c_char_p), ("device_test", c_char_p)]


class kt_model_info(ctypes.Structure):
    _fields_ = [("path", c_char_p), ("name", c_char_p), ("arch", c_char_p), ("quant", c_char_p),
                ("tokenizer", c_char_p), ("template_", c_char_p), ("n_params", c_uint64), ("file_bytes", c_uint64),
                ("weight_bytes", c_uint64), ("decode_bytes", c_uint64), ("kv_bytes_per_token", c_uint64),
                ("n_vocab", c_int32), ("n_ctx_train", c_int32), ("n_layer", c_int32), ("d_model", c_int32),
                ("d_ff", c_int32), ("n_head", c_int32), ("n_head_kv", c_int32), ("head_dim", c_int32),
                ("bos_id", c_int32), ("eos_id", c_int32), ("add_bos", c_bool), ("add_eos", c_bool),
                ("bytes_per_token", c_int32), ("pooling", c_int), ("is_encoder", c_bool),
                ("vision", c_char_p), ("device", c_char_p), ("n_gpu_layers", c_int32), ("gpu_head", c_bool)]


class kt_engine_params(ctypes.Structure):
    _fields_ = [("n_ctx", c_int32), ("n_batch", c_int32), ("n_ubatch", c_int32), ("n_seq_max", c_int32),
                ("n_threads", c_int32), ("n_threads_batch", c_int32), ("kv_bytes", c_uint64), ("n_parallel", c_int32),
                ("n_queue_max", c_int32), ("gap_ms", c_int32), ("draft", c_void_p), ("n_draft", c_int32),
                ("optimize", c_bool), ("target_latency_ms", c_int32), ("min_throughput", c_double),
                ("memory_threshold", c_double), ("kv_keys", c_int), ("kv_values", c_int), ("kv_tail", c_int32),
                ("draft_from", c_int), ("kv_pressure", c_int)]


class kt_logit_bias(ctypes.Structure):
    _fields_ = [("id", c_int32), ("bias", c_float)]


class kt_sampling(ctypes.Structure):
    _fields_ = [("seed", c_uint64), ("temperature", c_float), ("dynatemp_range", c_float),
                ("dynatemp_exponent", c_float), ("top_k", c_int32), ("top_p", c_float), ("min_p", c_float),
                ("typical_p", c_float), ("top_n_sigma", c_float), ("xtc_probability", c_float),
                ("xtc_threshold", c_float), ("repeat_last_n", c_int32), ("repeat_penalty", c_float),
                ("frequency_penalty", c_float), ("presence_penalty", c_float), ("dry_multiplier", c_float),
                ("dry_base", c_float), ("dry_allowed_length", c_int32), ("dry_penalty_last_n", c_int32),
                ("dry_breakers", POINTER(c_char_p)), ("n_dry_breakers", c_size_t), ("mirostat", c_int32),
                ("mirostat_tau", c_float), ("mirostat_eta", c_float), ("chain", c_char_p),
                ("logit_bias", POINTER(kt_logit_bias)), ("n_logit_bias", c_size_t), ("min_keep", c_int32),
                ("mt19937", c_int32)]


class kt_gen_params(ctypes.Structure):
    _fields_ = [("sampling", kt_sampling), ("n_predict", c_int32), ("stop", POINTER(c_char_p)), ("n_stop", c_size_t),
                ("ignore_eog", c_bool), ("loop_tokens", c_int32), ("min_tokens", c_int32)]


class kt_cache_miss(ctypes.Structure):
    _fields_ = [("known", c_bool), ("at", c_int32), ("message", c_int32), ("n_lost", c_int32), ("cost_us", c_int64),
                ("was", c_char * 64), ("is", c_char * 64)]


class kt_request_report(ctypes.Structure):
    _fields_ = [("finish", c_int), ("seed", c_uint64), ("n_prompt", c_int32), ("n_cached", c_int32),
                ("n_generated", c_int32), ("n_reasoning", c_int32), ("n_calls", c_int32), ("n_preempted", c_int32),
                ("n_recomputed", c_int32), ("n_drafted", c_int32), ("n_accepted", c_int32), ("stop", c_int32),
                ("total_us", c_int64), ("first_token_us", c_int64), ("tokenize_us", c_int64), ("queue_us", c_int64),
                ("prefill_us", c_int64), ("decode_us", c_int64), ("sample_us", c_int64), ("wait_us", c_int64),
                ("held_us", c_int64), ("bottleneck", c_char_p), ("miss", kt_cache_miss), ("lora_us", c_int64),
                ("learned", c_uint64 * 8), ("n_learned", c_int32), ("n_dropped", c_int32),
                ("n_pressed", c_int32)]


class kt_message(ctypes.Structure):
    _fields_ = [("role", c_char_p), ("content", c_char_p)]


STRUCTURES = [kt_error, kt_ctx_params, kt_model_params, kt_model_info, kt_engine_params, kt_logit_bias, kt_sampling,
              kt_gen_params, kt_cache_miss, kt_request_report, kt_message]

json_fn = ctypes.CFUNCTYPE(c_bool, c_void_p, POINTER(c_char), c_size_t)
text_fn = ctypes.CFUNCTYPE(c_bool, c_void_p, POINTER(c_char), c_size_t, c_int32)

TOK_ADD_SPECIAL, TOK_PARSE_SPECIAL, TOK_RENDER_SPECIAL = 1, 2, 4
POOLING = {"mean": 1, "last": 2, "cls": 3, "rank": 4, "model": 5}
OK, E_LIMIT = 0, 6

_err = POINTER(kt_error)
_out = POINTER(c_void_p)
_ids = POINTER(c_int32)
_n = POINTER(c_size_t)

# name: (result, arguments); the result `int` is a kt_status
_CALLS = {
    "kt_version": (c_char_p, []),
    "kt_struct_size": (c_size_t, [c_char_p]),
    "kt_status_name": (c_char_p, [c_int]),
    "kt_finish_name": (c_char_p, [c_int]),
    "kt_free": (None, [c_void_p]),
    "kt_ctx_params_default": (kt_ctx_params, []),
    "kt_ctx_open": (c_int, [POINTER(kt_ctx_params), _out, _err]),
    "kt_ctx_close": (None, [c_void_p]),
    "kt_ctx_isa": (c_char_p, [c_void_p]),
    "kt_ctx_n_threads": (c_int, [c_void_p]),
    "kt_model_params_default": (kt_model_params, []),
    "kt_model_open": (c_int, [c_void_p, c_char_p, POINTER(kt_model_params), _out, _err]),
    "kt_model_open_demo": (c_int, [c_void_p, POINTER(kt_model_params), _out, _err]),
    "kt_model_close": (None, [c_void_p]),
    "kt_model_get_info": (None, [c_void_p, POINTER(kt_model_info)]),
    "kt_tokenize": (c_int, [c_void_p, c_char_p, c_size_t, c_uint, _ids, c_size_t, _n, _err]),
    "kt_detokenize": (c_int, [c_void_p, _ids, c_size_t, c_uint, c_void_p, c_size_t, _n, _err]),
    "kt_token_is_eog": (c_bool, [c_void_p, c_int32]),
    "kt_chat_render_json": (c_int, [c_void_p, c_char_p, c_size_t, _out, _n, _err]),
    "kt_engine_params_default": (kt_engine_params, []),
    "kt_engine_open": (c_int, [c_void_p, POINTER(kt_engine_params), _out, _err]),
    "kt_engine_close": (None, [c_void_p]),
    "kt_seq_open": (c_int, [c_void_p, _out, _err]),
    "kt_seq_close": (None, [c_void_p]),
    "kt_seq_copy": (c_int, [c_void_p, _out, _err]),
    "kt_seq_truncate": (c_int, [c_void_p, c_size_t, _err]),
    "kt_seq_len": (c_size_t, [c_void_p]),
    "kt_seq_tokens": (_ids, [c_void_p]),
    "kt_seq_eval": (c_int, [c_void_p, _ids, c_size_t, _err]),
    "kt_seq_logits": (POINTER(c_float), [c_void_p]),
    "kt_seq_save": (c_int, [c_void_p, c_char_p, _err]),
    "kt_seq_restore": (c_int, [c_void_p, c_char_p, _err]),
    "kt_gen_params_default": (kt_gen_params, []),
    "kt_generate": (c_int, [c_void_p, _ids, c_size_t, POINTER(kt_gen_params), text_fn, c_void_p,
                            POINTER(kt_request_report), _err]),
    "kt_chat": (c_int, [c_void_p, POINTER(kt_message), c_size_t, POINTER(kt_gen_params), text_fn, c_void_p,
                        POINTER(kt_request_report), _err]),
    "kt_embed": (c_int, [c_void_p, _ids, c_size_t, c_int, c_bool, POINTER(c_float), _err]),
    "kt_call_json": (c_int, [c_void_p, c_char_p, c_size_t, json_fn, c_void_p, _err]),
    "kt_sampler_open": (c_int, [c_void_p, POINTER(kt_sampling), c_int32, _out, _err]),
    "kt_sampler_close": (None, [c_void_p]),
    "kt_sampler_accept": (c_int, [c_void_p, c_int32, _err]),
    "kt_sampler_sample": (c_int, [c_void_p, POINTER(c_float), _ids, _err]),
    "kt_sampler_reset": (None, [c_void_p]),
    "kt_sampler_seed": (c_uint64, [c_void_p]),
}


def _find():
    """The shared library: $KENTANG_LIBRARY, else the one that a wheel has next to this file, else as the system finds it."""
    name = "libkentang.dll" if os.name == "nt" else "libkentang.so"
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    inside = inside if os.path.exists(inside) else None
    return os.environ.get("KENTANG_LIBRARY") or inside or ctypes.util.find_library("kentang") or "libkentang.so.0"


def load():
    """The shared library, whose structures must be those of this file."""
    library = ctypes.CDLL(_find())
    for name, (result, arguments) in _CALLS.items():
        call = getattr(library, name)
        call.restype, call.argtypes = result, arguments
    for structure in STRUCTURES:
        size = library.kt_struct_size(structure.__name__.encode())
        if size != ctypes.sizeof(structure):
            raise ImportError(f"libkentang {library.kt_version().decode()} is of another version than this package: "
                              f"{structure.__name__} has {size} bytes there, {ctypes.sizeof(structure)} here")
    return library
