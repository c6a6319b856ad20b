//! On the embedded model, against what `kentang` itself answers (KENTANG_QUESTION ... from tests/bindings/run.sh).
use kentang::{Constraint, ContextParams, DraftFrom, Engine, Form, GenParams, KvType, Message, Model, ModelParams, Pooling};
use kentang::{SamplingParams, Token};

fn var(name: &str) -> String {
    std::env::var(format!("KENTANG_{name}")).unwrap_or_else(|_| panic!("KENTANG_{name} is not set"))
}

fn numbers(name: &str) -> Vec<Token> {
    var(name).split_whitespace().map(|n| n.parse().unwrap()).collect()
}

fn engine() -> Engine {
    let model = Model::demo(&ModelParams { n_threads: 2, ..Default::default() }).unwrap();
    model.engine(&ContextParams { n_ctx: 512, ..Default::default() }).unwrap()
}

fn greedy() -> GenParams {
    let sampling = SamplingParams { temperature: 0.0, ..Default::default() };
    GenParams { sampling, n_predict: Some(var("N").parse().unwrap()), ..Default::default() }
}

#[test]
fn the_recipe_draws_the_tokens_of_kentang_greedy() {
    let mut ctx = engine().context().unwrap();
    let sampling = greedy().sampling;
    ctx.eval_prompt(&var("TEXT")).unwrap();
    assert_eq!(ctx.tokens(), numbers("PROMPT_IDS"));
    let mut text = String::new();
    for expected in numbers("IDS") {
        let token = ctx.sample_token(&sampling).unwrap();
        assert_eq!(token, expected);
        text += &ctx.token_to_str(token).unwrap();
        ctx.eval_token(token).unwrap();
    }
    let all = ctx.model().detokenize(ctx.tokens()).unwrap();
    assert!(all.ends_with(&text) && text.len() > 20, "{all:?} {text:?}");
    assert!(ctx.token_eos() >= 0 && ctx.is_end(ctx.token_eos()));
}

#[test]
fn answers_stream_and_are_those_of_kentang_run() {
    let mut ctx = engine().context().unwrap();
    let question = [Message::new("user", &var("QUESTION"))];
    let mut heard = String::new();
    let report = ctx
        .chat(&question, &greedy(), |text| {
            heard += text;
            true
        })
        .unwrap();
    assert_eq!((heard.as_str(), report.text.as_str()), (var("ANSWER").as_str(), var("ANSWER").as_str()));
    assert_eq!(report.finish, "length");
    assert_eq!(ctx.chat(&question, &greedy(), |_| false).unwrap().finish, "cancelled");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = ctx.chat(&question, &greedy(), |_| panic!("mine"));
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"mine"));
}

#[test]
fn a_seed_draws_as_generate() {
    let engine = engine();
    let prompt = numbers("PROMPT_IDS");
    let sampling = SamplingParams { seed: Some(5), repeat_penalty: 1.3, ..Default::default() };
    let params = GenParams { sampling: sampling.clone(), n_predict: Some(12), ignore_end: true, ..Default::default() };
    let mut whole = engine.context().unwrap();
    whole.generate(&prompt, &params, |_| true).unwrap();
    let mut single = engine.context().unwrap();
    single.eval_tokens(&prompt).unwrap();
    for &expected in &whole.tokens()[prompt.len()..] {
        assert_eq!(single.sample_token(&sampling).unwrap(), expected);
        single.eval_token(expected).unwrap();
    }
    single.truncate(prompt.len() + 1).unwrap();
    assert!(single.logits().is_none());
}

