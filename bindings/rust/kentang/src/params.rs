//! Parameters with their defaults; what 0 and None mean is said in kentang.h.
use crate::error::{call, refused, Result};
use crate::{Model, Runtime};
use kentang_sys as sys;
use std::ffi::CString;
use std::os::raw::c_char;

pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| refused(format!("a text with a zero byte: {text:?}")))
}

/// How positions are stretched for texts longer than the model was trained with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum RopeScaling {
    /// As the file says.
    Model = 0,
    None = 1,
    Linear = 2,
    Yarn = 3,
}

#[derive(Debug, Clone)]
pub struct ModelParams {
    pub use_mmap: bool,
    pub use_mlock: bool,
    /// Tokenizer and template only.
    pub vocab_only: bool,
    /// Activations in f32 and weights dequantised: slow, what other settings are compared with.
    pub exact: bool,
    /// Products of prompts by a BLAS, which is loaded by the name or path in blas_library (None: OpenBLAS's names).
    pub blas: bool,
    pub blas_library: Option<String>,
    pub rope_scaling: RopeScaling,
    /// 0: as the file says.
    pub rope_freq_base: f32,
    pub rope_freq_scale: f32,
    /// In place of the file's; with chat_fallback a model without one gets ChatML's.
    pub chat_template: Option<String>,
    pub chat_fallback: bool,
    /// The tier of kernels: "avx2" and so on; None: the best that the processor has.
    pub isa: Option<String>,
    /// 0: from cores, affinity and quota.
    pub n_threads: i32,
    /// Processors to run on, as "0-3,8"; None: all that the process may use.
    pub cpus: Option<String>,
    /// All that the model and its contexts may use; 0: from the machine.
    pub mem_bytes: u64,
}

impl Default for ModelParams {
    fn default() -> Self {
        let plain = unsafe { sys::kt_model_params_default() };
        ModelParams {
            use_mmap: plain.use_mmap,
            use_mlock: plain.use_mlock,
            vocab_only: plain.vocab_only,
            exact: plain.exact,
            blas: plain.blas,
            blas_library: None,
            rope_scaling: RopeScaling::Model,
            rope_freq_base: plain.rope_freq_base,
            rope_freq_scale: plain.rope_freq_scale,
            chat_template: None,
            chat_fallback: plain.chat_fallback,
            isa: None,
            n_threads: 0,
            cpus: None,
            mem_bytes: 0,
        }
    }
}

fn optional(text: &Option<String>) -> Result<Option<CString>> {
    text.as_deref().map(c_string).transpose()
}

fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr())
}

impl ModelParams {
    /// f gets the C structure, whose texts live as long as the call.
    pub(crate) fn with_sys<T>(&self, f: impl FnOnce(&sys::kt_model_params) -> T) -> Result<T> {
        let (library, template) = (optional(&self.blas_library)?, optional(&self.chat_template)?);
        let mut plain = unsafe { sys::kt_model_params_default() };
        plain.use_mmap = self.use_mmap;
        plain.use_mlock = self.use_mlock;
        plain.vocab_only = self.vocab_only;
        plain.exact = self.exact;
        plain.blas = self.blas;
        plain.blas_library = pointer(&library);
        plain.rope_scaling = self.rope_scaling as std::os::raw::c_int;
        plain.rope_freq_base = self.rope_freq_base;
        plain.rope_freq_scale = self.rope_freq_scale;
        plain.chat_template = pointer(&template);
        plain.chat_fallback = self.chat_fallback;
        Ok(f(&plain))
    }

    pub(crate) fn open_runtime(&self) -> Result<Runtime> {
        if let Some(name) = sys::first_mismatch() {
            return Err(refused(format!("libkentang {} has another {name} than this crate", crate::version())));
        }
        let (isa, cpus) = (optional(&self.isa)?, optional(&self.cpus)?);
        let mut plain = unsafe { sys::kt_ctx_params_default() };
        plain.isa = pointer(&isa);
        plain.cpus = pointer(&cpus);
        plain.n_threads = self.n_threads;
        plain.mem_bytes = self.mem_bytes;
        let mut handle = std::ptr::null_mut();
        call(|err| unsafe { sys::kt_ctx_open(&plain, &mut handle, err) })?;
        Ok(Runtime(handle))
    }
}

/// In how many bits keys and values are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum KvType {
    #[default]
    F16 = 0,
    Q8 = 1,
    Q4 = 2,
}

#[derive(Debug, Clone, Default)]
pub struct ContextParams {
    /// Positions of a conversation; 0: the model's, at most 4096.
    pub n_ctx: i32,
    pub n_batch: i32,
    pub n_ubatch: i32,
    /// Conversations alive at once on one engine; 0: 8.
    pub n_seq_max: i32,
    pub n_threads: i32,
    pub n_threads_batch: i32,
    pub kv_bytes: u64,
    pub kv_keys: KvType,
    pub kv_values: KvType,
    /// Newest positions that are kept in f16 nevertheless.
    pub kv_tail: i32,
    /// A small model with the same vocabulary that proposes tokens; it has to live in the same process.
    pub draft: Option<Model>,
    /// Tokens proposed at once; 0: the library's choice with a draft model, none without.
    pub n_draft: i32,
    /// Answers computed together; 0: from the machine.
    pub n_parallel: i32,
}

