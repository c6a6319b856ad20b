//! The declarations of kentang.h that the crate `kentang` uses. What they mean is said there.
#![allow(non_camel_case_types)]

#[cfg(feature = "openmp")]
compile_error!("kentang has threads of its own, and no OpenMP: leave the feature `openmp` out");
#[cfg(any(feature = "cuda", feature = "metal", feature = "vulkan"))]
compile_error!("kentang computes on the processor: leave the features `cuda`, `metal` and `vulkan` out");

use std::os::raw::{c_char, c_int, c_uint, c_void};

/// A structure of the header, member by member, and `layout`, which a test compares with the C compiler's.
macro_rules! structures {
    ($($name:ident { $($member:ident: $type:ty,)* })*) => {
        $(#[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name { $(pub $member: $type,)* })*

        /// (structure, member or "", size or offset)
        pub fn layout() -> Vec<(&'static str, &'static str, usize)> {
            let mut out = Vec::new();
            $(out.push((stringify!($name), "", std::mem::size_of::<$name>()));
            let place = std::mem::MaybeUninit::<$name>::uninit();
            $(out.push((stringify!($name), stringify!($member), unsafe {
                std::ptr::addr_of!((*place.as_ptr()).$member) as usize - place.as_ptr() as usize
            }));)*)*
            out
        }
    };
}

structures! {
    kt_error { code: c_int, system: i32, offset: u64, retry_ms: i64, n_tokens: i64, n_ctx: i64, where_: [c_char; 160], message: [c_char; 480], }
    kt_ctx_params {
        isa: *const c_char, n_threads: c_int, n_threads_max: c_int, cpus: *const c_char, priority: c_int, mem_bytes: u64,
        log: *const c_void, log_user: *mut c_void, log_level: c_int,
    }
    kt_model_params {
        use_mmap: bool, use_mlock: bool, vocab_only: bool, exact: bool, blas: bool, blas_library: *const c_char, plain_attention: bool, rope_scaling: c_int,
        rope_freq_base: f32, rope_freq_scale: f32, yarn_ext_factor: f32, yarn_attn_factor: f32, yarn_beta_fast: f32,
        yarn_beta_slow: f32, yarn_orig_ctx: i32, chat_template: *const c_char, chat_fallback: bool,
        mmproj: *const c_char, n_gpu_layers: i32, device: *const c_char, device_test: *const c_char,
    }
    kt_model_info {
        path: *const c_char, name: *const c_char, arch: *const c_char, quant: *const c_char, tokenizer: *const c_char,
        template_: *const c_char, n_params: u64, file_bytes: u64, weight_bytes: u64, decode_bytes: u64,
        kv_bytes_per_token: u64, n_vocab: i32, n_ctx_train: i32, n_layer: i32, d_model: i32, d_ff: i32, n_head: i32,
        n_head_kv: i32, head_dim: i32, bos_id: i32, eos_id: i32, add_bos: bool, add_eos: bool, bytes_per_token: i32,
        pooling: c_int, is_encoder: bool, vision: *const c_char, device: *const c_char, n_gpu_layers: i32, gpu_head: bool,
    }
    kt_engine_params {
        n_ctx: i32, n_batch: i32, n_ubatch: i32, n_seq_max: i32, n_threads: i32, n_threads_batch: i32, kv_bytes: u64,
        n_parallel: i32, n_queue_max: i32, gap_ms: i32, draft: *mut kt_model, n_draft: i32,
        optimize: bool, target_latency_ms: i32, min_throughput: f64, memory_threshold: f64,
        kv_keys: c_int, kv_values: c_int, kv_tail: i32, draft_from: c_int, kv_pressure: c_int,
    }
    kt_logit_bias { id: i32, bias: f32, }
    kt_sampling {
        seed: u64, temperature: f32, dynatemp_range: f32, dynatemp_exponent: f32, top_k: i32, top_p: f32, min_p: f32,
        typical_p: f32, top_n_sigma: f32, xtc_probability: f32, xtc_threshold: f32, repeat_last_n: i32,
        repeat_penalty: f32, frequency_penalty: f32, presence_penalty: f32, dry_multiplier: f32, dry_base: f32,
        dry_allowed_length: i32, dry_penalty_last_n: i32, dry_breakers: *const *const c_char, n_dry_breakers: usize,
        mirostat: i32, mirostat_tau: f32, mirostat_eta: f32, chain: *const c_char, logit_bias: *const kt_logit_bias,
        n_logit_bias: usize, min_keep: i32, mt19937: i32,
    }
    kt_gen_params {
        sampling: kt_sampling, n_predict: i32, stop: *const *const c_char, n_stop: usize, ignore_eog: bool,
        loop_tokens: i32,
        min_tokens: i32,
    }
    kt_cache_miss {
        known: bool, at: i32, message: i32, n_lost: i32, cost_us: i64, was: [c_char; 64], is: [c_char; 64],
    }
    kt_request_report {
        finish: c_int, seed: u64, n_prompt: i32, n_cached: i32, n_generated: i32, n_reasoning: i32, n_calls: i32,
        n_preempted: i32, n_recomputed: i32, n_drafted: i32, n_accepted: i32, stop: i32, total_us: i64,
        first_token_us: i64, tokenize_us: i64, queue_us: i64, prefill_us: i64, decode_us: i64, sample_us: i64,
        wait_us: i64, held_us: i64, bottleneck: *const c_char, miss: kt_cache_miss, lora_us: i64,
        learned: [u64; 8], n_learned: i32, n_dropped: i32, n_pressed: i32,
    }
    kt_message { role: *const c_char, content: *const c_char, }
    kt_adapter_use { adapter: *mut kt_adapter, scale: f32, }
    kt_form {
        kind: c_int, text: *const c_char, len: usize, choices: *const *const c_char, n_choices: usize, blanks: bool,
        any_order: bool, before: *const c_char, after: *const c_char,
    }
    kt_constraint {
        forms: *const kt_form, n_forms: usize, triggers: *const *const c_char, n_triggers: usize, repeat: bool,
        finish_within: bool, compact: bool,
    }
    kt_prompt {
        ids: *const i32, n_ids: usize, pair_from: i32, text: *const c_char, text_len: usize, text_flags: c_uint,
        fim_suffix: *const c_char, fim_suffix_len: usize, messages: *const kt_message, n_messages: usize,
        chat_json: *const c_char, chat_json_len: usize, chat_flags: c_uint, template_vars: *const c_char,
        pictures: *const c_void, n_pictures: usize,
    }
    kt_call_params { tools: *const c_char, choice: *const c_char, one: bool, native: bool, }
    kt_part_params { split: bool, on_part: *const c_void, reasoning_budget: i32, }
    kt_correction_params { recall: *mut kt_recall, bank: *mut kt_bank, note_tokens: i32, recited: u64, doubtful: bool, keep: bool, }
    kt_logprob_params { n: i32, post_sampling: bool, prompt: bool, }
    kt_embedding_params { pooling: c_int, normalize: bool, keys: *mut i8, keys_first: usize, }
    kt_service_params {
        priority: i32, deadline_ms: i64, client: *const c_char, cache_scope: *const c_char, no_cache: bool, exact_kv: bool,
    }
    kt_overflow_params { shorten: c_int, shift: bool, n_keep: i32, }
    kt_event_params { on_event: *const c_void, on_ready: *const c_void, user: *mut c_void, progress: bool, }
    kt_request_params {
        prompt: kt_prompt, seq: *mut kt_seq, seq_append: bool, n_choices: i32, gen: kt_gen_params,
        constraint: kt_constraint, calls: kt_call_params, parts: kt_part_params, adapters: *const kt_adapter_use,
        n_adapters: usize, corrections: kt_correction_params, logprobs: kt_logprob_params,
        embedding: kt_embedding_params, service: kt_service_params, overflow: kt_overflow_params, events: kt_event_params,
    }
    kt_event {
        kind: c_int, req: *mut kt_request, user: *mut c_void, choice: i32, last: bool, t_us: i64, id: i32,
        text: *const c_char, len: usize, parts: *const c_void, n_parts: usize, logprob: f32, top: *const c_void,
        n_top: usize, finish: c_int, report: *const kt_request_report, error: *const kt_error, prompt: *const c_void,
        n_prompt: usize, n_cached: usize, n_computed: usize, prefill_us: i64, embedding: *const f32, n_embedding: usize,
    }
    kt_kept {
        prompt: *const i32, n_prompt: usize, answer: *const i32, n_answer: usize, keys: *const i8, n_keys: usize,
        n_recalled: i32, question: *const c_char, n_question: usize,
    }
    kt_recall_params { n_max: i32, cos_from: f32, cos_full: f32, }
    kt_learner_params {
        dir: *const c_char, max_entries: u64, max_bytes: u64, quality_threshold: f32, recall: kt_recall_params,
        read_only: bool, instant_lr: f32, instant_ewc: f32,
        instant_everywhere: bool, instant_share: f32,
    }
    kt_feedback_params {
        kept: *const kt_kept, about: *const c_char, score: f32, correction: *const c_char, n_correction: usize,
    }
    kt_feedback_result { id: u64, version: i64, n_pairs: i32, keys_us: i64, update_us: i64, instant_us: i64, }
    kt_learned { version: i64, recall: *mut kt_recall, adapter: *mut kt_adapter, bank: *mut kt_bank, instant: *mut kt_adapter, }
}

macro_rules! opaque {
    ($($name:ident)*) => {
        $(#[repr(C)]
        pub struct $name { _private: [u8; 0] })*
    };
}
opaque!(kt_ctx kt_model kt_engine kt_seq kt_sampler kt_adapter kt_request kt_recall kt_bank kt_learner);

pub type kt_status = c_int;
pub const KT_OK: kt_status = 0;
pub const KT_E_LIMIT: kt_status = 6;
pub const KT_TOK_ADD_SPECIAL: c_uint = 1;
pub const KT_TOK_PARSE_SPECIAL: c_uint = 2;
pub const KT_SEED_RANDOM: u64 = u64::MAX;
pub const KT_VERSION_SERVED: i64 = -1;
pub const KT_EVENT_TOKEN: c_int = 1;
pub const KT_EVENT_FINISHED: c_int = 2;

extern "C" {
    pub fn kt_version() -> *const c_char;
    pub fn kt_struct_size(name: *const c_char) -> usize;
    pub fn kt_status_name(status: kt_status) -> *const c_char;
    pub fn kt_finish_name(finish: c_int) -> *const c_char;
    pub fn kt_ctx_params_default() -> kt_ctx_params;
    pub fn kt_ctx_open(params: *const kt_ctx_params, out: *mut *mut kt_ctx, err: *mut kt_error) -> kt_status;
    pub fn kt_ctx_close(ctx: *mut kt_ctx);
    pub fn kt_model_params_default() -> kt_model_params;
    pub fn kt_model_open(
        ctx: *mut kt_ctx, path: *const c_char, params: *const kt_model_params, out: *mut *mut kt_model,
        err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_model_open_demo(
        ctx: *mut kt_ctx, params: *const kt_model_params, out: *mut *mut kt_model, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_model_close(model: *mut kt_model);
    pub fn kt_model_get_info(model: *const kt_model, out: *mut kt_model_info);
    pub fn kt_tokenize(
        model: *const kt_model, text: *const c_char, len: usize, flags: c_uint, ids: *mut i32, cap: usize,
        n: *mut usize, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_detokenize(
        model: *const kt_model, ids: *const i32, n: usize, flags: c_uint, text: *mut c_char, cap: usize,
        len: *mut usize, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_token_is_eog(model: *const kt_model, id: i32) -> bool;
    pub fn kt_engine_params_default() -> kt_engine_params;
    pub fn kt_engine_open(
        model: *mut kt_model, params: *const kt_engine_params, out: *mut *mut kt_engine, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_engine_close(engine: *mut kt_engine);
    pub fn kt_seq_open(engine: *mut kt_engine, out: *mut *mut kt_seq, err: *mut kt_error) -> kt_status;
    pub fn kt_seq_close(seq: *mut kt_seq);
    pub fn kt_seq_truncate(seq: *mut kt_seq, n_keep: usize, err: *mut kt_error) -> kt_status;
    pub fn kt_seq_save(seq: *mut kt_seq, path: *const c_char, err: *mut kt_error) -> kt_status;
    pub fn kt_seq_restore(seq: *mut kt_seq, path: *const c_char, err: *mut kt_error) -> kt_status;
    pub fn kt_seq_set_adapters(
        seq: *mut kt_seq, uses: *const kt_adapter_use, n: usize, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_adapter_open(
        model: *mut kt_model, path: *const c_char, out: *mut *mut kt_adapter, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_adapter_close(adapter: *mut kt_adapter);
    pub fn kt_seq_len(seq: *const kt_seq) -> usize;
    pub fn kt_seq_tokens(seq: *const kt_seq) -> *const i32;
    pub fn kt_seq_eval(seq: *mut kt_seq, ids: *const i32, n: usize, err: *mut kt_error) -> kt_status;
    pub fn kt_seq_logits(seq: *const kt_seq) -> *const f32;
    pub fn kt_sampling_default() -> kt_sampling;
    pub fn kt_request_params_default() -> kt_request_params;
    pub fn kt_engine_submit(
        engine: *mut kt_engine, request: *const kt_request_params, out: *mut *mut kt_request, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_request_next_event(req: *mut kt_request, out: *mut kt_event, timeout_ms: i64) -> bool;
    pub fn kt_request_cancel(req: *mut kt_request);
    pub fn kt_request_close(req: *mut kt_request);
    pub fn kt_request_get_kept(req: *const kt_request, choice: i32, out: *mut kt_kept) -> bool;
    pub fn kt_learner_open(
        engine: *mut kt_engine, params: *const kt_learner_params, out: *mut *mut kt_learner, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_learner_close(learner: *mut kt_learner);
    pub fn kt_learner_get(learner: *mut kt_learner, version: i64, out: *mut kt_learned, err: *mut kt_error) -> kt_status;
    pub fn kt_learned_close(learned: *mut kt_learned);
    pub fn kt_learned_adapters(
        learned: *const kt_learned, request: *const kt_request_params, out: *mut kt_adapter_use,
    ) -> usize;
    pub fn kt_feedback(
        learner: *mut kt_learner, params: *const kt_feedback_params, out: *mut kt_feedback_result, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_learner_forget(learner: *mut kt_learner, id: u64, err: *mut kt_error) -> kt_status;
    pub fn kt_embed(
        engine: *mut kt_engine, ids: *const i32, n: usize, pooling: c_int, normalize: bool, out: *mut f32,
        err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_sampler_open(
        model: *const kt_model, sampling: *const kt_sampling, n_ctx: i32, out: *mut *mut kt_sampler, err: *mut kt_error,
    ) -> kt_status;
    pub fn kt_sampler_close(sampler: *mut kt_sampler);
    pub fn kt_sampler_accept(sampler: *mut kt_sampler, id: i32, err: *mut kt_error) -> kt_status;
    pub fn kt_sampler_sample(sampler: *mut kt_sampler, logits: *const f32, id: *mut i32, err: *mut kt_error) -> kt_status;
}

/// The first structure that the library has in another size than this crate: it is of another version.
pub fn first_mismatch() -> Option<&'static str> {
    let differs = |name: &str, size: usize| {
        let name = std::ffi::CString::new(name).expect("no zero byte");
        unsafe { kt_struct_size(name.as_ptr()) != size }
    };
    layout().into_iter().find(|&(name, member, size)| member.is_empty() && differs(name, size)).map(|found| found.0)
}