#[test]
fn embeddings_and_threads() {
    let engine = engine();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let engine = engine.clone();
            std::thread::spawn(move || engine.embed("a cat", Pooling::Mean).unwrap())
        })
        .collect();
    let vectors: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert!(vectors.iter().all(|v| *v == vectors[0] && v.len() == engine.model().d_model()));
    assert!((vectors[0].iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
}

#[test]
fn errors_are_results() {
    let error = Model::load("/no/such/model.gguf", &ModelParams::default()).err().unwrap();
    assert_eq!(error.code, "KT_E_IO");
    assert!(error.to_string().contains("/no/such/model.gguf"), "{error}");
    let mut ctx = engine().context().unwrap();
    let sampling = SamplingParams { top_p: 7.0, ..Default::default() };
    assert_eq!(ctx.sample_token(&sampling).unwrap_err().code, "KT_E_ARG"); // no logits
    ctx.eval_prompt("Hello").unwrap();
    assert!(ctx.sample_token(&sampling).unwrap_err().message.contains("top_p"));
    assert_eq!(ctx.eval_tokens(&[5; 600]).unwrap_err().code, "KT_E_CONTEXT_FULL");
    assert_eq!(ctx.chat(&[Message::new("user", "a\0b")], &greedy(), |_| true).unwrap_err().code, "KT_E_ARG");
}

#[test]
fn a_session_is_saved_and_goes_on_with_the_same_tokens() {
    let engine = engine();
    let path = std::env::temp_dir().join(format!("kentang-rust-{}.session", std::process::id()));
    let (mut first, mut second) = (engine.context().unwrap(), engine.context().unwrap());
    first.eval_prompt(&var("TEXT")).unwrap();
    first.save(&path).unwrap();
    second.restore(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(first.tokens(), second.tokens());
    let sampling = greedy().sampling;
    assert_eq!(first.sample_token(&sampling).unwrap(), second.sample_token(&sampling).unwrap());
    assert_eq!(second.restore("/nowhere/at/all").unwrap_err().code, "KT_E_IO");
}

#[test]
fn keys_and_values_in_8_bits_and_a_draft_model() {
    let params = ModelParams { n_threads: 2, isa: Some("ref".into()), ..Default::default() };
    let model = Model::demo(&params).unwrap();
    let options =
        ContextParams { n_ctx: 256, kv_keys: KvType::Q8, kv_values: KvType::Q8, kv_tail: 16, ..Default::default() };
    let report = model.context(&options).unwrap().chat(&[Message::new("user", "Hi")], &greedy(), |_| true).unwrap();
    assert!(report.n_generated > 0);
    assert!(model.adapter("/nowhere/at/all").is_err());
    let missing = ModelParams { blas: true, blas_library: Some("no-such-blas".into()), ..Default::default() };
    assert!(Model::demo(&missing).is_err());
}

#[test]
fn answers_are_held_to_their_forms() {
    let mut ctx = engine().context().unwrap();
    let mut ask = |constraint: Constraint| {
        ctx.truncate(0).unwrap();
        let params = GenParams { constraint, n_predict: Some(60), ..greedy() };
        ctx.chat(&[Message::new("user", "Who are you?")], &params, |_| true)
    };
    let number = r#"{"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}"#;
    let held = Constraint { compact: true, finish_within: true, ..Form::Schema(number.into()).into() };
    let text = ask(held).unwrap().text;
    let digits = text.strip_prefix("{\"n\":").and_then(|rest| rest.strip_suffix('}'));
    assert!(digits.map_or(false, |d| d.parse::<i64>().map_or(false, |n| n <= 9)), "{text}");
    let choices = vec!["yes".to_string(), "no".to_string()];
    let text = ask(Form::Choice(choices.clone()).into()).unwrap().text;
    assert!(choices.contains(&text), "{text}");
    let text = ask(Form::Regex("[ab]{3}".into()).into()).unwrap().text;
    assert!(text.len() == 3 && text.chars().all(|c| c == 'a' || c == 'b'), "{text}");
    let text = ask(Form::Grammar("root ::= \"x\" \"y\"?".into()).into()).unwrap().text;
    assert!(text == "x" || text == "xy", "{text}");
    assert_eq!(ask(Form::Schema("{".into()).into()).unwrap_err().code, "KT_E_FORMAT");
    assert!(ask(Constraint { triggers: vec!["<never>".into()], ..Form::Json.into() }).unwrap().n_generated > 0);
}

#[test]
fn a_correction_holds_from_the_next_answer_on() {
    let engine = engine();
    let dir = std::env::temp_dir().join(format!("kentang-rust-{}.learned", std::process::id()));
    let question = [Message::new("user", &var("QUESTION"))];
    let learner = engine.learner(&dir).unwrap();
    let params = GenParams { learner: Some(learner.clone()), n_predict: Some(40), ..greedy() };
    let mut ctx = engine.context().unwrap();
    let before = ctx.chat(&question, &params, |_| true).unwrap();
    let right = "Only by taking a bus.";
    assert_ne!(before.text, right);
    let id = learner.correct(&before, right).unwrap();
    let mut second = engine.context().unwrap();
    assert_eq!(second.chat(&question, &params, |_| true).unwrap().text, right);
    let without = GenParams { learner: None, ..params.clone() };
    let plain = engine.context().unwrap().chat(&question, &without, |_| true).unwrap();
    assert_eq!(plain.text, before.text);
    assert_eq!(learner.rate(&plain, 1.0).unwrap_err().code, "KT_E_ARG"); // made without it
    learner.forget(id).unwrap();
    assert_eq!(engine.context().unwrap().chat(&question, &params, |_| true).unwrap().text, before.text);
    assert_eq!(learner.forget(id).unwrap_err().code, "KT_E_ARG");
    drop((params, learner, ctx, second));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn every_parameter_reaches_the_library() {
    let sampling = SamplingParams { chain: Some("no_such_step".into()), ..Default::default() };
    let mut ctx = engine().context().unwrap();
    ctx.eval_prompt("Hello").unwrap();
    assert!(ctx.sample_token(&sampling).unwrap_err().message.contains("no_such_step"));
    let sampling = SamplingParams { xtc_threshold: 7.0, ..Default::default() };
    assert!(ctx.sample_token(&sampling).unwrap_err().message.contains("xtc_threshold"));
    let sampling = SamplingParams { mt19937: true, seed: Some(1), min_keep: 2, ..Default::default() };
    assert!(ctx.sample_token(&sampling).is_ok());
    let model = Model::demo(&ModelParams { plain_attention: true, n_threads_max: 2, ..Default::default() }).unwrap();
    let options = ContextParams { n_ctx: 128, draft_from: DraftFrom::Text, n_draft: 4, optimize: true, ..Default::default() };
    let params = GenParams { min_tokens: 5, loop_tokens: 16, n_predict: Some(8), ..Default::default() };
    let report = model.context(&options).unwrap().chat(&[Message::new("user", "Hi")], &params, |_| true).unwrap();
    assert!(report.n_generated >= 5);
    assert!(model.context(&ContextParams { memory_threshold: 7.0, ..Default::default() }).is_err());
    let wrong = ModelParams { device: Some("no such device".into()), n_gpu_layers: 1, ..Default::default() };
    assert!(Model::demo(&wrong).is_err() || cfg!(not(target_os = "linux")));
}
