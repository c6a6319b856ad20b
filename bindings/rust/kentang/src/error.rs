//! kt_status and kt_error as a `Result`.
use kentang_sys as sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_char;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// "KT_E_FORMAT"
    pub code: String,
    /// What happened and what to do.
    pub message: String,
    /// The file, key or JSON path at fault, or "".
    pub place: String,
    /// Of KT_E_BUSY: when to try again.
    pub retry_ms: i64,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if self.place.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.place)
    }
}

impl std::error::Error for Error {}

pub(crate) fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub(crate) fn refused(message: String) -> Error {
    Error { code: "KT_E_ARG".into(), message, place: String::new(), retry_ms: 0 }
}

pub(crate) fn error_of(status: sys::kt_status, err: &sys::kt_error) -> Error {
    Error {
        code: text_of(unsafe { sys::kt_status_name(status) }),
        message: text_of(err.message.as_ptr()),
        place: text_of(err.where_.as_ptr()),
        retry_ms: err.retry_ms,
    }
}

fn empty() -> sys::kt_error {
    unsafe { std::mem::zeroed() }
}

pub(crate) fn call(f: impl FnOnce(*mut sys::kt_error) -> sys::kt_status) -> Result<()> {
    let mut err = empty();
    match f(&mut err) {
        sys::KT_OK => Ok(()),
        status => Err(error_of(status, &err)),
    }
}

/// What a call writes, whose length it tells where the guess was too small.
pub(crate) fn sized<T: Clone + Default>(
    guess: usize,
    f: impl Fn(&mut [T], *mut usize, *mut sys::kt_error) -> sys::kt_status,
) -> Result<Vec<T>> {
    let mut out = vec![T::default(); guess];
    loop {
        let (mut n, mut err) = (0, empty());
        let status = f(&mut out, &mut n, &mut err);
        let grows = status == sys::KT_E_LIMIT && n > out.len();
        out.resize(n, T::default());
        match status {
            sys::KT_OK => return Ok(out),
            _ if grows => {}
            _ => return Err(error_of(status, &err)),
        }
    }
}
