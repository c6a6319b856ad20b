//! A prompt to a running `kentang serve` over its Unix socket, streamed: prints the lines that come. No crates.
//!   rustc ask_socket.rs && ./ask_socket SOCKET PROMPT
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let (path, prompt) = match words.as_slice() {
        [_, path, prompt] => (path, prompt),
        _ => return Err("usage: ask_socket SOCKET PROMPT".into()),
    };
    let mut connection = UnixStream::connect(path)?;
    writeln!(connection, "{{\"prompt\":{},\"stream\":true,\"max_tokens\":100}}", quoted(prompt))?;
    for line in BufReader::new(connection).lines() {
        let line = line?;
        println!("{line}");
        if line.contains("\"done\":true") {
            break;
        }
    }
    Ok(())
}
