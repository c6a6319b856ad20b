"""Language models in this process, through the shared library libkentang. Standard library only.

    import kentang
    with kentang.Context() as ctx, ctx.open("model.gguf") as model, model.engine() as engine:
        with engine.sequence() as seq:
            for piece in seq.stream("Who are you?", temperature=0):
                print(piece, end="", flush=True)

A Context outlives its Models, a Model its Engines, an Engine its Sequences; each closes with its `with`, by close(),
or when it is collected, and keeps what it lives in alive. A Sequence and a Sampler belong to one thread at a time,
all else may be used from any. Errors are kentang.Error. What the calls mean is said in kentang.h."""
import array
import ctypes
import json
import queue
import threading
from ctypes import byref

from . import _native as n

__all__ = ["Context", "Model", "Engine", "Sequence", "Sampler", "Report", "Error", "version"]

_lib = n.load()


class Error(Exception):
    """code: "KT_E_FORMAT"; where: the file, key or JSON path at fault, or ""; retry_ms: of KT_E_BUSY."""

    def __init__(self, code, message, where="", retry_ms=0):
        super().__init__(f"{code}: {message}" + (f" ({where})" if where else ""))
        self.code, self.message, self.where, self.retry_ms = code, message, where, retry_ms


def version():
    return _lib.kt_version().decode()


def _raise(status, err):
    raise Error(_lib.kt_status_name(status).decode(), err.message.decode("utf-8", "replace"),
                err.where.decode("utf-8", "replace"), err.retry_ms)


def _call(call, *arguments):
    err = n.kt_error()
    status = call(*arguments, byref(err))
    if status != n.OK:
        _raise(status, err)


def _opened(call, *arguments):
    handle = ctypes.c_void_p()
    _call(call, *arguments, byref(handle))
    return handle


def _fill(params, options):
    for name, value in options.items():
        if name not in (field[0] for field in params._fields_):
            raise TypeError(f"{type(params).__name__} has no member {name}")
        setattr(params, name, value.encode() if isinstance(value, str) else value)
    return params


def _ids(ids):
    return (ctypes.c_int32 * len(ids))(*ids)


def _sized(kind, guess, call, *arguments):
    """What a call writes, whose length it tells where the guess was too small."""
    size = ctypes.c_size_t(guess)
    while True:
        out, err = (kind * size.value)(), n.kt_error()
        pointer = ctypes.cast(out, ctypes.POINTER(kind))
        status = call(*arguments, pointer, len(out), byref(size), byref(err))
        if status == n.OK:
            return out[:size.value]
        if status != n.E_LIMIT or size.value <= len(out):
            _raise(status, err)


class _Object:
    """A handle that is closed once, after those that live in it."""

    def __init__(self, handle, close, parent=None):
        self._handle, self._close, self._parent = handle, close, parent
        self._children = 0
        if parent is not None:
            parent._children += 1

    def close(self):
        if self._handle is None:
            return
        if self._children:
            raise Error("KT_E_STATE", f"{type(self).__name__} is in use: close first what was opened in it")
        handle, self._handle = self._handle, None
        self._close(handle)
        if self._parent is not None:
            self._parent._children -= 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None) is not None and not self._children:
            self.close()

    @property
    def _use(self):
        if self._handle is None:
            raise Error("KT_E_STATE", f"{type(self).__name__} is closed")
        return self._handle


class Context(_Object):
    """Threads, kernels and the memory budget. Options are the members of kt_ctx_params: isa, n_threads, mem_bytes."""

    def __init__(self, **options):
        params = _fill(_lib.kt_ctx_params_default(), options)
        super().__init__(_opened(_lib.kt_ctx_open, byref(params)), _lib.kt_ctx_close)

    @property
    def isa(self):
        return _lib.kt_ctx_isa(self._use).decode()

    @property
    def n_threads(self):
        return _lib.kt_ctx_n_threads(self._use)

    def open(self, path=None, **options):
        """A Model: of a GGUF file, or the one inside the library. Options: members of kt_model_params."""
        params = _fill(_lib.kt_model_params_default(), options)
        if path is None:
            return Model(_opened(_lib.kt_model_open_demo, self._use, byref(params)), _lib.kt_model_close, self)
        return Model(_opened(_lib.kt_model_open, self._use, str(path).encode(), byref(params)), _lib.kt_model_close, self)


