//! Provider-neutral usage. Providers disagree on whether cached tokens are part of the input: here they are.

use foreword_core::tokens::Tokens;
use serde_json::Value;

use crate::dialect::Dialect;

/// How a cache treated the tokens of one prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// Read from it.
    pub read: Tokens,
    /// Written to it, for whatever lifetime; none where writing is not charged.
    pub write: Tokens,
    /// The part of `write` that was written for the long lifetime.
    pub write_long: Tokens,
    /// Neither.
    pub uncached: Tokens,
}

impl CacheUse {
    /// All tokens of the prompt.
    pub fn total(&self) -> Tokens {
        self.read + self.write + self.uncached
    }

    /// A prompt of which `read` came from the cache and nothing was written.
    pub fn reading(total: Tokens, read: Tokens) -> Self {
        Self { read, uncached: total - read, ..Self::default() }
    }
}

/// The token usage of one request as counted by the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, cached or not.
    pub input: Tokens,
    /// The part read from the cache.
    pub cache_read: Tokens,
    /// The part written to the cache.
    pub cache_write: Tokens,
    /// The part of `cache_write` with the long lifetime.
    pub cache_write_long: Tokens,
    /// The whole reply, including reasoning.
    pub output: Tokens,
    /// The reasoning part of the reply.
    pub reasoning: Tokens,
}

impl Usage {
    /// The usage of the prompt, as in the cache simulators.
    pub fn cache_use(&self) -> CacheUse {
        CacheUse {
            read: self.cache_read,
            write: self.cache_write,
            write_long: self.cache_write_long,
            uncached: self.input - self.cache_read - self.cache_write,
        }
    }

    /// Parses the usage of a response, of the last stream event, or of a usage object.
    pub fn read(dialect: Dialect, response: &Value) -> Option<Self> {
        match dialect {
            Dialect::OpenAiChat | Dialect::LlamaCpp => {
                let timings = response.get("timings");
                match object(response, &["/usage"], "prompt_tokens") {
                    Some(usage) => Some(chat(usage, timings)),
                    None => timings.map(local),
                }
            }
            Dialect::OpenAiResponses => object(response, &["/response/usage", "/usage"], "input_tokens").map(responses),
            Dialect::Anthropic => object(response, &["/message/usage", "/usage"], "input_tokens").map(anthropic),
            Dialect::Gemini => object(response, &["/usageMetadata"], "promptTokenCount").map(gemini),
        }
    }
}

/// The first object at one of `paths`, or the value itself if it has the field `known`.
fn object<'a>(value: &'a Value, paths: &[&str], known: &str) -> Option<&'a Value> {
    paths
        .iter()
        .filter_map(|path| value.pointer(path))
        .find(|found| found.is_object())
        .or_else(|| value.get(known).map(|_| value))
}

/// The largest accepted count, so that sums cannot overflow.
const MAX_COUNT: u64 = 1 << 40;

/// A count; missing and null are zero.
fn count(value: &Value, path: &str) -> Tokens {
    Tokens(value.pointer(path).and_then(Value::as_u64).unwrap_or(0).min(MAX_COUNT))
}

fn chat(usage: &Value, timings: Option<&Value>) -> Usage {
    let reported = count(usage, "/prompt_tokens_details/cached_tokens");
    let deepseek = count(usage, "/prompt_cache_hit_tokens");
    // Servers that leave the details out may still say what they did not have to evaluate.
    let timed = timings.map_or(Tokens::ZERO, |timings| count(timings, "/cache_n"));
    let input = count(usage, "/prompt_tokens").max(deepseek + count(usage, "/prompt_cache_miss_tokens"));
    Usage {
        input,
        cache_read: reported.max(deepseek).max(timed).min(input),
        cache_write: count(usage, "/prompt_tokens_details/cache_write_tokens"),
        cache_write_long: Tokens::ZERO,
        output: count(usage, "/completion_tokens"),
        reasoning: count(usage, "/completion_tokens_details/reasoning_tokens"),
    }
}

fn local(timings: &Value) -> Usage {
    let cached = count(timings, "/cache_n");
    Usage {
        input: cached + count(timings, "/prompt_n"),
        cache_read: cached,
        output: count(timings, "/predicted_n"),
        ..Usage::default()
    }
}

fn responses(usage: &Value) -> Usage {
    Usage {
        input: count(usage, "/input_tokens"),
        cache_read: count(usage, "/input_tokens_details/cached_tokens"),
        cache_write: count(usage, "/input_tokens_details/cache_write_tokens"),
        cache_write_long: Tokens::ZERO,
        output: count(usage, "/output_tokens"),
        reasoning: count(usage, "/output_tokens_details/reasoning_tokens"),
    }
}

