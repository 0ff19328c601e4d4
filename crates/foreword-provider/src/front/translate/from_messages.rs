//! Reads Anthropic's Messages.

use super::super::ask::NotUnderstood;
use super::fields::{Fields, elements, string};
use super::from_chat::tool;
use super::{Block, Choice, ClientTool, Effort, Format, Request, SEALED, Source};

/// Hints that change no answer of a model: cache marks, accounts, and what is cleared at Anthropic's servers.
const HINTS: [&str; 8] =
    ["metadata", "cache_control", "service_tier", "context_management", "diagnostics", "inference_geo", "speed", "betas"];

pub(super) fn read(body: &str) -> Result<Request, NotUnderstood> {
    let mut fields = Fields::of("", body)?;
    let mut request = Request { stream: fields.flag("stream")?.unwrap_or(false), usage: true, ..Request::default() };
    fields.raw("model");
    request.limit = fields.count("max_tokens")?;
    request.temperature = fields.number("temperature")?;
    request.top_p = fields.number("top_p")?;
    if fields.peek("stop_sequences").is_some() {
        let place = fields.place("stop_sequences");
        let words = fields.list("stop_sequences")?.into_iter().map(string).collect::<Option<Vec<_>>>();
        request.stop = words.ok_or_else(|| NotUnderstood::new(place, "expected strings"))?;
    }
    thinking(&mut request, &mut fields)?;
    if let Some(mut choice) = fields.object("tool_choice")? {
        request.choice = Some(match choice.needed("type")?.as_str() {
            "auto" => Choice::Auto,
            "none" => Choice::None,
            "any" => Choice::Any,
            "tool" => Choice::One(choice.needed("name")?),
            other => return Err(choice.wrong("type", format!("{other:?} is not known here"))),
        });
        request.parallel = choice.flag("disable_parallel_tool_use")?.map(|disable| !disable);
    }
    for (at, text) in fields.list("tools")?.into_iter().enumerate() {
        let mut listed = Fields::of(format!("tools[{at}]"), text)?;
        let kind = listed.text("type")?.unwrap_or_else(|| "custom".to_owned());
        if kind != "custom" {
            let what = format!("{kind:?} runs at its provider, and the provider of this model has no equivalent; turn it off");
            return Err(listed.wrong("type", what));
        }
        request.tools.push(tool(&mut listed, "input_schema")?);
    }
    let system = fields.raw("system");
    request.system = blocks("system", system)?
        .into_iter()
        .filter_map(|block| if let Block::Text(text) = block { Some(text) } else { None })
        .filter(|text| !text.starts_with("x-anthropic-billing-header"))
        .collect();
    for (at, text) in fields.list("messages")?.into_iter().enumerate() {
        let mut message = Fields::of(format!("messages[{at}]"), text)?;
        let content = blocks(&message.place("content"), message.raw("content"))?;
        match message.needed("role")?.as_str() {
            "user" => request.user(content),
            "assistant" => request.model(content),
            "system" => request.instruct(Request::text(&content)),
            other => return Err(message.wrong("role", format!("{other:?} is no role"))),
        }
    }
    fields.ignore(&HINTS, &mut request.ignored);
    fields.end()?;
    Ok(request)
}

/// How much it is to think, and the form of its answer.
fn thinking(request: &mut Request, fields: &mut Fields<'_>) -> Result<(), NotUnderstood> {
    if let Some(mut thinking) = fields.object("thinking")? {
        request.effort = Some(match thinking.needed("type")?.as_str() {
            "disabled" => Effort::None,
            "enabled" => match thinking.count("budget_tokens")?.unwrap_or(0) {
                0..=4096 => Effort::Low,
                4097..=16384 => Effort::Medium,
                _ => Effort::High,
            },
            "adaptive" => Effort::Medium,
            other => return Err(thinking.wrong("type", format!("{other:?} is not known here"))),
        });
    }
    let Some(mut output) = fields.object("output_config")? else { return Ok(()) };
    if let Some(word) = output.text("effort")? {
        let effort = Effort::of(&word).ok_or_else(|| output.wrong("effort", "it is not known here"))?;
        if request.effort != Some(Effort::None) {
            request.effort = Some(effort);
        }
    }
    if let Some(mut format) = output.object("format")? {
        let schema = format.raw("schema").ok_or_else(|| format.wrong("schema", "a schema is needed"))?;
        request.format = Some(Format { name: "answer".to_owned(), schema: schema.to_owned() });
    }
    output.end()
}

/// A content that is a text or a list of blocks.
fn blocks(place: &str, content: Option<&str>) -> Result<Vec<Block>, NotUnderstood> {
    let Some(content) = content else { return Ok(Vec::new()) };
    if let Some(text) = string(content) {
        return Ok(vec![Block::Text(text)]);
    }
    let list = elements(content).ok_or_else(|| NotUnderstood::new(place, "expected a string or a list of blocks"))?;
    list.into_iter().enumerate().map(|(at, text)| block(Fields::of(format!("{place}[{at}]"), text)?)).collect()
}

fn block(mut fields: Fields<'_>) -> Result<Block, NotUnderstood> {
    let kind = fields.needed("type")?;
    let unseal = |text: Option<String>| text.and_then(|text| text.strip_prefix(SEALED).map(str::to_owned));
    Ok(match kind.as_str() {
        "text" => Block::Text(fields.needed("text")?),
        "image" => Block::Image(source(&mut fields)?),
        "document" => {
            let name = fields.text("title")?;
            let place = fields.place("source");
            let text = fields.peek("source").and_then(|text| {
                let mut source = Fields::of("", text).ok()?;
                (source.text("type").ok()?? == "text").then(|| source.text("data").ok())??
            });
            match text {
                Some(text) => Block::Text(text),
                None => Block::File { name, source: source(&mut fields)?, place },
            }
        }
        "thinking" => {
            let sealed = unseal(fields.text("signature")?);
            Block::Thought { text: fields.text("thinking")?.unwrap_or_default(), sealed }
        }
        "redacted_thinking" => Block::Thought { text: String::new(), sealed: unseal(fields.text("data")?) },
        "tool_use" => {
            let arguments = fields.raw("input").unwrap_or("{}").to_owned();
            Block::Call { id: fields.needed("id")?, tool: ClientTool::of(&fields.needed("name")?), arguments }
        }
        "tool_result" => {
            let parts = blocks(&fields.place("content"), fields.raw("content"))?;
            let failed = fields.flag("is_error")?.unwrap_or(false);
            Block::Result { id: fields.needed("tool_use_id")?, parts, failed }
        }
        other => return Err(fields.wrong("type", format!("a block of type {other:?} has no equivalent for this model"))),
    })
}

fn source(fields: &mut Fields<'_>) -> Result<Source, NotUnderstood> {
    let mut source = fields.object("source")?.ok_or_else(|| fields.wrong("source", "expected an object"))?;
    Ok(match source.needed("type")?.as_str() {
        "base64" => Source::Data { media: source.needed("media_type")?, base64: source.needed("data")? },
        "url" => Source::Url(source.needed("url")?),
        other => {
            let what = format!("a source of type {other:?} is kept at another provider: send its data or its URL");
            return Err(source.wrong("type", what));
        }
    })
}