class Model(_Object):
    @property
    def info(self):
        """kt_model_info as a dict."""
        info = n.kt_model_info()
        _lib.kt_model_get_info(self._use, byref(info))
        values = {name: getattr(info, name) for name, _ in info._fields_}
        return {name: v.decode("utf-8", "replace") if isinstance(v, bytes) else v for name, v in values.items()}

    def tokenize(self, text, add_special=False, parse_special=False):
        data = text.encode()
        flags = add_special * n.TOK_ADD_SPECIAL | parse_special * n.TOK_PARSE_SPECIAL
        return _sized(ctypes.c_int32, len(data) + 16, _lib.kt_tokenize, self._use, data, len(data), flags)

    def detokenize(self, ids, render_special=False):
        flags = render_special * n.TOK_RENDER_SPECIAL
        guess = 16 * len(ids) + 16
        text = _sized(ctypes.c_char, guess, _lib.kt_detokenize, self._use, _ids(ids), len(ids), flags)
        return text.decode("utf-8", "replace")

    def is_eog(self, token):
        return _lib.kt_token_is_eog(self._use, token)

    def render(self, json_text):
        """The prompt that the chat template makes of messages in JSON."""
        out, size, data = ctypes.c_void_p(), ctypes.c_size_t(), json_text.encode()
        _call(_lib.kt_chat_render_json, self._use, data, len(data), byref(out), byref(size))
        try:
            return ctypes.string_at(out, size.value).decode("utf-8", "replace")
        finally:
            _lib.kt_free(out)

    def engine(self, **options):
        """An Engine. Options: members of kt_engine_params, as n_ctx=4096."""
        params = _fill(_lib.kt_engine_params_default(), options)
        return Engine(_opened(_lib.kt_engine_open, self._use, byref(params)), _lib.kt_engine_close, self)

    def sampler(self, n_ctx=4096, **options):
        """A Sampler. Options: members of kt_sampling, as temperature=0.7, seed=1."""
        sampling = _gen_params(options).sampling
        return Sampler(_opened(_lib.kt_sampler_open, self._use, byref(sampling), n_ctx), _lib.kt_sampler_close, self)


class Engine(_Object):
    @property
    def model(self):
        return self._parent

    def sequence(self):
        return Sequence(_opened(_lib.kt_seq_open, self._use), _lib.kt_seq_close, self)

    def call(self, request, on_event=None):
        """kt_call_json: a request as a dict, its events as a list of dicts; on_event(event) gets them as they come."""
        events, raised, data = [], [], json.dumps(request).encode()

        def hear(_, text, length):
            try:
                events.append(json.loads(text[:length]))
                return on_event is None or on_event(events[-1]) is not False
            except BaseException as exception:  # goes on where the call returns
                raised.append(exception)
                return False

        err = n.kt_error()
        status = _lib.kt_call_json(self._use, data, len(data), n.json_fn(hear), None, byref(err))
        if raised:
            raise raised[0]
        if status != n.OK:
            _raise(status, err)
        return events

    def embed(self, text, pooling="mean", normalize=True):
        """An array of floats, of a text or of token ids."""
        ids = self.model.tokenize(text, add_special=True) if isinstance(text, str) else text
        out = (ctypes.c_float * self.model.info["d_model"])()
        _call(_lib.kt_embed, self._use, _ids(ids), len(ids), n.POOLING[pooling], normalize, out)
        return array.array("f", out)


class Report(dict):
    """kt_request_report: its members as attributes and keys; finish is a name, "eog", and text the whole answer."""

    __getattr__ = dict.__getitem__

    @classmethod
    def _of(cls, report, text):
        values = {name: getattr(report, name) for name, _ in report._fields_ if name != "miss"}
        values["finish"] = _lib.kt_finish_name(report.finish).decode()
        values["bottleneck"] = (report.bottleneck or b"").decode()
        return cls(values, text=text)


def _gen_params(options):
    params = _lib.kt_gen_params_default()
    stop = options.pop("stop", [])
    stop = [stop] if isinstance(stop, str) else stop
    if stop:
        params.stop, params.n_stop = (ctypes.c_char_p * len(stop))(*[s.encode() for s in stop]), len(stop)
    bias = options.pop("logit_bias", {})
    if bias:
        params.sampling.logit_bias = (n.kt_logit_bias * len(bias))(*bias.items())
        params.sampling.n_logit_bias = len(bias)
    breakers = options.pop("dry_breakers", None)
    if breakers is not None:
        params.sampling.dry_breakers = (ctypes.c_char_p * (len(breakers) + 1))(*[s.encode() for s in breakers])
        params.sampling.n_dry_breakers = len(breakers)
    own = {field[0] for field in params._fields_} - {"sampling"}
    _fill(params, {name: value for name, value in options.items() if name in own})
    _fill(params.sampling, {name: value for name, value in options.items() if name not in own})
    return params


