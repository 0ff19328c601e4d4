//! Writes Chat Completions.

use super::super::ask::NotUnderstood;
use super::json_text::{Object, list};
use super::{Block, Choice, Effort, Request, Said, Source};
use crate::dialect::Dialect;
use crate::dialect::names::{wire_id, wire_name};
use crate::model::{Capability, Model};

/// The limit of the answer: the client's, up to what the model can write.
pub(super) fn limit(request: &Request, model: &Model) -> Option<u64> {
    request.limit.map(|limit| limit.min(model.reply_limit.0).max(1))
}

/// OpenAI's word for a choice that is not one tool.
pub(super) fn choice_word(choice: &Choice) -> &'static str {
    match choice {
        Choice::None => "none",
        Choice::Any => "required",
        Choice::Auto | Choice::One(_) => "auto",
    }
}

pub(super) fn write(request: &mut Request, model: &Model, wire: &str, to: Dialect) -> Result<String, NotUnderstood> {
    let mut body = Object::new().put("model", wire).put("stream", &request.stream);
    if request.stream {
        body = body.raw("stream_options", r#"{"include_usage":true}"#);
    }
    let name = if model.has(Capability::MaxTokens) || to == Dialect::LlamaCpp { "max_tokens" } else { "max_completion_tokens" };
    body = body.maybe(name, limit(request, model));
    body = body.maybe("temperature", request.temperature).maybe("top_p", request.top_p);
    if !request.stop.is_empty() {
        body = body.put("stop", &request.stop);
    }
    if model.has(Capability::Reasoning) {
        body = body.maybe("reasoning_effort", request.effort.map(Effort::openai));
    } else if request.effort.is_some_and(|effort| effort != Effort::None) {
        request.ignored.push("thinking".to_owned());
    }
    if let Some(format) = &request.format {
        let schema = Object::new().put("name", &format.name).put("strict", &true).raw("schema", &format.schema).end();
        let format = Object::new().put("type", "json_schema").raw("json_schema", &schema).end();
        body = body.raw("response_format", &format);
    }
    if !request.tools.is_empty() {
        let tools: Vec<String> = request
            .tools
            .iter()
            .map(|tool| {
                let function = Object::new()
                    .put("name", &*wire_name(to, &tool.full_name()))
                    .maybe("description", tool.description.as_ref())
                    .raw("parameters", &tool.schema_with_properties())
                    .maybe("strict", tool.strict)
                    .end();
                Object::new().put("type", "function").raw("function", &function).end()
            })
            .collect();
        body = body.raw("tools", &list(&tools)).maybe("parallel_tool_calls", request.parallel);
        body = match &request.choice {
            None => body,
            Some(Choice::One(name)) => {
                let function = Object::new().put("name", &*wire_name(to, name)).end();
                body.raw("tool_choice", &Object::new().put("type", "function").raw("function", &function).end())
            }
            Some(choice) => body.put("tool_choice", choice_word(choice)),
        };
    }
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(Object::new().put("role", "system").put("content", &request.system.join("\n\n")).end());
    }
    for said in &request.said {
        match said {
            Said::System(text) => messages.push(Object::new().put("role", "system").put("content", text).end()),
            Said::User(blocks) => user(&mut messages, blocks, to)?,
            Said::Model(blocks) => messages.push(assistant(blocks, model, to)),
        }
    }
    Ok(body.raw("messages", &list(&messages)).end())
}

fn user(messages: &mut Vec<String>, blocks: &[Block], to: Dialect) -> Result<(), NotUnderstood> {
    // A result is a text here: images and files of one follow in a message of the user.
    let mut rest: Vec<&Block> = Vec::new();
    for block in blocks {
        let Block::Result { id, parts, .. } = block else { continue };
        let result = Object::new().put("role", "tool").put("tool_call_id", &*wire_id(to, id));
        messages.push(result.put("content", &Request::text(parts)).end());
        rest.extend(parts.iter().filter(|part| !matches!(part, Block::Text(_))));
    }
    rest.extend(blocks.iter().filter(|block| !matches!(block, Block::Result { .. })));
    if rest.is_empty() {
        return Ok(());
    }
    let message = Object::new().put("role", "user");
    messages.push(match rest.as_slice() {
        [Block::Text(text)] => message.put("content", text).end(),
        parts => message.raw("content", &list(&parts.iter().map(|block| part(block)).collect::<Result<Vec<_>, _>>()?)).end(),
    });
    Ok(())
}

fn part(block: &Block) -> Result<String, NotUnderstood> {
    Ok(match block {
        Block::Image(source) => {
            let image = Object::new().put("url", &source.url()).end();
            Object::new().put("type", "image_url").raw("image_url", &image).end()
        }
        Block::File { place, source: Source::Url(_), .. } => {
            return Err(NotUnderstood::new(place.clone(), "Chat Completions takes no URL of a file: send its data"));
        }
        Block::File { name, source, .. } => {
            let name = name.as_deref().unwrap_or("file.pdf");
            let file = Object::new().put("filename", name).put("file_data", &source.url()).end();
            Object::new().put("type", "file").raw("file", &file).end()
        }
        Block::Text(text) => Object::new().put("type", "text").put("text", text).end(),
        Block::Thought { .. } | Block::Call { .. } | Block::Result { .. } => {
            Object::new().put("type", "text").put("text", "").end()
        }
    })
}

fn assistant(blocks: &[Block], model: &Model, to: Dialect) -> String {
    let words = Request::text(blocks);
    let mut message = Object::new().put("role", "assistant");
    let calls: Vec<String> = blocks
        .iter()
        .filter_map(|block| {
            let Block::Call { id, tool, arguments } = block else { return None };
            let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
            let function = Object::new().put("name", &*wire_name(to, &tool.full_name())).put("arguments", arguments).end();
            Some(Object::new().put("id", &*wire_id(to, id)).put("type", "function").raw("function", &function).end())
        })
        .collect();
    message = if words.is_empty() && !calls.is_empty() { message.raw("content", "null") } else { message.put("content", &words) };
    if model.has(Capability::ReasoningContent) {
        let thoughts: Vec<&str> = blocks
            .iter()
            .filter_map(|block| if let Block::Thought { text, .. } = block { Some(text.as_str()) } else { None })
            .collect();
        message = message.put("reasoning_content", &thoughts.join("\n\n"));
    }
    if calls.is_empty() { message.end() } else { message.raw("tool_calls", &list(&calls)).end() }
}
