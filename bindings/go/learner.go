package kentang

// #include <kentang.h>
// #include <stdlib.h>
import "C"

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"unsafe"
)

// Learner keeps what was said of answers in a folder: a correction holds from the next answer on that is made with it
// (Params.Learner). Any number of goroutines may use it; close it before its model.
type Learner struct {
	model   *Model
	learner *C.kt_learner
	done    func()
	// NoNotes: corrections are recalled where a question is asked again, and do not enter prompts as notes. For models
	// that take notes for what they are not: see `kentang learn probe`.
	NoNotes bool
}

// Learner opens a folder, which is made where it is not there; one process at a time learns in it.
func (m *Model) Learner(dir string) (*Learner, error) {
	done, err := m.use()
	if err != nil {
		return nil, err
	}
	var a arena
	defer a.free()
	var e C.kt_error
	l := &Learner{model: m, done: done}
	params := C.kt_learner_params{dir: a.text(dir)}
	if status := C.kt_learner_open(m.engine, &params, &l.learner, &e); status != C.KT_OK {
		done()
		return nil, errorOf(status, &e)
	}
	return l, nil
}

// Close it; what was said is on disk.
func (l *Learner) Close() {
	if l.learner == nil {
		return
	}
	C.kt_learner_close(l.learner)
	l.learner = nil
	l.done()
}

// Forget takes a feedback back: no byte of it stays on disk.
func (l *Learner) Forget(id uint64) error {
	if l.learner == nil {
		return stateError("the learner is closed")
	}
	var e C.kt_error
	return errorOf(C.kt_learner_forget(l.learner, C.uint64_t(id), &e), &e)
}

// fill has an answer made with what was learned; the returned function is called once it is submitted.
func (l *Learner) fill(r *C.kt_request_params, a *arena) (func(), error) {
	if l.learner == nil {
		return nil, stateError("the learner is closed")
	}
	var e C.kt_error
	var learned C.kt_learned
	if status := C.kt_learner_get(l.learner, C.KT_VERSION_SERVED, &learned, &e); status != C.KT_OK {
		return nil, errorOf(status, &e)
	}
	done := func() { C.kt_learned_close(&learned) }
	r.corrections.recall, r.corrections.bank, r.corrections.keep = learned.recall, learned.bank, true
	if l.NoNotes {
		r.corrections.note_tokens = -1
	}
	uses := (*C.kt_adapter_use)(a.keep(C.calloc(C.KT_LEARNED_ADAPTERS, C.sizeof_kt_adapter_use)))
	n := C.kt_learned_adapters(&learned, r, uses)
	if n == 0 {
		return done, nil
	}
	if r.seq != nil {
		return done, errorOf(C.kt_seq_set_adapters(r.seq, uses, n, &e), &e)
	}
	r.adapters, r.n_adapters = uses, n
	return done, nil
}

// Correct says what the answer, which is over and not closed, should have been. The id is for Forget.
func (a *Answer) Correct(text string) (uint64, error) { return a.say(0, &text) }

// Rate says how good the answer is, from 0 to 1.
func (a *Answer) Rate(score float32) (uint64, error) { return a.say(score, nil) }

// nameOf is the same for the same answer to the same prompt: the last word on it counts.
func nameOf(kept *C.kt_kept) string {
	h := fnv.New64a()
	for _, ids := range [][]C.int32_t{unsafe.Slice(kept.prompt, kept.n_prompt), unsafe.Slice(kept.answer, kept.n_answer)} {
		for _, id := range ids {
			h.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
		}
	}
	return fmt.Sprintf("go-%016x", h.Sum64())
}

func (a *Answer) say(score float32, correction *string) (uint64, error) {
	if a.learner == nil || a.learner.learner == nil || a.req == nil {
		return 0, stateError("the answer was made without a learner, or one of the two is closed")
	}
	var memory arena
	defer memory.free()
	kept := (*C.kt_kept)(memory.keep(C.calloc(1, C.sizeof_kt_kept)))
	if a.report == nil || !bool(C.kt_request_get_kept(a.req, 0, kept)) {
		return 0, stateError("the answer is not over")
	}
	params := (*C.kt_feedback_params)(memory.keep(C.calloc(1, C.sizeof_kt_feedback_params)))
	params.kept, params.score = kept, C.float(score)
	params.about = memory.text(nameOf(kept))
	if correction != nil {
		params.correction, params.n_correction = memory.text(*correction), C.size_t(len(*correction))
	}
	var result C.kt_feedback_result
	var e C.kt_error
	status := C.kt_feedback(a.learner.learner, params, &result, &e)
	return uint64(result.id), errorOf(status, &e)
}