/// The top level excludes compaction and fallbacks; `iterations`, if present, contain everything.
fn anthropic(usage: &Value) -> Usage {
    match usage.get("iterations").and_then(Value::as_array) {
        Some(iterations) if !iterations.is_empty() => iterations.iter().map(iteration).fold(Usage::default(), |sum, one| Usage {
            input: sum.input + one.input,
            cache_read: sum.cache_read + one.cache_read,
            cache_write: sum.cache_write + one.cache_write,
            cache_write_long: sum.cache_write_long + one.cache_write_long,
            output: sum.output + one.output,
            reasoning: sum.reasoning + one.reasoning,
        }),
        _ => iteration(usage),
    }
}

fn iteration(usage: &Value) -> Usage {
    let cache_read = count(usage, "/cache_read_input_tokens");
    let long = count(usage, "/cache_creation/ephemeral_1h_input_tokens");
    let short = count(usage, "/cache_creation/ephemeral_5m_input_tokens");
    let cache_write = count(usage, "/cache_creation_input_tokens").max(short + long);
    Usage {
        input: count(usage, "/input_tokens") + cache_read + cache_write,
        cache_read,
        cache_write,
        cache_write_long: long,
        output: count(usage, "/output_tokens"),
        reasoning: count(usage, "/output_tokens_details/thinking_tokens"),
    }
}

/// Thoughts are counted beside the candidates, and tool prompts beside the prompt.
fn gemini(usage: &Value) -> Usage {
    let reasoning = count(usage, "/thoughtsTokenCount");
    Usage {
        input: count(usage, "/promptTokenCount") + count(usage, "/toolUsePromptTokenCount"),
        cache_read: count(usage, "/cachedContentTokenCount"),
        output: count(usage, "/candidatesTokenCount") + reasoning,
        reasoning,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(dialect: Dialect, response: &Value, expect: [u64; 6]) {
        let usage = Usage::read(dialect, response).unwrap();
        let found = [usage.input, usage.cache_read, usage.cache_write, usage.cache_write_long, usage.output, usage.reasoning];
        assert_eq!(found.map(|tokens| tokens.0), expect, "{response}");
        assert_eq!(usage.cache_use().total(), usage.input);
    }

    #[test]
    fn one_form_for_all() {
        use Dialect::{Anthropic, Gemini, LlamaCpp, OpenAiChat, OpenAiResponses};
        check(
            OpenAiChat,
            &json!({"usage": {"prompt_tokens": 100, "completion_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 4}}}),
            [100, 60, 30, 0, 9, 4],
        );
        check(
            OpenAiResponses,
            &json!({"type": "response.completed", "response": {"usage": {"input_tokens": 100, "output_tokens": 7,
                "input_tokens_details": {"cached_tokens": 64}, "output_tokens_details": {"reasoning_tokens": 3}}}}),
            [100, 64, 0, 0, 7, 3],
        );
        check(
            Anthropic,
            &json!({"usage": {"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10}, "output_tokens": 5}}),
            [100, 60, 30, 10, 5, 0],
        );
        check(
            Anthropic,
            &json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": null}}}),
            [10, 0, 0, 0, 0, 0],
        );
        check(
            Anthropic,
            &json!({"usage": {"input_tokens": 1, "output_tokens": 1, "iterations": [
                {"input_tokens": 10, "output_tokens": 2}, {"input_tokens": 1, "cache_read_input_tokens": 4, "output_tokens": 1}]}}),
            [15, 4, 0, 0, 3, 0],
        );
        check(
            Gemini,
            &json!({"usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 80,
                "candidatesTokenCount": 5, "thoughtsTokenCount": 6}}),
            [100, 80, 0, 0, 11, 6],
        );
        check(
            LlamaCpp,
            &json!({"usage": {"prompt_tokens": 100, "completion_tokens": 2}, "timings": {"cache_n": 90, "prompt_n": 10}}),
            [100, 90, 0, 0, 2, 0],
        );
        check(LlamaCpp, &json!({"timings": {"cache_n": 90, "prompt_n": 10, "predicted_n": 3}}), [100, 90, 0, 0, 3, 0]);
        check(
            OpenAiChat,
            &json!({"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36, "completion_tokens": 1}),
            [100, 64, 0, 0, 1, 0],
        );
        assert_eq!(Usage::read(Gemini, &json!({"candidates": []})), None);
    }
}
