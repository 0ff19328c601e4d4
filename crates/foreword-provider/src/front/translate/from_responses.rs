//! Reads Responses.

use super::super::ask::NotUnderstood;
use super::fields::{Fields, string};
use super::from_chat::{choice, parts, read_format, tool};
use super::{Block, ClientTool, Effort, Request, SEALED, Tool};

/// Hints that change no answer of a model.
const HINTS: [&str; 12] = [
    "user",
    "metadata",
    "store",
    "include",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "client_metadata",
    "stream_options",
    "context_management",
];

pub(super) fn read(body: &str) -> Result<Request, NotUnderstood> {
    let mut fields = Fields::of("", body)?;
    let mut request = Request { stream: fields.flag("stream")?.unwrap_or(false), usage: true, ..Request::default() };
    fields.raw("model");
    request.limit = fields.count("max_output_tokens")?;
    request.temperature = fields.number("temperature")?;
    request.top_p = fields.number("top_p")?;
    request.parallel = fields.flag("parallel_tool_calls")?;
    if fields.peek("previous_response_id").is_some() {
        let what = "the provider of this model keeps no responses: send the whole conversation in `input`";
        return Err(fields.wrong("previous_response_id", what));
    }
    if fields.text("truncation")?.is_some_and(|word| word != "disabled") {
        return Err(fields.wrong("truncation", "only `disabled` can be translated"));
    }
    if let Some(mut reasoning) = fields.object("reasoning")? {
        if let Some(word) = reasoning.text("effort")? {
            request.effort = Some(Effort::of(&word).ok_or_else(|| reasoning.wrong("effort", "it is not known here"))?);
        }
        reasoning.ignore(&["summary", "generate_summary", "context"], &mut Vec::new());
        reasoning.end()?;
    }
    if let Some(mut text) = fields.object("text")? {
        if let Some(mut format) = text.object("format")? {
            request.format = match format.needed("type")?.as_str() {
                "text" => None,
                "json_schema" => Some(read_format(&mut format)?),
                _ => return Err(text.wrong("format", "only `json_schema` can be translated: give a schema")),
            };
        }
        text.ignore(&["verbosity"], &mut request.ignored);
        text.end()?;
    }
    request.choice = choice(&mut fields)?;
    for (at, text) in fields.list("tools")?.into_iter().enumerate() {
        read_tool(&mut request.tools, Fields::of(format!("tools[{at}]"), text)?, None)?;
    }
    request.system.extend(fields.text("instructions")?);
    let input = fields.raw("input").unwrap_or("[]");
    if let Some(text) = string(input) {
        request.user(vec![Block::Text(text)]);
    } else {
        let items =
            super::fields::elements(input).ok_or_else(|| NotUnderstood::new("input", "expected a string or a list of items"))?;
        for (at, text) in items.into_iter().enumerate() {
            item(&mut request, Fields::of(format!("input[{at}]"), text)?)?;
        }
    }
    fields.ignore(&HINTS, &mut request.ignored);
    fields.end()?;
    Ok(request)
}

fn read_tool(tools: &mut Vec<Tool>, mut listed: Fields<'_>, namespace: Option<&str>) -> Result<(), NotUnderstood> {
    let kind = listed.text("type")?.unwrap_or_else(|| "function".to_owned());
    match kind.as_str() {
        "function" | "custom" => {
            let mut tool = tool(&mut listed, "parameters")?;
            tool.client.namespace = namespace.map(str::to_owned);
            tool.client.is_custom = kind == "custom";
            if let (true, Some(mut format)) = (tool.client.is_custom, listed.object("format")?)
                && let Some(definition) = format.text("definition")?
            {
                // Without the grammar the model would not know what to write.
                let before = tool.description.take().map(|text| text + "\n\n").unwrap_or_default();
                tool.description = Some(format!("{before}The input follows this grammar:\n{definition}"));
            }
            tools.push(tool);
        }
        "namespace" if namespace.is_none() => {
            let name = listed.needed("name")?;
            let place = listed.place("tools");
            for (at, text) in listed.list("tools")?.into_iter().enumerate() {
                read_tool(tools, Fields::of(format!("{place}[{at}]"), text)?, Some(&name))?;
            }
        }
        other => {
            let what = format!("{other:?} runs at its provider, and the provider of this model has no equivalent; turn it off");
            return Err(listed.wrong("type", what));
        }
    }
    Ok(())
}

fn item(request: &mut Request, mut fields: Fields<'_>) -> Result<(), NotUnderstood> {
    let kind = fields.text("type")?.unwrap_or_else(|| "message".to_owned());
    match kind.as_str() {
        "message" => {
            let place = fields.place("content");
            let content = parts(&place, fields.raw("content"))?;
            match fields.needed("role")?.as_str() {
                "system" | "developer" => request.instruct(Request::text(&content)),
                "user" => request.user(content),
                "assistant" => request.model(content),
                other => return Err(fields.wrong("role", format!("{other:?} is no role"))),
            }
        }
        "reasoning" => {
            let sealed = fields.text("encrypted_content")?.and_then(|text| text.strip_prefix(SEALED).map(str::to_owned));
            let place = fields.place("summary");
            let mut text = String::new();
            for (at, part) in fields.list("summary")?.into_iter().enumerate() {
                text.push_str(&Fields::of(format!("{place}[{at}]"), part)?.text("text")?.unwrap_or_default());
            }
            request.model(vec![Block::Thought { text, sealed }]);
        }
        "function_call" | "custom_tool_call" => {
            let is_custom = kind == "custom_tool_call";
            let tool = ClientTool { name: fields.needed("name")?, namespace: fields.text("namespace")?, is_custom };
            let given = fields.text(if is_custom { "input" } else { "arguments" })?.unwrap_or_default();
            let arguments = if is_custom { serde_json::json!({"input": given}).to_string() } else { given };
            request.model(vec![Block::Call { id: fields.needed("call_id")?, tool, arguments }]);
        }
        "function_call_output" | "custom_tool_call_output" => {
            let id = fields.needed("call_id")?;
            let parts = parts(&fields.place("output"), fields.raw("output"))?;
            request.user(vec![Block::Result { id, parts, failed: false }]);
        }
        "additional_tools" => {
            let place = fields.place("tools");
            for (at, text) in fields.list("tools")?.into_iter().enumerate() {
                read_tool(&mut request.tools, Fields::of(format!("{place}[{at}]"), text)?, None)?;
            }
        }
        other => return Err(fields.wrong("type", format!("an item of type {other:?} has no equivalent for this model"))),
    }
    Ok(())
}
