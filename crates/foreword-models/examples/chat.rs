//! Asks the embedded chat model: `cargo run --release -p foreword-models --example chat -- MODEL.gguf "question" ["another"]…`

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use foreword_core::message::Role;
use foreword_models::chat_model::{Chat, ChatModel, Sampling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let path: PathBuf = arguments.next().ok_or("expected the model file and a question")?.into();
    let start = Instant::now();
    let model = Arc::new(ChatModel::open(&path)?);
    eprintln!("opened in {:.0?}", start.elapsed());

    let mut chat = Chat::new(Arc::clone(&model));
    let mut said: Vec<(Role, String)> = Vec::new();
    for question in arguments {
        said.push((Role::User, question.to_string_lossy().into_owned()));
        let messages: Vec<(Role, &str)> = said.iter().map(|(role, text)| (*role, text.as_str())).collect();
        let start = Instant::now();
        let answer = chat.answer(&model.prompt(&messages), &Sampling::default(), &|| false, &mut |text| {
            print!("{text}");
            // A terminal that cannot be written to is no reason to stop.
            let _ = std::io::stdout().flush();
        });
        println!();
        let first = answer.time_to_first.unwrap_or_default();
        let rest = start.elapsed().saturating_sub(first).as_secs_f64();
        eprintln!(
            "{:?}: {} tokens cached, {} new, first after {first:.0?}; {} written, {:.0} a second",
            answer.end,
            answer.cached_tokens.0,
            answer.new_tokens.0,
            answer.output_tokens.0,
            answer.output_tokens.0 as f64 / rest,
        );
        said.push((Role::Assistant, answer.text));
    }
    Ok(())
}
