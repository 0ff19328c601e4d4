//! Signatures that only the double can make, so that thoughts which were changed on their way, or moved, are told.

use foreword_core::hash::Hash;
use serde_json::Value;

use foreword_prompt_cache::body_prompt::bare;
use foreword_provider::dialect::Dialect;

/// Signs a thought that came after `messages`.
pub(super) fn sign(thought: &str, messages: &[Value]) -> String {
    format!("sig-{}-{}", Hash::of(thought).short(), Hash::of(place(messages)).short())
}

/// The messages without their cache marks, which move.
fn place(messages: &[Value]) -> String {
    let mut text = String::new();
    for message in messages {
        text.push_str(message["role"].as_str().unwrap_or_default());
        for block in message["content"].as_array().into_iter().flatten() {
            text.push_str(&bare(block));
        }
    }
    text
}

/// Refuses thoughts that were changed; where they are bound, also those behind messages that were.
pub(super) fn check(dialect: Dialect, body: &Value, bound: bool) -> Result<(), String> {
    if dialect != Dialect::Anthropic {
        return Ok(());
    }
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, message) in messages.iter().enumerate() {
        for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
            if block["type"] != "thinking" {
                continue;
            }
            let signature = block["signature"].as_str().unwrap_or_default();
            let expect = sign(block["thinking"].as_str().unwrap_or_default(), &messages[..at]);
            let own = |signature: &str| signature.rsplit_once('-').map(|(own, _)| own.to_owned());
            if own(signature) != own(&expect) {
                return Err(format!("messages.{at}.content.{index}: Invalid `signature` in `thinking` block"));
            }
            if bound && signature != expect {
                return Err(format!(
                    "messages.{at}.content.{index}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn thoughts_are_taken_back_where_they_were_thought() {
        let asked = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
        let signature = sign("Hm", &[asked("x")]);
        let check = |question: &str, thought: &str, bound: bool, expect: &str| {
            let block = json!({"type": "thinking", "thinking": thought, "signature": signature});
            let mut first = asked(question);
            first["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            let body = json!({"messages": [first, {"role": "assistant", "content": [block]}]});
            let text = super::check(Dialect::Anthropic, &body, bound).err().unwrap_or_default();
            assert!(text.contains(expect) && text.is_empty() == expect.is_empty(), "{text}");
        };
        check("x", "Hm", true, "");
        check("y", "Hm", false, "");
        check("y", "Hm", true, "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound");
        check("x", "Ha", false, "Invalid `signature`");
    }
}
