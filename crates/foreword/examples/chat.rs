//! A chat in thirty lines: `ANTHROPIC_API_KEY=… cargo run --example chat --features client`.

use std::io::{BufRead, Write, stdin, stdout};

use foreword::{Client, Session};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).unwrap_or_else(|| "claude-sonnet-5".to_owned());
    let mut session = Session::builder(model).system("You are a helpful assistant.").stream().build()?;
    let client = Client::for_session(&session)?;
    for line in stdin().lock().lines() {
        session.turn(line?).apply()?;
        let mut reply = client.stream(&mut session).await?;
        while let Some(text) = reply.next().await? {
            print!("{text}");
            stdout().flush()?;
        }
        let reply = reply.finish()?;
        println!("\n[{:.5} USD]", reply.cost.unwrap_or_default());
    }
    Ok(())
}
