//! JSON written piece by piece, so that a client's own JSON text can stand in it as it is.

use serde::Serialize;

/// An object under construction.
#[derive(Debug)]
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Self {
        Self("{".to_owned())
    }

    /// A member.
    pub(super) fn put(self, name: &str, value: &(impl Serialize + ?Sized)) -> Self {
        let text = text(value);
        self.raw(name, &text)
    }

    /// A member, where there is a value.
    pub(super) fn maybe(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.put(name, &value),
            None => self,
        }
    }

    /// A member that is JSON text already.
    pub(super) fn raw(mut self, name: &str, json: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&text(name));
        self.0.push(':');
        self.0.push_str(json);
        self
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// JSON text of a value.
pub(super) fn text(value: &(impl Serialize + ?Sized)) -> String {
    // Texts, numbers and lists of them can always be written.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// A list of JSON texts.
pub(super) fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}
