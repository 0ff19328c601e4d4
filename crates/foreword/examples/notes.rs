//! A question over notes: the best notes are found by words and, with an embedding model, by meaning.
//! `cargo run --example notes --features search -- FOLDER "question" [MODEL_FOLDER]`; `foreword models` tells where the model is.

use std::path::Path;

use foreword::{Attachment, EmbedError, Embedder, Notes, Session, Vector};
use foreword_models::minilm::MiniLm;

struct Meaning(MiniLm);

impl Embedder for Meaning {
    fn id(&self) -> &str {
        MiniLm::ID
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vector>, EmbedError> {
        Ok(self.0.embed(texts))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "examples/vault/Kitchen".to_owned());
    let question = arguments.next().unwrap_or_else(|| "Why was the loaf flat?".to_owned());
    let model = arguments.next().map(|folder| MiniLm::open(Path::new(&folder)).map(Meaning)).transpose()?;

    let mut notes = Notes::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            notes.add(Attachment::note(&name, &std::fs::read_to_string(&path)?));
        }
    }
    let model = model.as_ref().map(|model| model as &dyn Embedder);
    if let Some(model) = model {
        notes.embed(model)?;
    }
    let found = notes.search(&question, model, 3);
    for found in &found {
        println!("{:.2} {}", found.score, found.attachment.id());
    }
    let mut session = Session::builder("claude-sonnet-5").system("Answer from the notes.").build()?;
    let related = found.into_iter().filter(|found| found.score >= 0.2).map(|found| found.attachment);
    let request = session.turn(question).attach_all(related).request()?;
    for entry in &request.explanation().context {
        println!("{} as {:?}, {} tokens", entry.item, entry.form, entry.tokens);
    }
    println!("POST {} ({} bytes)", request.url(), request.body().len());
    Ok(())
}
