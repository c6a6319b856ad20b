// Package kentang runs language models in this process, on CPUs, through libkentang.
//
//	model, err := kentang.Open("model.gguf", kentang.Options{})
//	defer model.Close()
//	answer, err := model.Chat(ctx, []kentang.Message{{Role: "user", Content: "Who are you?"}}, kentang.DefaultParams())
//	defer answer.Close()
//	for answer.Next() {
//		fmt.Print(answer.Text())
//	}
//	err = answer.Err()
//
// A Model may be used by any number of goroutines; an Answer by one at a time. What the parameters mean is said in
// kentang.h. The C compiler must find it and the library: through CGO_CFLAGS and CGO_LDFLAGS where they are not installed.
package kentang

// #cgo LDFLAGS: -lkentang
// #include <kentang.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"sync"
	"time"
	"unsafe"
)

// Error is what the library says of a call that failed.
type Error struct {
	Code    string // "KT_E_FORMAT"
	Message string
	Where   string        // the file, key or JSON path at fault, or ""
	Retry   time.Duration // of KT_E_BUSY: when to try again
}

func (e *Error) Error() string {
	if e.Where == "" {
		return e.Code + ": " + e.Message
	}
	return fmt.Sprintf("%s: %s (%s)", e.Code, e.Message, e.Where)
}

func errorOf(status C.kt_status, err *C.kt_error) error {
	if status == C.KT_OK {
		return nil
	}
	return &Error{
		Code:    C.GoString(C.kt_status_name(status)),
		Message: C.GoString(&err.message[0]),
		Where:   C.GoString(&err.where[0]),
		Retry:   time.Duration(err.retry_ms) * time.Millisecond,
	}
}

func stateError(message string) error {
	return &Error{Code: "KT_E_STATE", Message: message}
}

// Version is the library's.
func Version() string {
	return C.GoString(C.kt_version())
}

// Options of a model and its engine; what is 0 is chosen by the library.
type Options struct {
	Threads     int
	MemBytes    uint64
	Ctx         int // positions of an answer with its prompt; 0: the model's, at most 4096
	Batch       int
	MicroBatch  int
	Parallel    int // answers computed together
	QueueMax    int
	KVBytes     uint64
	NoMmap      bool
	LockWeights bool
}

// Model is an open model with an engine that a thread of its own drives.
type Model struct {
	mu     sync.RWMutex // writers close
	ctx    *C.kt_ctx
	model  *C.kt_model
	engine *C.kt_engine
}

// Open opens a GGUF file, or the model inside the library where path is "".
func Open(path string, options Options) (*Model, error) {
	m := &Model{}
	if err := m.open(path, options); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// checkHeader refuses a library whose header is not the one that this package was compiled with: go's build cache does
// not notice that a header outside the package has changed.
func checkHeader() error {
	if C.kt_abi() == C.kt_header_abi() {
		return nil
	}
	return stateError("libkentang " + Version() + " is of another version than the header that this package was " +
		"compiled with: go clean -cache, and build again")
}

func (m *Model) open(path string, o Options) error {
	if err := checkHeader(); err != nil {
		return err
	}
	var err C.kt_error
	cp, mp := C.kt_ctx_params_default(), C.kt_model_params_default()
	cp.n_threads, cp.mem_bytes = C.int(o.Threads), C.uint64_t(o.MemBytes)
	mp.use_mmap, mp.use_mlock = C.bool(!o.NoMmap), C.bool(o.LockWeights)
	status := C.kt_ctx_open(&cp, &m.ctx, &err)
	if status == C.KT_OK && path == "" {
		status = C.kt_model_open_demo(m.ctx, &mp, &m.model, &err)
	} else if status == C.KT_OK {
		name := C.CString(path)
		defer C.free(unsafe.Pointer(name))
		status = C.kt_model_open(m.ctx, name, &mp, &m.model, &err)
	}
	if status == C.KT_OK {
		ep := C.kt_engine_params_default()
		ep.n_ctx, ep.n_batch, ep.n_ubatch = C.int32_t(o.Ctx), C.int32_t(o.Batch), C.int32_t(o.MicroBatch)
		ep.n_parallel, ep.n_queue_max = C.int32_t(o.Parallel), C.int32_t(o.QueueMax)
		ep.kv_bytes = C.uint64_t(o.KVBytes)
		status = C.kt_engine_open(m.model, &ep, &m.engine, &err)
	}
	if status == C.KT_OK {
		status = C.kt_engine_start(m.engine, &err)
	}
	return errorOf(status, &err)
}

// Close waits for calls on the model. Answers must have been closed before.
func (m *Model) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.engine != nil {
		C.kt_engine_stop(m.engine, 0)
	}
	C.kt_engine_close(m.engine)
	C.kt_model_close(m.model)
	C.kt_ctx_close(m.ctx)
	m.engine, m.model, m.ctx = nil, nil, nil
}

