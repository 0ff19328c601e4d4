//! Copilot CLI: a reply has its output tokens alone; what prompts took stands in sums, when a session ends.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::builder::{Builder, MAIN};
use super::records::RecordReader;
use crate::lenient::{Num, Obj, Size, Text};
use crate::log::{Call, FileLog, Name, Tokens, hash, time_ms};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    data: Obj<Data<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Data<'a> {
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    copilot_version: Text<'a>,
    #[serde(borrow)]
    new_model: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    tool_name: Text<'a>,
    #[serde(borrow)]
    tool_call_id: Text<'a>,
    #[serde(borrow)]
    api_call_id: Text<'a>,
    output_tokens: Num,
    content: Size,
    result: Size,
    #[serde(borrow)]
    context: Obj<Context<'a>>,
    model_metrics: BTreeMap<String, Obj<Metrics>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context<'a> {
    #[serde(borrow)]
    cwd: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metrics {
    requests: Obj<Requests>,
    usage: Obj<Usage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Requests {
    count: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names)] // the log's own names
struct Usage {
    input_tokens: Num,
    output_tokens: Num,
    cache_read_tokens: Num,
    cache_write_tokens: Num,
}

/// Reads one session.
pub(crate) struct Reader {
    builder: Builder,
    main: Name,
    model: Name,
    version: Name,
    /// By model: the line and the time of the last sum, and the sum.
    sums: BTreeMap<String, (u32, i64, Metrics)>,
}

impl RecordReader for Reader {
    type Record<'a> = Record<'a>;

    fn new(mut log: FileLog) -> Self {
        let main = log.intern(MAIN);
        Self { builder: Builder::new(log), main, model: 0, version: 0, sums: BTreeMap::new() }
    }

    fn take(&mut self, line: u32, record: Record<'_>) {
        let at_ms = time_ms(&record.timestamp).unwrap_or_default();
        let Some(data) = record.data.0 else { return };
        match &*record.kind {
            "session.start" | "session.resume" => {
                self.version = self.builder.log.intern(&data.copilot_version);
                if !data.session_id.is_empty() {
                    self.builder.log.session = data.session_id.to_string();
                }
                if let Some(context) = &data.context.0 {
                    self.builder.log.project = context.cwd.to_string();
                }
            }
            "session.model_change" => self.model = self.builder.log.intern(&data.new_model),
            "user.message" => self.builder.heard(self.main, at_ms, data.content.chars),
            "tool.execution_start" => self.builder.calls_tool(hash(&data.tool_call_id), &data.tool_name),
            "tool.execution_complete" => {
                let tool = self.builder.tool(hash(&data.tool_call_id));
                self.builder.result(self.main, at_ms, tool, data.result);
            }
            "assistant.message" if data.output_tokens.0 > 0 => {
                if !data.model.is_empty() {
                    self.model = self.builder.log.intern(&data.model);
                }
                let id = if data.api_call_id.is_empty() { hash(&record.id) } else { hash(&data.api_call_id) };
                let tokens = Tokens { output: data.output_tokens.0, ..Tokens::default() };
                self.builder.call(Call {
                    id,
                    line,
                    chain: self.main,
                    model: self.model,
                    version: self.version,
                    end_ms: at_ms,
                    tokens,
                    ..Call::default()
                });
            }
            "session.shutdown" => {
                for (name, metrics) in data.model_metrics {
                    if let Some(metrics) = metrics.0 {
                        self.sums.insert(name, (line, at_ms, metrics));
                    }
                }
            }
            _ => {}
        }
    }

    fn finish(mut self) -> FileLog {
        // The sums have all that single replies have, and more.
        if !self.sums.is_empty() {
            self.builder.log.calls.clear();
            self.builder.log.results.clear();
        }
        for (name, (line, at_ms, metrics)) in self.sums {
            let usage = metrics.usage.0.unwrap_or_default();
            let read = usage.cache_read_tokens.0.min(usage.input_tokens.0);
            let written = usage.cache_write_tokens.0.min(usage.input_tokens.0 - read);
            let tokens = Tokens {
                input: usage.input_tokens.0 - read - written,
                cache_read: read,
                cache_write_5m: written,
                cache_write_1h: 0,
                output: usage.output_tokens.0,
            };
            let count = u32::try_from(metrics.requests.0.unwrap_or_default().count.0).unwrap_or(u32::MAX).max(1);
            let model = self.builder.log.intern(&name);
            self.builder.call(Call {
                line,
                chain: self.main,
                model,
                version: self.version,
                end_ms: at_ms,
                tokens,
                count,
                ..Call::default()
            });
        }
        self.builder.log
    }
}
