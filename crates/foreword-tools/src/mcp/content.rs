//! What a call gave back, as the text that a model reads. Bytes that are no text are named with their size, not shown.

use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use serde_json::Value;

use super::listing::line;
use crate::{MAX_OUTPUT, Output};

/// The longest name, kind or address that is shown, in characters.
const SHOWN: usize = 300;

/// The result of a call as an output.
pub(super) fn output(result: &CallToolResult) -> Output {
    let mut text = String::new();
    for block in &result.content {
        // The cap is the toolbox's; this only keeps from copying what it would cut.
        if text.len() > MAX_OUTPUT {
            break;
        }
        append(&mut text, &shown(block));
    }
    // Servers repeat structured content as text for those who do not read it.
    if let Some(structured) = &result.structured_content
        && !result.content.iter().any(|block| repeats(block, structured))
    {
        append(&mut text, &foreword_core::json::to_string(structured));
    }
    if text.is_empty() {
        text.push_str("(The tool gave nothing back.)");
    }
    Output { text, failed: result.is_error == Some(true), ..Output::default() }
}

fn append(text: &mut String, piece: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(piece);
}

fn repeats(block: &ContentBlock, structured: &Value) -> bool {
    let ContentBlock::Text(text) = block else { return false };
    serde_json::from_str::<Value>(&text.text).is_ok_and(|value| value == *structured)
}

fn shown(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => bytes("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => bytes("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {}]\n{text}", line(uri, SHOWN)),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                bytes(&format!("resource {}", line(uri, SHOWN)), mime_type.as_deref().unwrap_or("bytes"), blob)
            }
            _ => "[a resource of an unknown kind]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => link_shown(link),
        _ => "[content of an unknown kind]".to_owned(),
    }
}

fn link_shown(link: &Resource) -> String {
    let described = link.description.as_deref().map(|text| format!(": {}", line(text, SHOWN))).unwrap_or_default();
    format!("[link {} to {}{described}]", line(&link.name, SHOWN), line(&link.uri, SHOWN))
}

/// What base64 stands for, by kind and size.
fn bytes(what: &str, kind: &str, base64: &str) -> String {
    let digits = base64.trim_end_matches('=').len();
    format!("[{what}: {}, {} bytes]", line(kind, SHOWN), digits / 4 * 3 + digits % 4 * 3 / 4)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // a table of cases reads better without ampersands
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_as_text() {
        #[track_caller]
        fn check(result: Value, expect: Output) {
            assert_eq!(output(&serde_json::from_value(result).unwrap()), expect);
        }
        let text = |text: &str| json!({"type": "text", "text": text});
        check(json!({"content": [text("a"), text("b\n"), text("c")]}), Output::done("a\nb\nc"));
        check(json!({"content": [text("no")], "isError": true}), Output::failed("no"));
        check(json!({"content": []}), Output::done("(The tool gave nothing back.)"));
        check(json!({"content": [], "structuredContent": {"b": 1, "a": [2]}}), Output::done(r#"{"a":[2],"b":1}"#));
        check(json!({"content": [text("{\"a\": 1}")], "structuredContent": {"a": 1}}), Output::done("{\"a\": 1}"));
        check(json!({"content": [text("one")], "structuredContent": {"a": 1}}), Output::done("one\n{\"a\":1}"));
        check(
            json!({"content": [{"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}]}),
            Output::done("[image: image/png, 5 bytes]"),
        );
        check(json!({"content": [{"type": "audio", "mimeType": "a\nb", "data": ""}]}), Output::done("[audio: a b, 0 bytes]"));
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "hi"}}]}),
            Output::done("[resource file:///a]\nhi"),
        );
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "file:///a", "blob": "aGVs", "mimeType": "x/y"}}]}),
            Output::done("[resource file:///a: x/y, 3 bytes]"),
        );
        check(
            json!({"content": [{"type": "resource_link", "uri": "file:///a", "name": "a", "description": "an a"}]}),
            Output::done("[link a to file:///a: an a]"),
        );
    }
}
