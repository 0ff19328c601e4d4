//! What a conversation would have cost with other models: `cargo run --example what_if -- SESSION.json`, a session that was saved with
//! `Session::save`. Without a file it uses a conversation of twenty turns.

use foreword::{Attachment, Session};

const MODELS: [&str; 4] = ["claude-sonnet-5", "claude-opus-5", "gpt-5.4", "gemini-2.5-pro"];

fn conversation() -> Result<Session, foreword::Error> {
    let mut session = Session::builder("claude-sonnet-5").system("Answer from the notes. ".repeat(100)).build()?;
    for turn in 0..20 {
        let note = Attachment::note(&format!("Day {turn}.md"), &format!("On day {turn} the dough rested. ").repeat(60));
        session.turn(format!("What happened on day {turn}?")).attach(note).request()?;
        session.reply_text("The dough rested.")?;
        session.idle(if turn == 10 { 3600 } else { 20 })?;
    }
    Ok(session)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = match std::env::args().nth(1) {
        Some(file) => Session::load(std::fs::read(file)?)?,
        None => conversation()?,
    };
    println!("{:<18} {:>8} {:>9} {:>9} {:>9} {:>9}", "model", "requests", "tokens", "cached", "USD", "uncached");
    for model in MODELS {
        match session.what_if(model, |_| {}) {
            Ok(sum) => println!(
                "{model:<18} {:>8} {:>9} {:>9} {:>9.4} {:>9.4}",
                sum.requests, sum.tokens, sum.read, sum.cost, sum.cost_uncached
            ),
            Err(error) => println!("{model:<18} {error}"),
        }
    }
    Ok(())
}
