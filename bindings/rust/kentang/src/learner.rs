//! What was said of answers, and holds from the next one on.
use crate::error::{call, refused, Result};
use crate::params::c_string;
use crate::{Engine, Report};
use kentang_sys as sys;
use std::path::Path;
use std::sync::Arc;

struct OpenLearner {
    handle: *mut sys::kt_learner,
    _engine: Engine,
}

// kentang.h: every call on a learner, from any thread.
unsafe impl Send for OpenLearner {}
unsafe impl Sync for OpenLearner {}

impl Drop for OpenLearner {
    fn drop(&mut self) {
        unsafe { sys::kt_learner_close(self.handle) }
    }
}

/// A folder of corrections and scores, of one user or group; cheap to clone. Answers are made with it that name it in
/// [`GenParams`](crate::GenParams).
#[derive(Clone)]
pub struct Learner(Arc<OpenLearner>);

impl std::fmt::Debug for Learner {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Learner")
    }
}

/// An answer's tokens and the keys of the states that they were drawn from.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    prompt: Vec<i32>,
    answer: Vec<i32>,
    keys: Vec<i8>,
    n_keys: usize,
    n_recalled: i32,
    question: Option<Vec<u8>>,
}

fn copy<T: Clone>(from: *const T, n: usize) -> Vec<T> {
    if n == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(from, n) }.to_vec() }
}

impl Kept {
    /// Of a request that is over; None: it keeps nothing.
    pub(crate) fn of(request: *const sys::kt_request, d_model: usize) -> Option<Kept> {
        let mut kept = std::mem::MaybeUninit::<sys::kt_kept>::uninit();
        if !unsafe { sys::kt_request_get_kept(request, 0, kept.as_mut_ptr()) } {
            return None;
        }
        let kept = unsafe { kept.assume_init() };
        Some(Kept {
            prompt: copy(kept.prompt, kept.n_prompt),
            answer: copy(kept.answer, kept.n_answer),
            keys: if kept.keys.is_null() { Vec::new() } else { copy(kept.keys, kept.n_keys * d_model) },
            n_keys: if kept.keys.is_null() { 0 } else { kept.n_keys },
            n_recalled: kept.n_recalled,
            question: (!kept.question.is_null()).then(|| copy(kept.question.cast(), kept.n_question)),
        })
    }

    fn as_sys(&self) -> sys::kt_kept {
        sys::kt_kept {
            prompt: self.prompt.as_ptr(),
            n_prompt: self.prompt.len(),
            answer: self.answer.as_ptr(),
            n_answer: self.answer.len(),
            keys: if self.n_keys == 0 { std::ptr::null() } else { self.keys.as_ptr() },
            n_keys: self.n_keys,
            n_recalled: self.n_recalled,
            question: self.question.as_ref().map_or(std::ptr::null(), |q| q.as_ptr().cast()),
            n_question: self.question.as_ref().map_or(0, |q| q.len()),
        }
    }

    /// The same for the same answer to the same prompt (FNV-1a): the last word on it counts.
    fn name(&self) -> String {
        let ids = self.prompt.iter().chain(&self.answer);
        let bytes = ids.flat_map(|id| (*id as u32).to_le_bytes());
        let hash = bytes.fold(0xcbf29ce484222325u64, |h, b| (h ^ b as u64).wrapping_mul(0x100000001b3));
        format!("rust-{hash:016x}")
    }
}

/// One version of what was learned, held while a request is submitted, which then holds it itself.
pub(crate) struct Learned {
    plain: sys::kt_learned,
}

impl Drop for Learned {
    fn drop(&mut self) {
        unsafe { sys::kt_learned_close(&mut self.plain) }
    }
}

impl Learner {
    pub(crate) fn open(engine: Engine, dir: &Path) -> Result<Learner> {
        let dir = c_string(&dir.to_string_lossy())?;
        let mut params: sys::kt_learner_params = unsafe { std::mem::zeroed() };
        params.dir = dir.as_ptr();
        let mut handle = std::ptr::null_mut();
        call(|err| unsafe { sys::kt_learner_open(engine.0.handle, &params, &mut handle, err) })?;
        Ok(Learner(Arc::new(OpenLearner { handle, _engine: engine })))
    }

    pub(crate) fn fill(&self, request: &mut sys::kt_request_params) -> Result<Learned> {
        let mut plain: sys::kt_learned = unsafe { std::mem::zeroed() };
        call(|err| unsafe { sys::kt_learner_get(self.0.handle, sys::KT_VERSION_SERVED, &mut plain, err) })?;
        request.corrections.recall = plain.recall;
        request.corrections.bank = plain.bank;
        request.corrections.keep = true;
        let mut uses: [sys::kt_adapter_use; 2] = unsafe { std::mem::zeroed() }; // KT_LEARNED_ADAPTERS
        let n = unsafe { sys::kt_learned_adapters(&plain, request, uses.as_mut_ptr()) };
        let learned = Learned { plain };
        if n > 0 {
            call(|err| unsafe { sys::kt_seq_set_adapters(request.seq, uses.as_ptr(), n, err) })?;
        }
        Ok(learned)
    }

    fn say(&self, answer: &Report, score: f32, correction: Option<&str>) -> Result<u64> {
        let kept = answer.kept.as_ref().ok_or_else(|| refused("the answer was made without a learner".into()))?;
        let about = c_string(&kept.name())?;
        let plain = kept.as_sys();
        let params = sys::kt_feedback_params {
            kept: &plain,
            about: about.as_ptr(),
            score,
            correction: correction.map_or(std::ptr::null(), |c| c.as_ptr().cast()),
            n_correction: correction.map_or(0, |c| c.len()),
        };
        let mut result: sys::kt_feedback_result = unsafe { std::mem::zeroed() };
        call(|err| unsafe { sys::kt_feedback(self.0.handle, &params, &mut result, err) })?;
        Ok(result.id)
    }

    /// Says what the answer should have been; it is on disk when this returns. The id is for [`Learner::forget`].
    pub fn correct(&self, answer: &Report, text: &str) -> Result<u64> {
        self.say(answer, 0.0, Some(text))
    }

    /// How good the answer is, from 0 to 1.
    pub fn rate(&self, answer: &Report, score: f32) -> Result<u64> {
        self.say(answer, score, None)
    }

    /// Takes it back: no byte of it stays on disk.
    pub fn forget(&self, id: u64) -> Result<()> {
        call(|err| unsafe { sys::kt_learner_forget(self.0.handle, id, err) })
    }
}
