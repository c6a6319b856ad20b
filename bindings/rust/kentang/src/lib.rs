//! Language models in this process, on CPUs: the safe side of libkentang.
//!
//! ```no_run
//! use kentang::{ContextParams, Model, ModelParams, SamplingParams};
//! # fn main() -> kentang::Result<()> {
//! let model = Model::load("model.gguf", &ModelParams::default())?;
//! let mut ctx = model.context(&ContextParams::default())?;
//! let sampling = SamplingParams { temperature: 0.7, ..Default::default() };
//! ctx.eval_prompt("Once upon a time")?;
//! for _ in 0..100 {
//!     let token = ctx.sample_token(&sampling)?;
//!     if ctx.is_end(token) {
//!         break;
//!     }
//!     print!("{}", ctx.token_to_str(token)?);
//!     ctx.eval_token(token)?;
//! }
//! # Ok(()) }
//! ```
//!
//! Everything keeps alive what it lives in. A [`Model`] and an [`Engine`] may be shared by threads; a [`Context`] (a
//! conversation: tokens and what was computed of them) has one user at a time.

mod context;
mod error;
mod learner;
mod params;

pub use context::{Context, Report};
pub use error::{Error, Result};
pub use learner::Learner;
pub use params::{Constraint, ContextParams, DraftFrom, Form, GenParams, KvType, Message, ModelParams, Pooling, RopeScaling, SamplingParams};

use error::{call, text_of};
use kentang_sys as sys;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

pub type Token = i32;

/// The library's version.
pub fn version() -> String {
    text_of(unsafe { sys::kt_version() })
}

struct Runtime(*mut sys::kt_ctx);
struct OpenModel {
    handle: *mut sys::kt_model,
    _runtime: Runtime,
}
struct OpenEngine {
    handle: *mut sys::kt_engine,
    n_ctx: i32,
    model: Model,
    _draft: Option<Model>,
}
struct OpenAdapter {
    handle: *mut sys::kt_adapter,
    _model: Model,
}

// kentang.h: contexts and models may be used from any number of threads, engines too.
unsafe impl Send for Runtime {}
unsafe impl Sync for Runtime {}
unsafe impl Send for OpenModel {}
unsafe impl Sync for OpenModel {}
unsafe impl Send for OpenEngine {}
unsafe impl Sync for OpenEngine {}
unsafe impl Send for OpenAdapter {}
unsafe impl Sync for OpenAdapter {}

impl Drop for Runtime {
    fn drop(&mut self) {
        unsafe { sys::kt_ctx_close(self.0) }
    }
}
impl Drop for OpenModel {
    fn drop(&mut self) {
        unsafe { sys::kt_model_close(self.handle) }
    }
}
impl Drop for OpenAdapter {
    fn drop(&mut self) {
        unsafe { sys::kt_adapter_close(self.handle) }
    }
}
impl Drop for OpenEngine {
    fn drop(&mut self) {
        unsafe { sys::kt_engine_close(self.handle) }
    }
}

/// Weights, vocabulary and chat template; cheap to clone.
#[derive(Clone)]
pub struct Model(Arc<OpenModel>);

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Model({:?})", self.name())
    }
}

impl Model {
    /// A GGUF file, or the first of a split set.
    pub fn load(path: impl AsRef<Path>, params: &ModelParams) -> Result<Model> {
        let path = params::c_string(&path.as_ref().to_string_lossy())?;
        Model::open(Some(path), params)
    }

    /// The model inside the library.
    pub fn demo(params: &ModelParams) -> Result<Model> {
        Model::open(None, params)
    }

    fn open(path: Option<CString>, params: &ModelParams) -> Result<Model> {
        let runtime = params.open_runtime()?;
        let mut handle = std::ptr::null_mut();
        params.with_sys(|plain| {
            call(|err| unsafe {
                match &path {
                    Some(path) => sys::kt_model_open(runtime.0, path.as_ptr(), plain, &mut handle, err),
                    None => sys::kt_model_open_demo(runtime.0, plain, &mut handle, err),
                }
            })
        })??;
        Ok(Model(Arc::new(OpenModel { handle, _runtime: runtime })))
    }

    /// Room for conversations that are computed together.
    pub fn engine(&self, params: &ContextParams) -> Result<Engine> {
        let plain = params.to_sys();
        let mut handle = std::ptr::null_mut();
        call(|err| unsafe { sys::kt_engine_open(self.0.handle, &plain, &mut handle, err) })?;
        let n_ctx = if plain.n_ctx > 0 { plain.n_ctx } else { self.info().n_ctx_train.clamp(1, 4096) };
        Ok(Engine(Arc::new(OpenEngine { handle, n_ctx, model: self.clone(), _draft: params.draft.clone() })))
    }

