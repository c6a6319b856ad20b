//! cargo run --example ask -- "a prompt" [MODEL.gguf]
use kentang::{ContextParams, Model, ModelParams, SamplingParams};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let prompt = words.next().unwrap_or_else(|| "Once upon a time".into());
    let model = match words.next() {
        Some(path) => Model::load(path, &ModelParams::default())?,
        None => Model::demo(&ModelParams::default())?,
    };
    let mut ctx = model.context(&ContextParams::default())?;
    let sampling = SamplingParams { temperature: 0.0, ..Default::default() };
    ctx.eval_prompt(&prompt)?;
    for _ in 0..24 {
        let token = ctx.sample_token(&sampling)?;
        if token == ctx.token_eos() || ctx.is_end(token) {
            break;
        }
        print!("{}", ctx.token_to_str(token)?);
        std::io::stdout().flush()?;
        ctx.eval_token(token)?;
    }
    println!();
    Ok(())
}
