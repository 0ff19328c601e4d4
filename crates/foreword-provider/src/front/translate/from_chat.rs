//! Reads Chat Completions.

use super::super::ask::NotUnderstood;
use super::fields::{Fields, elements, string};
use super::{Block, Choice, ClientTool, Effort, Format, Request, Source, Tool};

/// Hints that change no answer of a model.
const HINTS: [&str; 11] = [
    "user",
    "metadata",
    "store",
    "seed",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "prediction",
    "verbosity",
];

pub(super) fn read(body: &str) -> Result<Request, NotUnderstood> {
    let mut fields = Fields::of("", body)?;
    let mut request = Request { stream: fields.flag("stream")?.unwrap_or(false), ..Request::default() };
    fields.raw("model");
    let options = fields.value("stream_options").unwrap_or_default();
    request.usage = options["include_usage"] == true;
    let limit = fields.count("max_completion_tokens")?;
    request.limit = fields.count("max_tokens")?.filter(|_| limit.is_none()).or(limit);
    request.temperature = fields.number("temperature")?;
    request.top_p = fields.number("top_p")?;
    if let Some(stop) = fields.raw("stop") {
        let list = string(stop).map(|word| vec![word]).or_else(|| serde_json::from_str(stop).ok());
        request.stop = list.ok_or_else(|| fields.wrong("stop", "expected a string or a list of strings"))?;
    }
    if let Some(word) = fields.text("reasoning_effort")? {
        request.effort = Some(Effort::of(&word).ok_or_else(|| fields.wrong("reasoning_effort", "it is not known here"))?);
    }
    for (name, usual) in [("n", 1.0), ("frequency_penalty", 0.0), ("presence_penalty", 0.0)] {
        if fields.number(name)?.is_some_and(|value| (value - usual).abs() > f64::EPSILON) {
            return Err(fields.wrong(name, "the API of this model's provider has nothing like it; leave it out"));
        }
    }
    if fields.value("modalities").is_some_and(|kinds| kinds != serde_json::json!(["text"])) {
        return Err(fields.wrong("modalities", "an answer of this model is text"));
    }
    if let Some(mut format) = fields.object("response_format")? {
        request.format = match format.needed("type")?.as_str() {
            "text" => None,
            "json_schema" => {
                let mut schema =
                    format.object("json_schema")?.ok_or_else(|| format.wrong("json_schema", "expected an object"))?;
                Some(read_format(&mut schema)?)
            }
            _ => return Err(fields.wrong("response_format", "only `json_schema` can be translated: give a schema")),
        };
    }
    request.parallel = fields.flag("parallel_tool_calls")?;
    request.choice = choice(&mut fields)?;
    for (at, text) in fields.list("tools")?.into_iter().enumerate() {
        let mut listed = Fields::of(format!("tools[{at}]"), text)?;
        let kind = listed.text("type")?.unwrap_or_else(|| "function".to_owned());
        let ("function", Some(mut function)) = (kind.as_str(), listed.object("function")?) else {
            return Err(listed.wrong("type", format!("a tool of type {kind:?} has no equivalent; only functions do")));
        };
        request.tools.push(tool(&mut function, "parameters")?);
    }
    for (at, text) in fields.list("messages")?.into_iter().enumerate() {
        message(&mut request, Fields::of(format!("messages[{at}]"), text)?)?;
    }
    fields.ignore(&HINTS, &mut request.ignored);
    fields.end()?;
    Ok(request)
}

/// A function with the schema of its arguments in `schema`.
pub(super) fn tool(function: &mut Fields<'_>, schema: &str) -> Result<Tool, NotUnderstood> {
    let name = function.needed("name")?;
    Ok(Tool {
        client: ClientTool::of(&name),
        description: function.text("description")?,
        schema: function.raw(schema).map(str::to_owned),
        strict: function.flag("strict")?,
    })
}

/// A form of the answer, by its name and its schema.
pub(super) fn read_format(format: &mut Fields<'_>) -> Result<Format, NotUnderstood> {
    let name = format.text("name")?.unwrap_or_else(|| "answer".to_owned());
    let schema = format.raw("schema").ok_or_else(|| format.wrong("schema", "a schema is needed"))?;
    Ok(Format { name, schema: schema.to_owned() })
}

/// `tool_choice` as OpenAI has it.
pub(super) fn choice(fields: &mut Fields<'_>) -> Result<Option<Choice>, NotUnderstood> {
    let Some(text) = fields.raw("tool_choice") else { return Ok(None) };
    let wrong = || fields.wrong("tool_choice", "expected `auto`, `none`, `required` or one function");
    Ok(Some(match string(text).as_deref() {
        Some("auto") => Choice::Auto,
        Some("none") => Choice::None,
        Some("required") => Choice::Any,
        Some(_) => return Err(wrong()),
        None => {
            let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            let name = value.pointer("/function/name").or_else(|| value.get("name")).and_then(serde_json::Value::as_str);
            match (value["type"].as_str(), name) {
                (Some("function" | "custom"), Some(name)) => Choice::One(name.to_owned()),
                _ => return Err(wrong()),
            }
        }
    }))
}

