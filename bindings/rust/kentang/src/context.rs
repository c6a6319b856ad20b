//! A conversation: tokens and what was computed of them, token by token or a whole answer at once.
use crate::error::{call, error_of, refused, text_of, Result};
use crate::learner::Kept;
use crate::params::{c_string, GenParams, Message, SamplingParams};
use crate::{Adapter, Engine, Model, Token};
use kentang_sys as sys;
use std::path::Path;

struct Sampler {
    handle: *mut sys::kt_sampler,
    params: SamplingParams,
}

impl Drop for Sampler {
    fn drop(&mut self) {
        unsafe { sys::kt_sampler_close(self.handle) }
    }
}

pub struct Context {
    handle: *mut sys::kt_seq,
    engine: Engine,
    sampler: Option<Sampler>,
    /// Bytes of a character that is not whole yet.
    pending: Vec<u8>,
    adapters: Vec<Adapter>,
}

// One thread at a time, whichever it is.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        self.sampler = None;
        unsafe { sys::kt_seq_close(self.handle) }
    }
}

/// The account of an answer.
#[derive(Debug, Clone)]
pub struct Report {
    pub text: String,
    /// "eog", "stop", "length", "context", "cancelled", ...
    pub finish: String,
    /// Repeats the answer.
    pub seed: u64,
    pub n_prompt: i32,
    pub n_cached: i32,
    pub n_generated: i32,
    pub prefill_us: i64,
    pub decode_us: i64,
    /// Where the answer was made with a learner: what [`Learner::correct`] needs.
    pub(crate) kept: Option<Kept>,
}

/// An answer that is computed; closed when it goes.
struct Request(*mut sys::kt_request);

impl Drop for Request {
    fn drop(&mut self) {
        unsafe { sys::kt_request_close(self.0) }
    }
}

impl Context {
    pub(crate) fn open(engine: Engine) -> Result<Context> {
        let mut handle = std::ptr::null_mut();
        call(|err| unsafe { sys::kt_seq_open(engine.0.handle, &mut handle, err) })?;
        Ok(Context { handle, engine, sampler: None, pending: Vec::new(), adapters: Vec::new() })
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn model(&self) -> &Model {
        self.engine.model()
    }

    // ---- token by token ----

    /// Appends a text; control tokens written in it count, and BOS stands before it where it is the first.
    pub fn eval_prompt(&mut self, text: &str) -> Result<()> {
        let first = self.tokens().is_empty();
        let mut ids = self.model().tokenize(text, true)?;
        if !first && ids.first() == Some(&self.token_bos()) {
            ids.remove(0);
        }
        self.pending.clear();
        self.eval_tokens(&ids)
    }

    pub fn eval_token(&mut self, token: Token) -> Result<()> {
        self.eval_tokens(&[token])
    }

    pub fn eval_tokens(&mut self, tokens: &[Token]) -> Result<()> {
        if tokens.is_empty() {
            return Ok(());
        }
        call(|err| unsafe { sys::kt_seq_eval(self.handle, tokens.as_ptr(), tokens.len(), err) })?;
        match &self.sampler {
            Some(sampler) => accept(sampler.handle, tokens),
            None => Ok(()),
        }
    }

    /// Draws the token to come; it counts only when it is evaluated. The chain looks back at all tokens here.
    pub fn sample_token(&mut self, params: &SamplingParams) -> Result<Token> {
        let logits = unsafe { sys::kt_seq_logits(self.handle) };
        if logits.is_null() {
            return Err(refused("there are no logits: evaluate a prompt first".into()));
        }
        let sampler = self.sampler_for(params)?;
        let mut token = 0;
        call(|err| unsafe { sys::kt_sampler_sample(sampler, logits, &mut token, err) })?;
        Ok(token)
    }

    fn sampler_for(&mut self, params: &SamplingParams) -> Result<*mut sys::kt_sampler> {
        if let Some(sampler) = self.sampler.as_ref().filter(|s| s.params == *params) {
            return Ok(sampler.handle);
        }
        let (model, n_ctx) = (self.model().0.handle, self.engine.0.n_ctx);
        let mut handle = std::ptr::null_mut();
        params.with_sys(|plain| call(|err| unsafe { sys::kt_sampler_open(model, plain, n_ctx, &mut handle, err) }))??;
        let sampler = Sampler { handle, params: params.clone() };
        accept(handle, self.tokens())?;
        self.sampler = Some(sampler);
        Ok(handle)
    }

    /// The text that this token completes; bytes of a character that is not whole yet wait for the next one.
    pub fn token_to_str(&mut self, token: Token) -> Result<String> {
        self.pending.extend(self.model().token_to_bytes(token)?);
        let whole = match std::str::from_utf8(&self.pending) {
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            _ => self.pending.len(),
        };
        let rest = self.pending.split_off(whole);
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending = rest;
        Ok(text)
    }

    pub fn token_bos(&self) -> Token {
        self.model().token_bos()
    }

    pub fn token_eos(&self) -> Token {
        self.model().token_eos()
    }

    pub fn is_end(&self, token: Token) -> bool {
        self.model().is_end(token)
    }

    /// Of the token to come: n_vocab numbers.
    pub fn logits(&self) -> Option<&[f32]> {
        let logits = unsafe { sys::kt_seq_logits(self.handle) };
        if logits.is_null() {
            return None;
        }
        Some(unsafe { std::slice::from_raw_parts(logits, self.model().n_vocab()) })
    }

    pub fn tokens(&self) -> &[Token] {
        let n = unsafe { sys::kt_seq_len(self.handle) };
        if n == 0 {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(sys::kt_seq_tokens(self.handle), n) }
    }

    /// Keeps the first n_keep tokens.
    pub fn truncate(&mut self, n_keep: usize) -> Result<()> {
        self.sampler = None;
        self.pending.clear();
        call(|err| unsafe { sys::kt_seq_truncate(self.handle, n_keep, err) })
    }

    // ---- kept, and changed ----

    /// Tokens and what was computed of them, into a file; [`Context::restore`] goes on with the same bytes.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = c_string(&path.as_ref().to_string_lossy())?;
        call(|err| unsafe { sys::kt_seq_save(self.handle, path.as_ptr(), err) })
    }