// use holds the model open until the returned function is called.
func (m *Model) use() (func(), error) {
	m.mu.RLock()
	if m.engine == nil {
		m.mu.RUnlock()
		return nil, stateError("the model is closed")
	}
	return m.mu.RUnlock, nil
}

// Info is what a model's file says.
type Info struct {
	Name, Arch, Quant      string
	Params                 uint64
	Vocab, CtxTrain, Width int
	BOS, EOS               int32 // -1: none
}

// Info of an open model; zero of a closed one.
func (m *Model) Info() Info {
	done, err := m.use()
	if err != nil {
		return Info{}
	}
	defer done()
	var i C.kt_model_info
	C.kt_model_get_info(m.model, &i)
	return Info{
		Name: C.GoString(i.name), Arch: C.GoString(i.arch), Quant: C.GoString(i.quant), Params: uint64(i.n_params),
		Vocab: int(i.n_vocab), CtxTrain: int(i.n_ctx_train), Width: int(i.d_model),
		BOS: int32(i.bos_id), EOS: int32(i.eos_id),
	}
}

// Tokenize encodes text; with special, BOS and EOS come as the model's rules say, and control tokens written in the
// text are recognised.
func (m *Model) Tokenize(text string, special bool) ([]int32, error) {
	done, err := m.use()
	if err != nil {
		return nil, err
	}
	defer done()
	var flags C.unsigned
	if special {
		flags = C.KT_TOK_ADD_SPECIAL | C.KT_TOK_PARSE_SPECIAL
	}
	ctext := C.CString(text)
	defer C.free(unsafe.Pointer(ctext))
	ids := make([]int32, len(text)+16)
	for {
		var n C.size_t
		var e C.kt_error
		first := (*C.int32_t)(unsafe.Pointer(&ids[0]))
		status := C.kt_tokenize(m.model, ctext, C.size_t(len(text)), flags, first, C.size_t(len(ids)), &n, &e)
		if status == C.KT_E_LIMIT && int(n) > len(ids) {
			ids = make([]int32, n)
			continue
		}
		return ids[:n], errorOf(status, &e)
	}
}

// Detokenize decodes ids.
func (m *Model) Detokenize(ids []int32) (string, error) {
	done, err := m.use()
	if err != nil || len(ids) == 0 {
		if err == nil {
			done()
		}
		return "", err
	}
	defer done()
	text := make([]byte, 16*len(ids)+16)
	for {
		var n C.size_t
		var e C.kt_error
		first := (*C.int32_t)(unsafe.Pointer(&ids[0]))
		out := (*C.char)(unsafe.Pointer(&text[0]))
		status := C.kt_detokenize(m.model, first, C.size_t(len(ids)), 0, out, C.size_t(len(text)), &n, &e)
		if status == C.KT_E_LIMIT && int(n) > len(text) {
			text = make([]byte, n)
			continue
		}
		return string(text[:n]), errorOf(status, &e)
	}
}

// Embed returns a vector of length 1: the mean of the hidden states of text's tokens.
func (m *Model) Embed(text string) ([]float32, error) {
	ids, err := m.Tokenize(text, true)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, &Error{Code: "KT_E_ARG", Message: "the text has no tokens"}
	}
	out := make([]float32, m.Info().Width+1)
	done, err := m.use()
	if err != nil {
		return nil, err
	}
	defer done()
	var e C.kt_error
	first := (*C.int32_t)(unsafe.Pointer(&ids[0]))
	status := C.kt_embed(m.engine, first, C.size_t(len(ids)), C.KT_POOLING_MEAN, true, (*C.float)(&out[0]), &e)
	return out[:len(out)-1], errorOf(status, &e)
}
