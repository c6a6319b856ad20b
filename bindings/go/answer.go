package kentang

// #include <kentang.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"encoding/json"
	"time"
	"unsafe"
)

// Message of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Params of an answer; begin with DefaultParams.
type Params struct {
	Seed             uint64  // SeedRandom: drawn from the system
	Temperature      float32 // 0: always the most probable token
	TopK             int
	TopP             float32
	MinP             float32
	TypicalP         float32
	RepeatLastN      int
	RepeatPenalty    float32
	FrequencyPenalty float32
	PresencePenalty  float32
	DryMultiplier    float32
	Mirostat         int
	MirostatTau      float32
	MirostatEta      float32
	Predict          int // tokens at most; -1: until the end of the turn or of the context
	Stop             []string
	IgnoreEOG        bool
	Priority         int
	Learner          *Learner // what it was taught counts, and the answer can be corrected; nil: nothing is learned
}

// SeedRandom as Params.Seed.
const SeedRandom = ^uint64(0)

// DefaultParams are those of `kentang run`.
func DefaultParams() Params {
	g := C.kt_gen_params_default()
	s := g.sampling
	return Params{
		Seed: uint64(s.seed), Temperature: float32(s.temperature), TopK: int(s.top_k), TopP: float32(s.top_p),
		MinP: float32(s.min_p), TypicalP: float32(s.typical_p), RepeatLastN: int(s.repeat_last_n),
		RepeatPenalty: float32(s.repeat_penalty), FrequencyPenalty: float32(s.frequency_penalty),
		PresencePenalty: float32(s.presence_penalty), DryMultiplier: float32(s.dry_multiplier),
		Mirostat: int(s.mirostat), MirostatTau: float32(s.mirostat_tau), MirostatEta: float32(s.mirostat_eta),
		Predict: int(g.n_predict),
	}
}

// arena holds what C may point to during a call.
type arena struct{ blocks []unsafe.Pointer }

func (a *arena) keep(block unsafe.Pointer) unsafe.Pointer {
	a.blocks = append(a.blocks, block)
	return block
}

func (a *arena) text(s string) *C.char {
	return (*C.char)(a.keep(unsafe.Pointer(C.CString(s))))
}

func (a *arena) free() {
	for _, block := range a.blocks {
		C.free(block)
	}
}

func (p *Params) fill(r *C.kt_request_params, a *arena) {
	s := &r.gen.sampling
	s.seed, s.temperature, s.top_k = C.uint64_t(p.Seed), C.float(p.Temperature), C.int32_t(p.TopK)
	s.top_p, s.min_p, s.typical_p = C.float(p.TopP), C.float(p.MinP), C.float(p.TypicalP)
	s.repeat_last_n, s.repeat_penalty = C.int32_t(p.RepeatLastN), C.float(p.RepeatPenalty)
	s.frequency_penalty, s.presence_penalty = C.float(p.FrequencyPenalty), C.float(p.PresencePenalty)
	s.dry_multiplier = C.float(p.DryMultiplier)
	s.mirostat, s.mirostat_tau, s.mirostat_eta = C.int32_t(p.Mirostat), C.float(p.MirostatTau), C.float(p.MirostatEta)
	r.gen.n_predict, r.gen.ignore_eog = C.int32_t(p.Predict), C.bool(p.IgnoreEOG)
	r.service.priority = C.int32_t(p.Priority)
	if n := len(p.Stop); n > 0 {
		stop := (**C.char)(a.keep(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(uintptr(0))))))
		for i, text := range p.Stop {
			unsafe.Slice(stop, n)[i] = a.text(text)
		}
		r.gen.stop, r.gen.n_stop = stop, C.size_t(n)
	}
}

// Report is the account of an answer.
type Report struct {
	Finish                    string // "eog", "stop", "length", "context", "cancelled", ...
	Seed                      uint64 // repeats the answer
	Prompt, Cached, Generated int    // tokens
	Prefill, Decode, Total    time.Duration
}

// Answer is on its way: Next waits for more of it.
type Answer struct {
	model  *Model
	req    *C.kt_request
	done   func()
	ended  chan struct{}
	idle   chan struct{}
	text   string
	tokens []int32
	err    error
	report *Report

	learner *Learner
}

// Chat answers a conversation through the model's template. When ctx ends, so does the answer.
func (m *Model) Chat(ctx context.Context, messages []Message, params Params) (*Answer, error) {
	fill, err := fillChat(messages)
	if err != nil {
		return nil, err
	}
	return m.submit(ctx, params, nil, fill)
}