impl ContextParams {
    pub(crate) fn to_sys(&self) -> sys::kt_engine_params {
        let mut plain = unsafe { sys::kt_engine_params_default() };
        plain.n_ctx = self.n_ctx;
        plain.n_batch = self.n_batch;
        plain.n_ubatch = self.n_ubatch;
        plain.n_seq_max = self.n_seq_max;
        plain.n_threads = self.n_threads;
        plain.n_threads_batch = self.n_threads_batch;
        plain.kv_bytes = self.kv_bytes;
        plain.kv_keys = self.kv_keys as std::os::raw::c_int;
        plain.kv_values = self.kv_values as std::os::raw::c_int;
        plain.kv_tail = self.kv_tail;
        plain.n_parallel = self.n_parallel;
        if let Some(draft) = &self.draft {
            plain.draft = draft.0.handle;
        }
        if self.n_draft > 0 {
            plain.n_draft = self.n_draft;
        }
        plain
    }
}

/// The usual steps of the sampler chain, with the defaults of `kentang run`.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// None: drawn from the system.
    pub seed: Option<u64>,
    /// 0: always the most probable token.
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub typical_p: f32,
    pub repeat_last_n: i32,
    pub repeat_penalty: f32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub dry_multiplier: f32,
    pub mirostat: i32,
    pub mirostat_tau: f32,
    pub mirostat_eta: f32,
    /// Added to the logit of a token; minus infinity forbids it.
    pub logit_bias: Vec<(crate::Token, f32)>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        let plain = unsafe { sys::kt_sampling_default() };
        SamplingParams {
            seed: None,
            temperature: plain.temperature,
            top_k: plain.top_k,
            top_p: plain.top_p,
            min_p: plain.min_p,
            typical_p: plain.typical_p,
            repeat_last_n: plain.repeat_last_n,
            repeat_penalty: plain.repeat_penalty,
            frequency_penalty: plain.frequency_penalty,
            presence_penalty: plain.presence_penalty,
            dry_multiplier: plain.dry_multiplier,
            mirostat: plain.mirostat,
            mirostat_tau: plain.mirostat_tau,
            mirostat_eta: plain.mirostat_eta,
            logit_bias: Vec::new(),
        }
    }
}

impl SamplingParams {
    /// Hands the C structure to f, with what it points to.
    pub(crate) fn with_sys<R>(&self, f: impl FnOnce(&sys::kt_sampling) -> R) -> R {
        let bias: Vec<_> = self.logit_bias.iter().map(|&(id, bias)| sys::kt_logit_bias { id, bias }).collect();
        let mut plain = unsafe { sys::kt_sampling_default() };
        plain.seed = self.seed.unwrap_or(sys::KT_SEED_RANDOM);
        plain.temperature = self.temperature;
        plain.top_k = self.top_k;
        plain.top_p = self.top_p;
        plain.min_p = self.min_p;
        plain.typical_p = self.typical_p;
        plain.repeat_last_n = self.repeat_last_n;
        plain.repeat_penalty = self.repeat_penalty;
        plain.frequency_penalty = self.frequency_penalty;
        plain.presence_penalty = self.presence_penalty;
        plain.dry_multiplier = self.dry_multiplier;
        plain.mirostat = self.mirostat;
        plain.mirostat_tau = self.mirostat_tau;
        plain.mirostat_eta = self.mirostat_eta;
        plain.logit_bias = bias.as_ptr();
        plain.n_logit_bias = bias.len();
        f(&plain)
    }
}

#[derive(Debug, Clone, Default)]
pub struct GenParams {
    pub sampling: SamplingParams,
    /// None: until the end of the turn or of the context.
    pub n_predict: Option<u32>,
    /// Texts that end the answer and are not part of it.
    pub stop: Vec<String>,
    pub ignore_end: bool,
}

impl GenParams {
    pub(crate) fn with_sys<R>(&self, f: impl FnOnce(&sys::kt_gen_params) -> R) -> Result<R> {
        let stop = self.stop.iter().map(|s| c_string(s)).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<*const c_char> = stop.iter().map(|s| s.as_ptr()).collect();
        Ok(self.sampling.with_sys(|sampling| {
            let mut plain = unsafe { sys::kt_gen_params_default() };
            plain.sampling = *sampling;
            plain.n_predict = self.n_predict.map_or(-1, |n| n.min(i32::MAX as u32) as i32);
            plain.stop = pointers.as_ptr();
            plain.n_stop = pointers.len();
            plain.ignore_eog = self.ignore_end;
            f(&plain)
        }))
    }
}

#[derive(Debug, Clone)]
pub struct Message {
    /// "system", "user", "assistant", "tool"
    pub role: String,
    pub content: String,
}

impl Message {
    pub fn new(role: &str, content: &str) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// How the states of a text's tokens become one vector.
#[derive(Debug, Clone, Copy)]
pub enum Pooling {
    Mean = 1,
    Last = 2,
}
