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
    /// Negative: as the file says.
    pub yarn_ext_factor: f32,
    pub yarn_attn_factor: f32,
    pub yarn_beta_fast: f32,
    pub yarn_beta_slow: f32,
    pub yarn_orig_ctx: i32,
    /// In place of the file's; with chat_fallback a model without one gets ChatML's.
    pub chat_template: Option<String>,
    pub chat_fallback: bool,
    /// The part of the model that sees: its mmproj file.
    pub mmproj: Option<String>,
    /// Layers on a graphics processor, by Vulkan; -1: as many as it has memory for.
    pub n_gpu_layers: i32,
    pub device: Option<String>,
    /// Attention as one row of scores, for comparison.
    pub plain_attention: bool,
    /// The tier of kernels: "avx2" and so on; None: the best that the processor has.
    pub isa: Option<String>,
    /// 0: from cores, affinity and quota.
    pub n_threads: i32,
    /// What a context may ask for, where that is more.
    pub n_threads_max: i32,
    /// -1 low, 0 the caller's, 1 medium, 2 high, 3 real time.
    pub priority: i32,
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
            yarn_ext_factor: plain.yarn_ext_factor,
            yarn_attn_factor: plain.yarn_attn_factor,
            yarn_beta_fast: plain.yarn_beta_fast,
            yarn_beta_slow: plain.yarn_beta_slow,
            yarn_orig_ctx: plain.yarn_orig_ctx,
            chat_template: None,
            chat_fallback: plain.chat_fallback,
            mmproj: None,
            n_gpu_layers: plain.n_gpu_layers,
            device: None,
            plain_attention: plain.plain_attention,
            isa: None,
            n_threads: 0,
            n_threads_max: 0,
            priority: 0,
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
        let (mmproj, device) = (optional(&self.mmproj)?, optional(&self.device)?);
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
        plain.yarn_ext_factor = self.yarn_ext_factor;
        plain.yarn_attn_factor = self.yarn_attn_factor;
        plain.yarn_beta_fast = self.yarn_beta_fast;
        plain.yarn_beta_slow = self.yarn_beta_slow;
        plain.yarn_orig_ctx = self.yarn_orig_ctx;
        plain.mmproj = pointer(&mmproj);
        plain.n_gpu_layers = self.n_gpu_layers;
        plain.device = pointer(&device);
        plain.plain_attention = self.plain_attention;
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
        plain.n_threads_max = self.n_threads_max;
        plain.priority = self.priority;
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