    /// In place of what is here, a session that was saved with the same model and options.
    pub fn restore(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = c_string(&path.as_ref().to_string_lossy())?;
        self.sampler = None;
        self.pending.clear();
        call(|err| unsafe { sys::kt_seq_restore(self.handle, path.as_ptr(), err) })
    }

    /// What computes from now on, each with its scale (1: as it was trained); what is here is computed again.
    pub fn set_adapters(&mut self, adapters: &[(Adapter, f32)]) -> Result<()> {
        let plain: Vec<_> =
            adapters.iter().map(|(a, scale)| sys::kt_adapter_use { adapter: a.0.handle, scale: *scale }).collect();
        call(|err| unsafe { sys::kt_seq_set_adapters(self.handle, plain.as_ptr(), plain.len(), err) })?;
        self.adapters = adapters.iter().map(|(a, _)| a.clone()).collect();
        Ok(())
    }

    // ---- whole answers ----

    /// Answers a conversation through the model's template, keeping what is here of it. on_text gets the text as it
    /// comes; false ends the answer.
    pub fn chat(
        &mut self,
        messages: &[Message],
        params: &GenParams,
        mut on_text: impl FnMut(&str) -> bool,
    ) -> Result<Report> {
        let texts = messages
            .iter()
            .map(|m| Ok((c_string(&m.role)?, c_string(&m.content)?)))
            .collect::<Result<Vec<_>>>()?;
        let plain: Vec<_> =
            texts.iter().map(|(r, c)| sys::kt_message { role: r.as_ptr(), content: c.as_ptr() }).collect();
        self.run(params, &mut on_text, |request| {
            request.prompt.messages = plain.as_ptr();
            request.prompt.n_messages = plain.len();
        })
    }

    /// Goes on from the tokens here and a prompt, which may be empty.
    pub fn generate(
        &mut self,
        prompt: &[Token],
        params: &GenParams,
        mut on_text: impl FnMut(&str) -> bool,
    ) -> Result<Report> {
        self.run(params, &mut on_text, |request| {
            request.prompt.ids = prompt.as_ptr();
            request.prompt.n_ids = prompt.len();
            request.seq_append = true;
        })
    }

    fn run(
        &mut self,
        params: &GenParams,
        on_text: &mut dyn FnMut(&str) -> bool,
        fill: impl FnOnce(&mut sys::kt_request_params),
    ) -> Result<Report> {
        self.sampler = None;
        self.pending.clear();
        let (engine, seq) = (self.engine.0.handle, self.handle);
        let request = params.with_sys(|mut plain| {
            plain.seq = seq;
            fill(&mut plain);
            let _learned = params.learner.as_ref().map(|learner| learner.fill(&mut plain)).transpose()?;
            let mut handle = std::ptr::null_mut();
            call(|err| unsafe { sys::kt_engine_submit(engine, &plain, &mut handle, err) })?;
            Ok(Request(handle))
        })??;
        let mut text = String::new();
        let report = listen(&request, &mut text, on_text)?;
        Ok(Report {
            text,
            finish: text_of(unsafe { sys::kt_finish_name(report.finish) }),
            seed: report.seed,
            n_prompt: report.n_prompt,
            n_cached: report.n_cached,
            n_generated: report.n_generated,
            prefill_us: report.prefill_us,
            decode_us: report.decode_us,
            kept: params.learner.as_ref().and_then(|_| Kept::of(request.0, self.model().d_model())),
        })
    }
}

/// Until the answer is over; on_text may end it.
fn listen(
    request: &Request,
    text: &mut String,
    on_text: &mut dyn FnMut(&str) -> bool,
) -> Result<sys::kt_request_report> {
    let mut event = std::mem::MaybeUninit::<sys::kt_event>::uninit();
    while unsafe { sys::kt_request_next_event(request.0, event.as_mut_ptr(), -1) } {
        let event = unsafe { event.assume_init_ref() };
        if event.kind == sys::KT_EVENT_TOKEN && event.len > 0 {
            let bytes = unsafe { std::slice::from_raw_parts(event.text.cast::<u8>(), event.len) };
            let piece = String::from_utf8_lossy(bytes);
            text.push_str(&piece);
            if !on_text(&piece) {
                unsafe { sys::kt_request_cancel(request.0) }
            }
        } else if event.kind == sys::KT_EVENT_FINISHED {
            return match unsafe { event.error.as_ref() } {
                Some(err) => Err(error_of(err.code, err)),
                None => Ok(unsafe { *event.report }),
            };
        }
    }
    Err(refused("the answer ended without a word: its engine was stopped".into()))
}

fn accept(sampler: *mut sys::kt_sampler, tokens: &[Token]) -> Result<()> {
    for &token in tokens {
        call(|err| unsafe { sys::kt_sampler_accept(sampler, token, err) })?;
    }
    Ok(())
}
