//! cargo run --example ask -- "a prompt" [MODEL.gguf]: a prompt, then token by token, with the settings for two old cores.
use kentang::{ContextParams, Model, ModelParams, SamplingParams};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let prompt = words.next().unwrap_or_else(|| "Suatu hari, seekor kancil".into());
    let params = ModelParams { use_mmap: true, use_mlock: false, ..Default::default() };
    let model = match words.next() {
        Some(path) => Model::load(path, &params)?,
        None => Model::demo(&params)?,
    };
    let two = ContextParams { n_threads: 2, n_threads_batch: 2, ..Default::default() };
    let mut ctx = model.context(&ContextParams { n_ctx: 2048, n_batch: 1024, n_ubatch: 256, ..two })?;
    let sampling = SamplingParams { temperature: 0.7, top_p: 0.95, ..Default::default() };
    ctx.eval_prompt(&prompt)?;
    for _ in 0..128 {
        let token = ctx.sample_token(&sampling)?;
        if ctx.is_end(token) {
            break;
        }
        print!("{}", ctx.token_to_str(token)?);
        std::io::stdout().flush()?;
        ctx.eval_token(token)?;
    }
    println!();
    Ok(())
}
