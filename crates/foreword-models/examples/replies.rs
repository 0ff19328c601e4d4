//! What the embedded chat model says to many prompts, to measure a change of the prompt or of the sampling: a JSON list of messages a line
//! comes in, a reply a line goes out.
//!
//! `FOREWORD_MODELS=… cargo run --release -p foreword-models --example replies < prompts.jsonl`, where a line is `[["user", "Why?"]]`.

use std::io::BufRead as _;
use std::path::Path;
use std::sync::Arc;

use foreword_core::message::Role;
use foreword_models::chat_model::{Chat, ChatModel, Sampling};
use foreword_models::weights::SMOLLM2;
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let models = std::env::var_os("FOREWORD_MODELS").ok_or("FOREWORD_MODELS does not name the folder of the models")?;
    let folder = SMOLLM2.present(Path::new(&models)).ok_or("the folder of the models does not have the chat model")?;
    let model = Arc::new(ChatModel::open(&folder.join(SMOLLM2.files[0].file_name()))?);
    let mut chat = Chat::new(Arc::clone(&model));
    for line in std::io::stdin().lock().lines() {
        let messages: Vec<(Role, String)> = serde_json::from_str(&line?)?;
        let messages: Vec<(Role, &str)> = messages.iter().map(|(role, text)| (*role, text.as_str())).collect();
        let prompt = model.prompt(&messages);
        let answer = chat.answer(&prompt, &Sampling::default(), &|| false, &mut |_| {});
        let tokens = model.tokenizer().encode(&answer.text);
        println!(
            "{}",
            json!({"end": format!("{:?}", answer.end), "prompt": prompt.tokens(), "text": answer.text, "tokens": tokens})
        );
    }
    Ok(())
}
