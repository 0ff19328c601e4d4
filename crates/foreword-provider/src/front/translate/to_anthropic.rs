//! Writes Anthropic's Messages.

use super::super::ask::NotUnderstood;
use super::json_text::{Object, list, text};
use super::{Block, Choice, Effort, Request, Said, Source};
use crate::dialect::Dialect;
use crate::dialect::names::{wire_id, wire_name};
use crate::model::{Capability, Model};

/// Tokens of thought for a model that is given a number, at each effort.
const BUDGETS: [(Effort, u64); 4] = [(Effort::Low, 2048), (Effort::Medium, 8192), (Effort::High, 16_384), (Effort::Max, 32_768)];

/// The least that can be given, and what must be left for the answer.
const LEAST_BUDGET: u64 = 1024;

pub(super) fn write(request: &mut Request, model: &Model, wire: &str) -> Result<String, NotUnderstood> {
    // Anthropic wants a limit: without one it is the model's own.
    let limit = request.limit.unwrap_or(model.reply_limit.0).min(model.reply_limit.0).max(1);
    let mut body = Object::new().put("model", wire).put("max_tokens", &limit).put("stream", &request.stream);
    let system: Vec<String> = request.system.iter().filter(|text| !text.trim().is_empty()).map(|text| text_block(text)).collect();
    if !system.is_empty() {
        body = body.raw("system", &list(&system));
    }
    if !request.tools.is_empty() {
        let tools: Vec<String> = request
            .tools
            .iter()
            .map(|tool| {
                let name = wire_name(Dialect::Anthropic, &tool.full_name()).into_owned();
                Object::new()
                    .put("name", &name)
                    .maybe("description", tool.description.as_ref())
                    .raw("input_schema", tool.schema())
                    .maybe("strict", tool.strict.filter(|strict| *strict))
                    .end()
            })
            .collect();
        body = body.raw("tools", &list(&tools));
    }
    body = choice(body, request);
    let thinks = thinks(request, limit);
    if let Some(value) = request.temperature {
        if value > 1.0 {
            return Err(NotUnderstood::new("temperature", "it ends at 1 for this model"));
        }
        // With thinking on there is no other.
        if !thinks || value < 1.0 {
            body = body.put("temperature", &value);
        }
    }
    body = body.maybe("top_p", request.top_p);
    if !request.stop.is_empty() {
        body = body.put("stop_sequences", &request.stop);
    }
    let mut output = Object::new();
    if let Some(effort) = request.effort.filter(|_| thinks) {
        if model.has(Capability::AdaptiveThinking) {
            body = body.raw("thinking", r#"{"type":"adaptive"}"#);
            output = output.put("effort", if effort == Effort::Max { "max" } else { effort.openai() });
        } else {
            let wanted = BUDGETS.iter().find(|(known, _)| *known == effort).map_or(LEAST_BUDGET, |(_, budget)| *budget);
            let budget = wanted.min(limit - LEAST_BUDGET);
            body = body.raw("thinking", &Object::new().put("type", "enabled").put("budget_tokens", &budget).end());
        }
    }
    if let Some(format) = &request.format {
        output = output.raw("format", &Object::new().put("type", "json_schema").raw("schema", &format.schema).end());
    }
    let output = output.end();
    if output != "{}" {
        body = body.raw("output_config", &output);
    }
    Ok(body.raw("messages", &list(&messages(request))).end())
}

/// Whether the model is to think. In the middle of a tool loop it has to go on as it began: where the client lost its thoughts, it
/// cannot.
fn thinks(request: &mut Request, limit: u64) -> bool {
    if request.effort.is_none_or(|effort| effort == Effort::None) || limit < 2 * LEAST_BUDGET {
        return false;
    }
    let mut said = request.said.iter().rev();
    let in_loop =
        matches!(said.next(), Some(Said::User(blocks)) if blocks.iter().any(|block| matches!(block, Block::Result { .. })));
    let has_thoughts = |blocks: &[Block]| blocks.iter().any(|block| matches!(block, Block::Thought { sealed: Some(_), .. }));
    let lost = in_loop && matches!(said.next(), Some(Said::Model(blocks)) if !has_thoughts(blocks));
    if lost {
        request.ignored.push("reasoning_effort".to_owned());
    }
    !lost
}

fn choice(body: Object, request: &Request) -> Object {
    if request.tools.is_empty() {
        return body;
    }
    let parallel = request.parallel.unwrap_or(true);
    let mut choice = match &request.choice {
        None if parallel => return body,
        None | Some(Choice::Auto) => Object::new().put("type", "auto"),
        Some(Choice::None) => return body.raw("tool_choice", r#"{"type":"none"}"#),
        Some(Choice::Any) => Object::new().put("type", "any"),
        Some(Choice::One(name)) => Object::new().put("type", "tool").put("name", &*wire_name(Dialect::Anthropic, name)),
    };
    if !parallel {
        choice = choice.put("disable_parallel_tool_use", &true);
    }
    body.raw("tool_choice", &choice.end())
}

fn text_block(text: &str) -> String {
    Object::new().put("type", "text").put("text", text).end()
}

fn messages(request: &Request) -> Vec<String> {
    let mut messages: Vec<(&str, Vec<String>)> = Vec::new();
    for said in &request.said {
        let (role, blocks) = match said {
            Said::System(text) => ("user", vec![text_block(&format!("<system-reminder>\n{text}\n</system-reminder>"))]),
            Said::User(said) => {
                // Results answer the calls before them, so they come first.
                let (results, rest): (Vec<&Block>, Vec<&Block>) =
                    said.iter().partition(|block| matches!(block, Block::Result { .. }));
                let blocks = results.into_iter().chain(rest).filter_map(block);
                ("user", blocks.collect())
            }
            Said::Model(said) => ("assistant", said.iter().filter_map(block).collect()),
        };
        if blocks.is_empty() {
            continue;
        }
        match messages.last_mut() {
            Some((last, all)) if *last == role => all.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    let message = |(role, blocks): (&str, Vec<String>)| Object::new().put("role", role).raw("content", &list(&blocks)).end();
    messages.into_iter().map(message).collect()
}

/// A block; none where it says nothing, which Anthropic refuses.
fn block(block: &Block) -> Option<String> {
    Some(match block {
        Block::Text(text) if text.trim().is_empty() => return None,
        Block::Text(text) => text_block(text),
        Block::Image(from) => Object::new().put("type", "image").raw("source", &source(from)).end(),
        Block::File { name, source: from, .. } => {
            Object::new().put("type", "document").raw("source", &source(from)).maybe("title", name.as_ref()).end()
        }
        Block::Thought { sealed, .. } => return sealed.clone(),
        Block::Call { id, tool, arguments } => {
            let given: Option<&serde_json::value::RawValue> = serde_json::from_str(arguments).ok();
            let input = match given.map(serde_json::value::RawValue::get).filter(|text| text.starts_with('{')) {
                Some(object) => object.to_owned(),
                None if arguments.trim().is_empty() => "{}".to_owned(),
                // What a model wrote instead of an object goes back as it is.
                None => Object::new().put("input", arguments).end(),
            };
            Object::new()
                .put("type", "tool_use")
                .put("id", &*wire_id(Dialect::Anthropic, id))
                .put("name", &*wire_name(Dialect::Anthropic, &tool.full_name()))
                .raw("input", &input)
                .end()
        }
        Block::Result { id, parts, failed } => {
            let parts: Vec<String> = parts.iter().filter_map(self::block).collect();
            let result = Object::new()
                .put("type", "tool_result")
                .put("tool_use_id", &*wire_id(Dialect::Anthropic, id))
                .raw("content", &list(&parts));
            result.maybe("is_error", Some(true).filter(|_| *failed)).end()
        }
    })
}

fn source(source: &Source) -> String {
    match source {
        Source::Url(url) => Object::new().put("type", "url").put("url", url).end(),
        Source::Data { media, base64 } => {
            format!("{{\"type\":\"base64\",\"media_type\":{},\"data\":{}}}", text(media), text(base64))
        }
    }
}