/// Who proposes tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum DraftFrom {
    /// The text so far, else the draft model.
    #[default]
    Any = 0,
    Text = 1,
    Model = 2,
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
    /// Tokens proposed at once; 0: the library's choice with a draft model, none without; -1: none.
    pub n_draft: i32,
    pub draft_from: DraftFrom,
    /// Answers computed together; 0: from the machine.
    pub n_parallel: i32,
    /// Requests that may wait; 0: 256.
    pub n_queue_max: i32,
    /// The longest pause in an answer while prompts are computed; 0: 200.
    pub gap_ms: i32,
    /// The controller's, with its targets; 0: their defaults.
    pub optimize: bool,
    pub target_latency_ms: i32,
    pub min_throughput: f64,
    pub memory_threshold: f64,
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
        plain.draft_from = self.draft_from as std::os::raw::c_int;
        plain.n_queue_max = self.n_queue_max;
        plain.gap_ms = self.gap_ms;
        plain.optimize = self.optimize;
        plain.target_latency_ms = self.target_latency_ms;
        plain.min_throughput = self.min_throughput;
        plain.memory_threshold = self.memory_threshold;
        if let Some(draft) = &self.draft {
            plain.draft = draft.0.handle;
        }
        if self.n_draft != 0 {
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
    pub dynatemp_range: f32,
    pub dynatemp_exponent: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub typical_p: f32,
    /// -1: off.
    pub top_n_sigma: f32,
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    pub repeat_last_n: i32,
    pub repeat_penalty: f32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub dry_multiplier: f32,
    pub dry_base: f32,
    pub dry_allowed_length: i32,
    pub dry_penalty_last_n: i32,
    /// None: newline, colon, quote, asterisk.
    pub dry_breakers: Option<Vec<String>>,
    pub mirostat: i32,
    pub mirostat_tau: f32,
    pub mirostat_eta: f32,
    /// The steps in their order, as "top_k;top_p;temperature"; None: all of them.
    pub chain: Option<String>,
    /// Candidates that truncating steps leave at least.
    pub min_keep: i32,
    /// The random numbers that llama.cpp draws with this seed.
    pub mt19937: bool,
    /// Added to the logit of a token; minus infinity forbids it.
    pub logit_bias: Vec<(crate::Token, f32)>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        let plain = unsafe { sys::kt_sampling_default() };
        SamplingParams {
            seed: None,
            temperature: plain.temperature,
            dynatemp_range: plain.dynatemp_range,
            dynatemp_exponent: plain.dynatemp_exponent,
            top_k: plain.top_k,
            top_p: plain.top_p,
            min_p: plain.min_p,
            typical_p: plain.typical_p,
            top_n_sigma: plain.top_n_sigma,
            xtc_probability: plain.xtc_probability,
            xtc_threshold: plain.xtc_threshold,
            repeat_last_n: plain.repeat_last_n,
            repeat_penalty: plain.repeat_penalty,
            frequency_penalty: plain.frequency_penalty,
            presence_penalty: plain.presence_penalty,
            dry_multiplier: plain.dry_multiplier,
            dry_base: plain.dry_base,
            dry_allowed_length: plain.dry_allowed_length,
            dry_penalty_last_n: plain.dry_penalty_last_n,
            dry_breakers: None,
            mirostat: plain.mirostat,
            mirostat_tau: plain.mirostat_tau,
            mirostat_eta: plain.mirostat_eta,
            chain: None,
            min_keep: plain.min_keep,
            mt19937: false,
            logit_bias: Vec::new(),
        }
    }
}

impl SamplingParams {
    /// Hands the C structure to f, with what it points to.
    pub(crate) fn with_sys<R>(&self, f: impl FnOnce(&sys::kt_sampling) -> R) -> Result<R> {
        let chain = optional(&self.chain)?;
        let breakers = Texts::new(self.dry_breakers.as_deref().unwrap_or_default())?;
        let bias: Vec<_> = self.logit_bias.iter().map(|&(id, bias)| sys::kt_logit_bias { id, bias }).collect();
        let mut plain = unsafe { sys::kt_sampling_default() };
        plain.seed = self.seed.unwrap_or(sys::KT_SEED_RANDOM);
        plain.temperature = self.temperature;
        plain.dynatemp_range = self.dynatemp_range;
        plain.dynatemp_exponent = self.dynatemp_exponent;
        plain.top_k = self.top_k;
        plain.top_p = self.top_p;
        plain.min_p = self.min_p;
        plain.typical_p = self.typical_p;
        plain.top_n_sigma = self.top_n_sigma;
        plain.xtc_probability = self.xtc_probability;
        plain.xtc_threshold = self.xtc_threshold;
        plain.repeat_last_n = self.repeat_last_n;
        plain.repeat_penalty = self.repeat_penalty;
        plain.frequency_penalty = self.frequency_penalty;
        plain.presence_penalty = self.presence_penalty;
        plain.dry_multiplier = self.dry_multiplier;
        plain.dry_base = self.dry_base;
        plain.dry_allowed_length = self.dry_allowed_length;
        plain.dry_penalty_last_n = self.dry_penalty_last_n;
        if self.dry_breakers.is_some() {
            plain.dry_breakers = breakers.pointers.as_ptr();
            plain.n_dry_breakers = breakers.pointers.len();
        }
        plain.mirostat = self.mirostat;
        plain.mirostat_tau = self.mirostat_tau;
        plain.mirostat_eta = self.mirostat_eta;
        plain.chain = pointer(&chain);
        plain.min_keep = self.min_keep;
        plain.mt19937 = self.mt19937 as i32;
        plain.logit_bias = bias.as_ptr();
        plain.n_logit_bias = bias.len();
        Ok(f(&plain))
    }
}

