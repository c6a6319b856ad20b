package kentang

// #include <kentang.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"unsafe"
)

// Session is a conversation that stays: its tokens, and what was computed of them, from one answer to the next and, saved,
// from one process to the next. It is used by one goroutine at a time; close it before its model.
type Session struct {
	model *Model
	seq   *C.kt_seq
	done  func()
}

// Session opens an empty one.
func (m *Model) Session() (*Session, error) {
	done, err := m.use()
	if err != nil {
		return nil, err
	}
	var e C.kt_error
	s := &Session{model: m, done: done}
	if status := C.kt_seq_open(m.engine, &s.seq, &e); status != C.KT_OK {
		done()
		return nil, errorOf(status, &e)
	}
	return s, nil
}

// Close forgets it. Its answers must have been closed before.
func (s *Session) Close() {
	if s.seq == nil {
		return
	}
	C.kt_seq_close(s.seq)
	s.seq = nil
	s.done()
}

func (s *Session) check() error {
	if s.seq == nil {
		return stateError("the session is closed")
	}
	return nil
}

// Chat answers a conversation: what the session holds of its beginning is not computed again, and what it holds otherwise
// goes.
func (s *Session) Chat(ctx context.Context, messages []Message, params Params) (*Answer, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	fill, err := fillChat(messages)
	if err != nil {
		return nil, err
	}
	return s.model.submit(ctx, params, s.seq, fill)
}

// Generate continues all that the session holds, and then prompt, which may be empty where an answer came before.
func (s *Session) Generate(ctx context.Context, prompt string, params Params) (*Answer, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return s.model.submit(ctx, params, s.seq, func(r *C.kt_request_params, a *arena) {
		r.prompt.text, r.prompt.text_len, r.seq_append = a.text(prompt), C.size_t(len(prompt)), true
		if C.kt_seq_len(s.seq) > 0 {
			r.prompt.text_flags = 0 // BOS begins a text alone
		}
	})
}

// Tokens that it holds.
func (s *Session) Tokens() []int32 {
	if s.seq == nil {
		return nil
	}
	n := int(C.kt_seq_len(s.seq))
	out := make([]int32, n)
	for i, id := range unsafe.Slice(C.kt_seq_tokens(s.seq), n) {
		out[i] = int32(id)
	}
	return out
}

// Truncate keeps the first n tokens.
func (s *Session) Truncate(n int) error {
	if err := s.check(); err != nil {
		return err
	}
	var e C.kt_error
	return errorOf(C.kt_seq_truncate(s.seq, C.size_t(n), &e), &e)
}

// Save writes it to a file that Restore takes back, whole or not at all.
func (s *Session) Save(path string) error {
	return s.withFile(path, func(name *C.char, e *C.kt_error) C.kt_status { return C.kt_seq_save(s.seq, name, e) })
}

// Restore replaces what it holds by what was saved with the same model: it continues with the same bytes.
func (s *Session) Restore(path string) error {
	return s.withFile(path, func(name *C.char, e *C.kt_error) C.kt_status { return C.kt_seq_restore(s.seq, name, e) })
}

func (s *Session) withFile(path string, call func(*C.char, *C.kt_error) C.kt_status) error {
	if err := s.check(); err != nil {
		return err
	}
	var e C.kt_error
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return errorOf(call(name, &e), &e)
}