fn message(request: &mut Request, mut fields: Fields<'_>) -> Result<(), NotUnderstood> {
    let role = fields.needed("role")?;
    let place = fields.place("content");
    let content = parts(&place, fields.raw("content"))?;
    match role.as_str() {
        "system" | "developer" => request.instruct(Request::text(&content)),
        "user" => request.user(content),
        "tool" => {
            let id = fields.needed("tool_call_id")?;
            request.user(vec![Block::Result { id, parts: content, failed: false }]);
        }
        "assistant" => {
            let mut blocks = thoughts(&mut fields)?;
            blocks.extend(content);
            if let Some(refusal) = fields.text("refusal")? {
                blocks.push(Block::Text(refusal));
            }
            for (at, text) in fields.list("tool_calls")?.into_iter().enumerate() {
                let mut call = Fields::of(format!("{}[{at}]", fields.place("tool_calls")), text)?;
                let id = call.needed("id")?;
                let Some(mut function) = call.object("function")? else {
                    return Err(call.wrong("function", "only calls of functions can be translated"));
                };
                let tool = ClientTool::of(&function.needed("name")?);
                blocks.push(Block::Call { id, tool, arguments: function.text("arguments")?.unwrap_or_default() });
            }
            if fields.peek("function_call").is_some() {
                return Err(fields.wrong("function_call", "calls are read in `tool_calls` only"));
            }
            if fields.peek("audio").is_some() {
                return Err(fields.wrong("audio", "the API of this model's provider has nothing like it"));
            }
            request.model(blocks);
        }
        other => return Err(fields.wrong("role", format!("{other:?} is no role"))),
    }
    Ok(())
}

/// Thoughts of an earlier answer that the client hands back.
fn thoughts(fields: &mut Fields<'_>) -> Result<Vec<Block>, NotUnderstood> {
    let text = fields.text("reasoning_content")?;
    let mut blocks = Vec::new();
    for (at, detail) in fields.list("reasoning_details")?.into_iter().enumerate() {
        let mut detail = Fields::of(format!("{}[{at}]", fields.place("reasoning_details")), detail)?;
        let sealed = detail.text("data")?.and_then(|data| data.strip_prefix(super::SEALED).map(str::to_owned));
        if sealed.is_some() {
            blocks.push(Block::Thought { text: detail.text("text")?.unwrap_or_default(), sealed });
        }
    }
    if blocks.is_empty() {
        blocks.extend(text.map(|text| Block::Thought { text, sealed: None }));
    }
    Ok(blocks)
}

/// A content that is a text or a list of parts, in Chat Completions and Responses.
pub(super) fn parts(place: &str, content: Option<&str>) -> Result<Vec<Block>, NotUnderstood> {
    let Some(content) = content else { return Ok(Vec::new()) };
    if let Some(text) = string(content) {
        return Ok(vec![Block::Text(text)]);
    }
    let list = elements(content).ok_or_else(|| NotUnderstood::new(place, "expected a string or a list of parts"))?;
    list.into_iter().enumerate().map(|(at, text)| part(Fields::of(format!("{place}[{at}]"), text)?)).collect()
}

fn part(mut fields: Fields<'_>) -> Result<Block, NotUnderstood> {
    let kind = fields.needed("type")?;
    Ok(match kind.as_str() {
        "text" | "input_text" | "output_text" => Block::Text(fields.needed("text")?),
        "refusal" => Block::Text(fields.needed("refusal")?),
        "image_url" => {
            let mut image = fields.object("image_url")?.ok_or_else(|| fields.wrong("image_url", "expected an object"))?;
            Block::Image(Source::of_url(&image.needed("url")?))
        }
        "input_image" => match fields.text("image_url")? {
            Some(url) => Block::Image(Source::of_url(&url)),
            None => return Err(fields.wrong("file_id", "the image is kept at another provider: send its data or its URL")),
        },
        "file" => {
            let mut file = fields.object("file")?.ok_or_else(|| fields.wrong("file", "expected an object"))?;
            read_file(&mut file)?
        }
        "input_file" => read_file(&mut fields)?,
        other => return Err(fields.wrong("type", format!("a part of type {other:?} has no equivalent for this model"))),
    })
}

fn read_file(fields: &mut Fields<'_>) -> Result<Block, NotUnderstood> {
    let name = fields.text("filename")?;
    let source = match (fields.text("file_data")?, fields.text("file_url")?) {
        (Some(data), _) => Source::of_url(&data),
        (None, Some(url)) => Source::Url(url),
        (None, None) => {
            return Err(fields.wrong("file_id", "the file is kept at another provider: send its data"));
        }
    };
    Ok(Block::File { name, source, place: fields.place("file_data") })
}