    /// A LoRA adapter in a GGUF file, for [`Context::set_adapters`]; cheap to clone.
    pub fn adapter(&self, path: impl AsRef<Path>) -> Result<Adapter> {
        let path = params::c_string(&path.as_ref().to_string_lossy())?;
        let mut handle = std::ptr::null_mut();
        call(|err| unsafe { sys::kt_adapter_open(self.0.handle, path.as_ptr(), &mut handle, err) })?;
        Ok(Adapter(Arc::new(OpenAdapter { handle, _model: self.clone() })))
    }

    /// A conversation on an engine of its own.
    pub fn context(&self, params: &ContextParams) -> Result<Context> {
        self.engine(params)?.context()
    }

    fn info(&self) -> sys::kt_model_info {
        let mut info = std::mem::MaybeUninit::uninit();
        unsafe {
            sys::kt_model_get_info(self.0.handle, info.as_mut_ptr());
            info.assume_init()
        }
    }

    pub fn name(&self) -> String {
        text_of(self.info().name)
    }

    pub fn n_vocab(&self) -> usize {
        self.info().n_vocab as usize
    }

    /// The width of an embedding.
    pub fn d_model(&self) -> usize {
        self.info().d_model as usize
    }

    /// -1: the model has none.
    pub fn token_bos(&self) -> Token {
        self.info().bos_id
    }

    /// -1: the model has none. [`Model::is_end`] knows all tokens that end an answer.
    pub fn token_eos(&self) -> Token {
        self.info().eos_id
    }

    pub fn is_end(&self, token: Token) -> bool {
        unsafe { sys::kt_token_is_eog(self.0.handle, token) }
    }

    /// special: with BOS and EOS as the model's rules say, and control tokens written in the text are recognised.
    pub fn tokenize(&self, text: &str, special: bool) -> Result<Vec<Token>> {
        let flags = if special { sys::KT_TOK_ADD_SPECIAL | sys::KT_TOK_PARSE_SPECIAL } else { 0 };
        error::sized(text.len() + 16, |out: &mut [Token], n, err| unsafe {
            sys::kt_tokenize(self.0.handle, text.as_ptr().cast(), text.len(), flags, out.as_mut_ptr(), out.len(), n, err)
        })
    }

    fn decode(&self, tokens: &[Token]) -> Result<Vec<u8>> {
        error::sized(16 * tokens.len() + 16, |out: &mut [u8], n, err| unsafe {
            let text = out.as_mut_ptr().cast();
            sys::kt_detokenize(self.0.handle, tokens.as_ptr(), tokens.len(), 0, text, out.len(), n, err)
        })
    }

    pub fn detokenize(&self, tokens: &[Token]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.decode(tokens)?).into_owned())
    }

    /// What a token stands for within a text, its leading blank included: maybe a part of a character.
    pub fn token_to_bytes(&self, token: Token) -> Result<Vec<u8>> {
        let alone = self.decode(&[token])?.len(); // some vocabularies drop the blank where a text begins
        Ok(self.decode(&[token, token])?.split_off(alone))
    }
}

/// What an adapter file adds to a model's weights.
#[derive(Clone)]
pub struct Adapter(Arc<OpenAdapter>);

/// The scheduler and the memory of conversations of one model; cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<OpenEngine>);

impl Engine {
    pub fn context(&self) -> Result<Context> {
        Context::open(self.clone())
    }

    pub fn model(&self) -> &Model {
        &self.0.model
    }

    /// What is learned from feedback, kept in a folder, which is made; one process at a time learns there.
    pub fn learner(&self, dir: impl AsRef<Path>) -> Result<Learner> {
        Learner::open(self.clone(), dir.as_ref())
    }

    /// Of length 1.
    pub fn embed(&self, text: &str, pooling: Pooling) -> Result<Vec<f32>> {
        let ids = self.0.model.tokenize(text, true)?;
        let mut out = vec![0.0; self.0.model.d_model()];
        let pooling = pooling as std::os::raw::c_int;
        call(|err| unsafe {
            sys::kt_embed(self.0.handle, ids.as_ptr(), ids.len(), pooling, true, out.as_mut_ptr(), err)
        })?;
        Ok(out)
    }
}