/// Texts as C has them, which live as long as this does.
pub(crate) struct Texts {
    _texts: Vec<CString>,
    pub pointers: Vec<*const c_char>,
}

impl Texts {
    pub fn new(texts: &[String]) -> Result<Texts> {
        let texts = texts.iter().map(|s| c_string(s)).collect::<Result<Vec<_>>>()?;
        let pointers = texts.iter().map(|s| s.as_ptr()).collect();
        Ok(Texts { _texts: texts, pointers })
    }
}

/// What an answer may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Any JSON object.
    Json,
    /// A JSON value that is valid by this JSON Schema.
    Schema(String),
    /// What this GBNF grammar takes, from its rule root.
    Grammar(String),
    /// What this regular expression takes as a whole.
    Regex(String),
    Choice(Vec<String>),
}

/// Holds an answer to one of its forms, which ends it; no forms: a free answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Constraint {
    pub forms: Vec<Form>,
    /// With these the text is free until one of them has been written.
    pub triggers: Vec<String>,
    /// The answer continues after a form.
    pub repeat: bool,
    /// It closes before n_predict.
    pub finish_within: bool,
    /// JSON has no white space; else it may have what models write.
    pub compact: bool,
}

impl From<Form> for Constraint {
    fn from(form: Form) -> Constraint {
        Constraint { forms: vec![form], ..Default::default() }
    }
}

impl Constraint {
    fn with_sys<R>(&self, f: impl FnOnce(&sys::kt_constraint) -> R) -> Result<R> {
        let none: &[String] = &[];
        let texts = self.forms.iter().map(|form| match form {
            Form::Json => (0, "", none),
            Form::Schema(text) => (1, text.as_str(), none),
            Form::Grammar(text) => (2, text.as_str(), none),
            Form::Regex(text) => (3, text.as_str(), none),
            Form::Choice(choices) => (4, "", choices.as_slice()),
        });
        let texts: Vec<_> = texts.collect();
        let choices = texts.iter().map(|t| Texts::new(t.2)).collect::<Result<Vec<_>>>()?;
        let triggers = Texts::new(&self.triggers)?;
        let forms = texts.iter().zip(&choices).map(|(&(kind, text, _), choices)| sys::kt_form {
            kind,
            text: if kind == 0 || kind == 4 { std::ptr::null() } else { text.as_ptr().cast() },
            len: text.len(),
            choices: if kind == 4 { choices.pointers.as_ptr() } else { std::ptr::null() },
            n_choices: choices.pointers.len(),
            blanks: false,
            any_order: false,
            before: std::ptr::null(),
            after: std::ptr::null(),
        });
        let forms: Vec<_> = forms.collect();
        Ok(f(&sys::kt_constraint {
            forms: forms.as_ptr(),
            n_forms: forms.len(),
            triggers: triggers.pointers.as_ptr(),
            n_triggers: triggers.pointers.len(),
            repeat: self.repeat,
            finish_within: self.finish_within,
            compact: self.compact,
        }))
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
    /// 16 or more: the answer ends where its last so many tokens are one run over and over; 0: off.
    pub loop_tokens: i32,
    pub min_tokens: i32,
    pub constraint: Constraint,
    /// What was learned is used, and what [`Learner::correct`](crate::Learner::correct) needs is kept.
    pub learner: Option<crate::Learner>,
}

impl GenParams {
    pub(crate) fn with_sys<R>(&self, f: impl FnOnce(sys::kt_request_params) -> R) -> Result<R> {
        let stop = Texts::new(&self.stop)?;
        self.sampling.with_sys(|sampling| {
            self.constraint.with_sys(|constraint| {
                let mut plain = unsafe { sys::kt_request_params_default() };
                plain.gen.sampling = *sampling;
                plain.gen.n_predict = self.n_predict.map_or(-1, |n| n.min(i32::MAX as u32) as i32);
                plain.gen.stop = stop.pointers.as_ptr();
                plain.gen.n_stop = stop.pointers.len();
                plain.gen.ignore_eog = self.ignore_end;
                plain.gen.loop_tokens = self.loop_tokens;
                plain.gen.min_tokens = self.min_tokens;
                plain.constraint = *constraint;
                f(plain)
            })
        })?
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