func fillChat(messages []Message) (func(*C.kt_request_params, *arena), error) {
	data, err := json.Marshal(messages)
	return func(r *C.kt_request_params, a *arena) {
		r.prompt.chat_json, r.prompt.chat_json_len = a.text(string(data)), C.size_t(len(data))
	}, err
}

// Generate continues a text as it is.
func (m *Model) Generate(ctx context.Context, prompt string, params Params) (*Answer, error) {
	return m.submit(ctx, params, nil, func(r *C.kt_request_params, a *arena) {
		r.prompt.text, r.prompt.text_len = a.text(prompt), C.size_t(len(prompt))
	})
}

// GenerateFrom continues token ids.
func (m *Model) GenerateFrom(ctx context.Context, ids []int32, params Params) (*Answer, error) {
	return m.submit(ctx, params, nil, func(r *C.kt_request_params, a *arena) {
		block := (*C.int32_t)(a.keep(C.calloc(C.size_t(len(ids)+1), 4)))
		for i, id := range ids {
			unsafe.Slice(block, len(ids)+1)[i] = C.int32_t(id)
		}
		r.prompt.ids, r.prompt.n_ids = block, C.size_t(len(ids))
	})
}

// seq: of the session that the answer continues, or nil
func (m *Model) submit(ctx context.Context, p Params, seq *C.kt_seq, prompt func(*C.kt_request_params, *arena)) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done, err := m.use()
	if err != nil {
		return nil, err
	}
	var e C.kt_error
	var a arena
	defer a.free()
	r := C.kt_request_params_default()
	r.seq = seq
	prompt(&r, &a)
	p.fill(&r, &a)
	if p.Learner != nil {
		learned, err := p.Learner.fill(&r, &a)
		if learned != nil {
			defer learned()
		}
		if err != nil {
			done()
			return nil, err
		}
	}
	answer := &Answer{model: m, done: done, ended: make(chan struct{}), idle: make(chan struct{}), learner: p.Learner}
	if status := C.kt_engine_submit(m.engine, &r, &answer.req, &e); status != C.KT_OK {
		done()
		return nil, errorOf(status, &e)
	}
	go answer.watch(ctx)
	return answer, nil
}

func (a *Answer) watch(ctx context.Context) {
	defer close(a.idle)
	select {
	case <-ctx.Done():
		C.kt_request_cancel(a.req)
	case <-a.ended:
	}
}

// Next waits for more text; false: the answer is over, see Err.
func (a *Answer) Next() bool {
	var event C.kt_event
	for a.req != nil && a.report == nil && bool(C.kt_request_next_event(a.req, &event, -1)) {
		if event.kind == C.KT_EVENT_TOKEN && event.id >= 0 {
			a.tokens = append(a.tokens, int32(event.id))
		}
		if event.kind == C.KT_EVENT_TOKEN && event.len > 0 {
			a.text = C.GoStringN(event.text, C.int(event.len))
			return true
		}
		if event.kind == C.KT_EVENT_FINISHED {
			a.end(&event)
		}
	}
	a.text = ""
	return false
}

func (a *Answer) end(event *C.kt_event) {
	if event.error != nil {
		a.err = errorOf(event.error.code, event.error)
	}
	us := func(n C.int64_t) time.Duration { return time.Duration(n) * time.Microsecond }
	r := event.report
	a.report = &Report{
		Finish: C.GoString(C.kt_finish_name(event.finish)), Seed: uint64(r.seed), Prompt: int(r.n_prompt),
		Cached: int(r.n_cached), Generated: int(r.n_generated), Prefill: us(r.prefill_us), Decode: us(r.decode_us),
		Total: us(r.total_us),
	}
}

// Text that came with the last Next.
func (a *Answer) Text() string { return a.text }

// Tokens that have come until now.
func (a *Answer) Tokens() []int32 { return a.tokens }

// Err says why the answer failed; nil: it did not.
func (a *Answer) Err() error { return a.err }

// Report of an answer that is over, else nil.
func (a *Answer) Report() *Report { return a.report }

// All waits for the whole text.
func (a *Answer) All() (string, error) {
	text := ""
	for a.Next() {
		text += a.Text()
	}
	return text, a.Err()
}

// Close ends the answer where it still runs.
func (a *Answer) Close() {
	if a.req == nil {
		return
	}
	close(a.ended)
	<-a.idle
	C.kt_request_close(a.req)
	a.req = nil
	a.done()
}
