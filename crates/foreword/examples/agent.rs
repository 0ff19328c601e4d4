//! An agent with two tools: `cargo run --example agent --features client`. Without a key it talks to a provider in this process that
//! checks requests as the real one does and answers by a script.

use foreword::provider::{ClientConfig, KeySource};
use foreword::{Call, Client, Session, Tool};
use foreword_mock_provider::{MockServer, Script};
use serde_json::json;

fn run(call: &Call) -> String {
    match call.name.as_str() {
        "temperature" => format!("{} °C", if call.arguments["room"] == "cellar" { 12 } else { 24 }),
        "now" => "2026-11-19 20:00".to_owned(),
        other => format!("there is no tool {other}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut session = Session::builder("claude-sonnet-5")
        .system("You watch over a sourdough starter.")
        .tool(
            Tool::new(
                "temperature",
                "The temperature of a room",
                json!({
                    "type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"],
                }),
            )
            .read_only(),
        )
        .tool(Tool::new("now", "Date and time", json!({})).read_only())
        .build()?;
    let script: Script = serde_json::from_value(json!({"replies": [
        {"text": "", "calls": [{"name": "temperature", "arguments": {"room": "kitchen"}}]},
        {"text": "It is warm enough in the kitchen: feed the starter twice a day."},
    ]}))?;
    let provider = MockServer::start(script).await?;
    let mut config = ClientConfig::new(session.dialect());
    if std::env::var_os("ANTHROPIC_API_KEY").is_none() {
        config.base_url = Some(provider.base_url(session.dialect()));
        config.key = KeySource::None;
    }
    let client = Client::new(config)?;

    session.turn("How often should I feed it?").apply()?;
    for _ in 0..10 {
        let reply = client.send(&mut session).await?;
        println!("{}", reply.text);
        if reply.calls.is_empty() {
            break;
        }
        for call in &reply.calls {
            println!("→ {}({})", call.name, call.arguments);
            match &call.problem {
                Some(problem) => session.tool_failed(&call.id, problem)?,
                None => session.tool_result(&call.id, run(call))?,
            };
        }
    }
    Ok(())
}
