package kentang

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// What `kentang` itself answers: tests/bindings/run.sh writes it.
var expected struct {
	N                      int
	Question, Answer, Text string
	PromptIDs              []int32 `json:"prompt_ids"`
	IDs                    []int32
}

var model *Model

func TestMain(m *testing.M) {
	data, err := os.ReadFile(os.Getenv("KENTANG_EXPECTED"))
	if err == nil {
		err = json.Unmarshal(data, &expected)
	}
	if err == nil {
		model, err = Open("", Options{Ctx: 512, Threads: 2})
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	model.Close()
	os.Exit(code)
}

func greedy() Params {
	p := DefaultParams()
	p.Temperature, p.Predict = 0, expected.N
	return p
}

func question() []Message {
	return []Message{{Role: "user", Content: expected.Question}}
}

func chat(t *testing.T, ctx context.Context, p Params) *Answer {
	t.Helper()
	answer, err := model.Chat(ctx, question(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(answer.Close)
	return answer
}

func TestChatSaysWhatKentangRunSays(t *testing.T) {
	answer := chat(t, context.Background(), greedy())
	heard := ""
	for answer.Next() {
		heard += answer.Text()
	}
	if answer.Err() != nil || heard != expected.Answer {
		t.Fatalf("%q, %v", heard, answer.Err())
	}
	if r := answer.Report(); r.Finish != "length" || r.Generated != expected.N {
		t.Fatalf("%+v", r)
	}
}

func TestTokensAreThoseOfKentangGreedy(t *testing.T) {
	ids, err := model.Tokenize(expected.Text, false)
	if err != nil || !reflect.DeepEqual(ids, expected.PromptIDs) {
		t.Fatal(ids, err)
	}
	p := greedy()
	p.IgnoreEOG = true
	answer, err := model.GenerateFrom(context.Background(), ids, p)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	if _, err := answer.All(); err != nil || !reflect.DeepEqual(answer.Tokens(), expected.IDs) {
		t.Fatal(answer.Tokens(), err)
	}
	if text, err := model.Detokenize(ids); err != nil || strings.TrimSpace(text) != expected.Text {
		t.Fatalf("%q, %v", text, err)
	}
}

func TestGoroutines(t *testing.T) {
	var wait sync.WaitGroup
	for i := 0; i < 6; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			answer, err := model.Chat(context.Background(), question(), greedy())
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Close()
			if text, err := answer.All(); err != nil || text != expected.Answer {
				t.Errorf("%q, %v", text, err)
			}
		}()
	}
	wait.Wait()
}

func TestCancelAndStop(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p := DefaultParams()
	p.Predict, p.IgnoreEOG = 400, true
	answer := chat(t, ctx, p)
	if !answer.Next() {
		t.Fatal(answer.Err())
	}
	cancel()
	if _, err := answer.All(); err != nil || answer.Report().Finish != "cancelled" {
		t.Fatal(answer.Report(), err)
	}
	if _, err := model.Chat(ctx, question(), p); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	chat(t, context.Background(), p).Close() // in the midst of it
	p = greedy()
	p.Stop = []string{"demo"}
	text, err := chat(t, context.Background(), p).All()
	if err != nil || !strings.HasPrefix(expected.Answer, text+"demo") {
		t.Fatalf("%q, %v", text, err)
	}
}

func TestEmbeddings(t *testing.T) {
	one, err := model.Embed("a cat")
	if err != nil || len(one) != model.Info().Width {
		t.Fatal(len(one), err)
	}
	sum := 0.0
	for _, x := range one {
		sum += float64(x) * float64(x)
	}
	again, _ := model.Embed("a cat")
	if math.Abs(sum-1) > 1e-4 || !reflect.DeepEqual(one, again) {
		t.Fatal(sum)
	}
}

func TestErrors(t *testing.T) {
	expect := func(err error, code, words string) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, expected %s with %q", err, code, words)
		}
	}
	_, err := Open("/no/such/model.gguf", Options{})
	expect(err, "KT_E_IO", "/no/such/model.gguf")
	p := DefaultParams()
	p.TopP = 7
	_, err = model.Chat(context.Background(), question(), p)
	expect(err, "KT_E_ARG", "top_p")
	_, err = model.GenerateFrom(context.Background(), make([]int32, 600), greedy())
	expect(err, "KT_E_CONTEXT_FULL", "600")
	closed, err := Open("", Options{Ctx: 64})
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	_, err = closed.Tokenize("x", false)
	expect(err, "KT_E_STATE", "closed")
}

func TestSessions(t *testing.T) {
	file := t.TempDir() + "/session"
	say := func(s *Session, messages []Message) string {
		t.Helper()
		answer, err := s.Chat(context.Background(), messages, greedy())
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Close()
		text, err := answer.All()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first, err := model.Session()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if said := say(first, question()); said != expected.Answer {
		t.Fatalf("%q", said)
	}
	if err := first.Save(file); err != nil {
		t.Fatal(err)
	}
	next := append(question(), Message{"assistant", expected.Answer}, Message{"user", "And then?"})
	continued := say(first, next)
	again, err := model.Session()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Restore(file); err != nil {
		t.Fatal(err)
	}
	if len(again.Tokens()) == 0 {
		t.Fatal("nothing was restored")
	}
	if said := say(again, next); said != continued {
		t.Fatalf("%q instead of %q", said, continued)
	}
	if err := again.Truncate(2); err != nil || len(again.Tokens()) != 2 {
		t.Fatal(again.Tokens(), err)
	}
	if err := again.Restore(t.TempDir() + "/none"); err == nil {
		t.Fatal("a file that is not there was restored")
	}
}

func TestLearning(t *testing.T) {
	learner, err := model.Learner(t.TempDir() + "/learned")
	if err != nil {
		t.Fatal(err)
	}
	defer learner.Close()
	p := greedy()
	p.Learner, p.Predict = learner, 24
	ask := func(text string) *Answer {
		t.Helper()
		answer, err := model.Chat(context.Background(), []Message{{Role: "user", Content: text}}, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(answer.Close)
		return answer
	}
	wrong := ask("Who is the mayor of Blue Hill?")
	if _, err := wrong.Correct("too early"); err == nil {
		t.Fatal("an answer that is not over was corrected")
	}
	before, _ := wrong.All()
	id, err := wrong.Correct("The mayor of Blue Hill is Mrs. Weaver.")
	if err != nil {
		t.Fatal(err)
	}
	if said, err := ask("Who is the mayor of Blue Hill?").All(); err != nil || !strings.Contains(said, "Weaver") {
		t.Fatal(said, err)
	}
	if said, err := ask("Please tell me the mayor of Blue Hill.").All(); err != nil || !strings.Contains(said, "Weaver") {
		t.Fatal(said, err)
	}
	if err := learner.Forget(id); err != nil {
		t.Fatal(err)
	}
	if said, _ := ask("Who is the mayor of Blue Hill?").All(); said != before {
		t.Fatalf("%q instead of %q", said, before)
	}
}
