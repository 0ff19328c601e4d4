//! How messages are written for the model: its file's own template, of which one is known here.

use foreword_core::message::Role;

use super::Fault;
use crate::bpe::Bpe;
use crate::gguf::Metadata;

/// `ChatML`, with a system message of its own where there is none. Another template would be another model's.
pub(super) const CHATML: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n\
    You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}\
    {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
/// What stands in the place of a system message.
const SYSTEM: &str = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
/// The type of a token that is no text.
const CONTROL: i32 = 3;

/// Writes messages as the tokens that the model was made for.
pub(super) struct Template {
    start: u32,
    end: u32,
    controls: Vec<bool>,
}

impl Template {
    /// The template of a file.
    pub(super) fn new(metadata: &Metadata) -> Result<Self, Fault> {
        if metadata.chat_template.as_deref() != Some(CHATML) {
            return Err(Fault::Template);
        }
        let controls: Vec<bool> = metadata.token_types.iter().map(|kind| *kind == CONTROL).collect();
        let find = |text: &str| {
            let found = metadata.tokens.iter().zip(&controls).position(|(token, control)| token == text && *control);
            found.and_then(|at| u32::try_from(at).ok()).ok_or_else(|| Fault::Token(text.to_owned()))
        };
        Ok(Self { start: find("<|im_start|>")?, end: find("<|im_end|>")?, controls })
    }

    /// Whether `token` is no text, but ends it.
    pub(super) fn ends(&self, token: u32) -> bool {
        self.controls.get(token as usize).is_none_or(|control| *control)
    }

    /// The tokens of `messages`, up to where the model speaks. What a message says is text, whatever it says.
    pub(super) fn write(&self, bpe: &Bpe, messages: &[(Role, &str)]) -> Vec<u32> {
        let system = messages.first().is_none_or(|(role, _)| *role != Role::System).then_some((Role::System, SYSTEM));
        let line_end = bpe.encode("\n");
        let mut tokens = Vec::new();
        for (role, text) in system.iter().chain(messages) {
            tokens.push(self.start);
            tokens.extend(bpe.encode(&format!("{}\n{text}", role.as_str())));
            tokens.push(self.end);
            tokens.extend(&line_end);
        }
        tokens.push(self.start);
        tokens.extend(bpe.encode("assistant\n"));
        tokens
    }
}
