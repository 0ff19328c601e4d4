//! Writes Responses.

use super::super::ask::NotUnderstood;
use super::json_text::{Object, list};
use super::to_chat::{choice_word, limit};
use super::{Block, Choice, Request, Said, Source};
use crate::dialect::Dialect;
use crate::dialect::names::{wire_id, wire_name};
use crate::model::{Capability, Model};

const DIALECT: Dialect = Dialect::OpenAiResponses;

pub(super) fn write(request: &mut Request, model: &Model, wire: &str) -> Result<String, NotUnderstood> {
    if !request.stop.is_empty() {
        return Err(NotUnderstood::new("stop_sequences", "Responses has no stop sequences; leave it out"));
    }
    let mut body = Object::new().put("model", wire).put("stream", &request.stream).put("store", &false);
    if !request.system.is_empty() {
        body = body.put("instructions", &request.system.join("\n\n"));
    }
    body = body.maybe("max_output_tokens", limit(request, model));
    body = body.maybe("temperature", request.temperature).maybe("top_p", request.top_p);
    if model.has(Capability::Reasoning) {
        let effort = request.effort.map(super::Effort::openai);
        let mut reasoning = Object::new().maybe("effort", effort);
        if effort.is_some_and(|effort| effort != "none") {
            reasoning = reasoning.put("summary", "auto");
        }
        body = body.raw("reasoning", &reasoning.end()).put("include", &["reasoning.encrypted_content"]);
    } else if request.effort.is_some_and(|effort| effort != super::Effort::None) {
        request.ignored.push("thinking".to_owned());
    }
    if let Some(format) = &request.format {
        let format = Object::new()
            .put("type", "json_schema")
            .put("name", &format.name)
            .put("strict", &true)
            .raw("schema", &format.schema)
            .end();
        body = body.raw("text", &Object::new().raw("format", &format).end());
    }
    if !request.tools.is_empty() {
        let tools: Vec<String> = request
            .tools
            .iter()
            .map(|tool| {
                Object::new()
                    .put("type", "function")
                    .put("name", &*wire_name(DIALECT, &tool.full_name()))
                    .maybe("description", tool.description.as_ref())
                    .raw("parameters", &tool.schema_with_properties())
                    .put("strict", &tool.strict.unwrap_or(false))
                    .end()
            })
            .collect();
        body = body.raw("tools", &list(&tools)).maybe("parallel_tool_calls", request.parallel);
        body = match &request.choice {
            None => body,
            Some(Choice::One(name)) => {
                let one = Object::new().put("type", "function").put("name", &*wire_name(DIALECT, name)).end();
                body.raw("tool_choice", &one)
            }
            Some(choice) => body.put("tool_choice", choice_word(choice)),
        };
    }
    let mut input = Vec::new();
    for said in &request.said {
        match said {
            Said::System(text) => input.push(message("developer", &[part("input_text", text)])),
            Said::User(blocks) => user(&mut input, blocks),
            Said::Model(blocks) => assistant(&mut input, blocks),
        }
    }
    Ok(body.raw("input", &list(&input)).end())
}

fn message(role: &str, parts: &[String]) -> String {
    Object::new().put("type", "message").put("role", role).raw("content", &list(parts)).end()
}

fn part(kind: &str, text: &str) -> String {
    Object::new().put("type", kind).put("text", text).end()
}

/// A part of what the user or a tool said.
fn input_part(block: &Block) -> Option<String> {
    Some(match block {
        Block::Text(text) => part("input_text", text),
        Block::Image(source) => {
            Object::new().put("type", "input_image").put("image_url", &source.url()).put("detail", "auto").end()
        }
        Block::File { name, source, .. } => {
            let file = Object::new().put("type", "input_file");
            match source {
                Source::Url(url) => file.put("file_url", url),
                Source::Data { .. } => {
                    file.put("filename", name.as_deref().unwrap_or("file.pdf")).put("file_data", &source.url())
                }
            }
            .end()
        }
        Block::Thought { .. } | Block::Call { .. } | Block::Result { .. } => return None,
    })
}

fn user(input: &mut Vec<String>, blocks: &[Block]) {
    for block in blocks {
        let Block::Result { id, parts, .. } = block else { continue };
        let result = Object::new().put("type", "function_call_output").put("call_id", &*wire_id(DIALECT, id));
        let is_text = parts.iter().all(|part| matches!(part, Block::Text(_)));
        input.push(if is_text {
            result.put("output", &Request::text(parts)).end()
        } else {
            result.raw("output", &list(&parts.iter().filter_map(input_part).collect::<Vec<_>>())).end()
        });
    }
    let parts: Vec<String> = blocks.iter().filter_map(input_part).collect();
    if !parts.is_empty() {
        input.push(message("user", &parts));
    }
}

fn assistant(input: &mut Vec<String>, blocks: &[Block]) {
    for block in blocks {
        match block {
            Block::Text(text) if text.is_empty() => {}
            Block::Text(text) => input.push(message("assistant", &[part("output_text", text)])),
            // The item as its provider gave it.
            Block::Thought { sealed, .. } => input.extend(sealed.clone()),
            Block::Call { id, tool, arguments } => input.push(
                Object::new()
                    .put("type", "function_call")
                    .put("call_id", &*wire_id(DIALECT, id))
                    .put("name", &*wire_name(DIALECT, &tool.full_name()))
                    .put("arguments", arguments)
                    .end(),
            ),
            Block::Image(_) | Block::File { .. } | Block::Result { .. } => {}
        }
    }
}
