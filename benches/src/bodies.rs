//! How much a next body costs beside a plain copy of its bytes: `cargo xtask bench bodies`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreword_core::hash::Hash;
use foreword_core::layer::LayerId;
use foreword_core::message::{Message, Origin, Piece, Role};
use foreword_core::prompt::{Prompt, ToolPlan, ToolStyle};
use foreword_core::tokens::Tokens;
use foreword_provider::dialect::Dialect;
use foreword_provider::render::{BodyOptions, Renderer};
use foreword_provider::stream::common_prefix;
use foreword_provider::table::{ModelTable, TableError, UnknownModel};

const SIZE: usize = 10_000_000;
const ROUNDS: u32 = 30;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    Model(#[from] UnknownModel),
}

fn message(role: Role, len: usize, layer: LayerId) -> Arc<Message> {
    let line = "A line of text, with \"quotes\" now and then; about eighty characters to the line.\n";
    let text: String = line.chars().cycle().take(len).collect();
    let piece = Piece { layer, origin: Origin::User, tokens: Tokens(len as u64 / 4), text: Arc::from(text) };
    Arc::new(Message::text(role, vec![piece]))
}

fn conversation(each: usize) -> Vec<Arc<Message>> {
    let mut messages = vec![message(Role::System, 4_000, LayerId::L1)];
    let roles = [Role::User, Role::Assistant];
    messages.extend((0..SIZE / each).map(|index| message(roles[index % 2], each, LayerId::L4)));
    messages
}

fn main() -> Result<(), Failure> {
    let table = ModelTable::builtin()?;
    let tools = ToolPlan { style: ToolStyle::Native, list: Arc::new(Vec::new()), allowed: Vec::new(), tokens: Tokens::ZERO };
    println!("{:18}{:>9}{:>10}{:>10}{:>8}{:>12}{:>12}", "dialect", "message", "copy", "body", "ratio", "compare", "sha256");
    for each in [200, 2_000, 20_000] {
        let messages = conversation(each);
        for dialect in Dialect::ALL {
            let model = table.default_for(dialect)?;
            let mut renderer = Renderer::new(dialect);
            let (mut copy, mut body, mut compare, mut hash) = (Duration::MAX, Duration::MAX, Duration::MAX, Duration::MAX);
            let mut last = None;
            for round in (0..ROUNDS as usize).rev() {
                let upto = messages.len() - 2 * round;
                let prompt = Prompt {
                    messages: &messages[..upto],
                    tools: &tools,
                    settled: upto,
                    session: "s",
                    l1: Hash::of(""),
                    l2: Hash::of(""),
                    reply_tokens: Tokens(1_000),
                };
                let options = BodyOptions { previous_len: Some(upto - 2), ..BodyOptions::default() };
                let start = Instant::now();
                let next = black_box(renderer.render(&model, &prompt, &options));
                if last.is_some() {
                    body = body.min(start.elapsed());
                }
                let start = Instant::now();
                black_box(next.bytes.clone());
                copy = copy.min(start.elapsed());
                let start = Instant::now();
                black_box(next.sha256());
                hash = hash.min(start.elapsed());
                if let Some(last) = &last {
                    let start = Instant::now();
                    black_box(common_prefix(last, &next.prompt));
                    compare = compare.min(start.elapsed());
                }
                last = Some(next.prompt);
            }
            let ratio = body.as_secs_f64() / copy.as_secs_f64();
            println!("{:18}{each:>9}{copy:>10.1?}{body:>10.1?}{ratio:>8.2}{compare:>12.1?}{hash:>12.1?}", dialect.as_str());
        }
    }
    println!("\na library of the same size that grows by one note a turn");
    let notes: Vec<Piece> = conversation(20_000).iter().flat_map(|message| message.pieces.clone()).collect();
    for dialect in Dialect::ALL {
        let model = table.default_for(dialect)?;
        let mut renderer = Renderer::new(dialect);
        let (mut copy, mut body) = (Duration::MAX, Duration::MAX);
        for round in (0..ROUNDS as usize).rev() {
            let mut pieces = notes[..notes.len() - round].to_vec();
            pieces.iter_mut().skip(1).for_each(|piece| piece.layer = LayerId::L2);
            let messages = [Arc::new(Message::text(Role::System, pieces)), message(Role::User, 100, LayerId::L5)];
            let prompt = Prompt {
                messages: &messages,
                tools: &tools,
                settled: 1,
                session: "s",
                l1: Hash::of(""),
                l2: Hash::of(""),
                reply_tokens: Tokens(1_000),
            };
            let start = Instant::now();
            let next = black_box(renderer.render(&model, &prompt, &BodyOptions::default()));
            body = body.min(start.elapsed());
            let start = Instant::now();
            black_box(next.bytes.clone());
            copy = copy.min(start.elapsed());
        }
        let ratio = body.as_secs_f64() / copy.as_secs_f64();
        println!("{:18}{copy:>19.1?}{body:>10.1?}{ratio:>8.2}", dialect.as_str());
    }
    Ok(())
}
