//! The engine inside an axum server: `cargo run --example server --features client`, then
//! `curl -d '{"text": "Hello"}' -H 'content-type: application/json' http://127.0.0.1:3000/chats/one`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use foreword::{Client, Session};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The most chats that are kept.
const MAX_CHATS: usize = 1_000;

struct Chats {
    client: Client,
    open: Mutex<BTreeMap<String, Arc<Mutex<Session>>>>,
}

fn failed(status: StatusCode) -> impl Fn(foreword::Error) -> (StatusCode, String) {
    move |error| (status, error.to_string())
}

async fn say(
    State(chats): State<Arc<Chats>>,
    Path(name): Path<String>,
    Json(body): Json<Value>,
) -> Result<Json<Value>, (StatusCode, String)> {
    let chat = {
        let mut open = chats.open.lock().await;
        if open.len() >= MAX_CHATS && !open.contains_key(&name) {
            return Err((StatusCode::SERVICE_UNAVAILABLE, "too many chats are open".to_owned()));
        }
        let new = || Session::builder("claude-sonnet-5").name(&name).build().map(|session| Arc::new(Mutex::new(session)));
        match open.get(&name) {
            Some(chat) => Arc::clone(chat),
            None => Arc::clone(open.entry(name.clone()).or_insert(new().map_err(failed(StatusCode::BAD_REQUEST))?)),
        }
    };
    let mut session = chat.lock().await;
    let text = body["text"].as_str().unwrap_or_default();
    session.turn(text).apply().map_err(failed(StatusCode::BAD_REQUEST))?;
    let request = session.request().map_err(failed(StatusCode::BAD_REQUEST))?;
    let reply = chats.client.send(&mut session).await.map_err(failed(StatusCode::BAD_GATEWAY))?;
    Ok(Json(json!({"text": reply.text, "cost": reply.cost, "why": request.explanation()})))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::for_session(&Session::builder("claude-sonnet-5").build()?)?;
    let chats = Arc::new(Chats { client, open: Mutex::default() });
    let routes = Router::new().route("/chats/{name}", post(say)).with_state(chats);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, routes).await?;
    Ok(())
}