def _messages(messages):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    pairs = [(m["role"].encode(), m["content"].encode()) for m in messages]
    return (n.kt_message * len(pairs))(*pairs), len(pairs)


class Sequence(_Object):
    """Tokens and what was computed of them. Options of its answers are the members of kt_gen_params and kt_sampling:
    n_predict, stop, temperature, top_k, top_p, min_p, seed ..."""

    def __len__(self):
        return _lib.kt_seq_len(self._use)

    @property
    def tokens(self):
        return _lib.kt_seq_tokens(self._use)[:len(self)]

    @property
    def logits(self):
        """Of the token to come, as a ctypes pointer to n_vocab floats, valid until the next call; None: there are none."""
        return _lib.kt_seq_logits(self._use) or None

    def eval(self, ids):
        _call(_lib.kt_seq_eval, self._use, _ids(ids), len(ids))

    def truncate(self, n_keep):
        _call(_lib.kt_seq_truncate, self._use, n_keep)

    def copy(self):
        return Sequence(_opened(_lib.kt_seq_copy, self._use), _lib.kt_seq_close, self._parent)

    def save(self, path):
        _call(_lib.kt_seq_save, self._use, str(path).encode())

    def restore(self, path):
        _call(_lib.kt_seq_restore, self._use, str(path).encode())

    def chat(self, messages, on_text=None, **options):
        """Answers a conversation, a text or [{"role": ..., "content": ...}, ...]: a Report. on_text(piece) gets the text
        as it comes; where it returns False the answer ends."""
        return self._run(_lib.kt_chat, *_messages(messages), on_text, options)

    def generate(self, prompt, on_text=None, **options):
        """Goes on from what the sequence holds and a prompt, a text or token ids: a Report."""
        if isinstance(prompt, str):
            prompt = self._parent.model.tokenize(prompt, add_special=len(self) == 0)
        return self._run(_lib.kt_generate, _ids(prompt), len(prompt), on_text, options)

    def stream(self, messages, **options):
        """chat() as an iterator over the pieces of text. Leaving the loop ends the answer."""
        return _stream(self.chat, messages, options)

    def stream_text(self, prompt, **options):
        """generate() as such an iterator."""
        return _stream(self.generate, prompt, options)

    def _run(self, call, what, size, on_text, options):
        params, report = _gen_params(dict(options)), n.kt_request_report()
        pieces, raised = [], []

        def hear(_, text, length, __):
            try:
                pieces.append(text[:length].decode())
                return on_text is None or on_text(pieces[-1]) is not False
            except BaseException as exception:  # goes on where the call returns
                raised.append(exception)
                return False

        err = n.kt_error()
        status = call(self._use, what, size, byref(params), n.text_fn(hear), None, byref(report), byref(err))
        if raised:
            raise raised[0]
        if status != n.OK:
            _raise(status, err)
        return Report._of(report, "".join(pieces))


def _stream(answer, prompt, options):
    """A thread computes; what it says waits in a short queue, so a slow reader holds the answer up."""
    pieces, left, end = queue.Queue(64), threading.Event(), object()

    def put(item):
        while not left.is_set():
            try:
                return pieces.put(item, timeout=0.1)
            except queue.Full:
                pass
        return False

    def work():
        try:
            answer(prompt, put, **options)
            put(end)
        except BaseException as exception:
            put(exception)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (piece := pieces.get()) is not end:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        left.set()
        thread.join()


class Sampler(_Object):
    """Draws tokens from logits: accept() every token of the prompt and of the answer, in order."""

    def accept(self, *ids):
        for token in ids:
            _call(_lib.kt_sampler_accept, self._use, token)

    def sample(self, logits):
        """From Sequence.logits, or any n_vocab floats."""
        token = ctypes.c_int32()
        if not isinstance(logits, ctypes.POINTER(ctypes.c_float)):
            size = self._parent.info["n_vocab"]
            if len(logits) != size:
                raise Error("KT_E_ARG", f"{len(logits)} logits, expected {size}")
            logits = (ctypes.c_float * size)(*logits)
        _call(_lib.kt_sampler_sample, self._use, logits, byref(token))
        return token.value

    def reset(self):
        _lib.kt_sampler_reset(self._use)

    @property
    def seed(self):
        return _lib.kt_sampler_seed(self._use)
