//! The members of a JSON object, taken one by one, each with its place. What is left at the end was not understood.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::ask::NotUnderstood;

/// An object of a request.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    place: String,
    members: BTreeMap<String, &'a RawValue>,
}

impl<'a> Fields<'a> {
    /// The object in a JSON text.
    pub(super) fn of(place: impl Into<String>, json: &'a str) -> Result<Self, NotUnderstood> {
        let place = place.into();
        match serde_json::from_str(json) {
            Ok(members) => Ok(Self { place, members }),
            Err(error) => {
                let place = if place.is_empty() { "body".to_owned() } else { place };
                Err(NotUnderstood::new(place, format!("expected a JSON object: {error}")))
            }
        }
    }

    /// The place of a member.
    pub(super) fn place(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// The JSON text of a member; null is none.
    pub(super) fn raw(&mut self, name: &str) -> Option<&'a str> {
        self.members.remove(name).map(RawValue::get).filter(|text| *text != "null")
    }

    /// The JSON text of a member that stays there.
    pub(super) fn peek(&self, name: &str) -> Option<&'a str> {
        self.members.get(name).map(|value| value.get()).filter(|text| *text != "null")
    }

    fn read<T: DeserializeOwned>(&mut self, name: &str, expected: &str) -> Result<Option<T>, NotUnderstood> {
        let Some(text) = self.raw(name) else { return Ok(None) };
        match serde_json::from_str(text) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.wrong(name, format!("expected {expected}"))),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, NotUnderstood> {
        self.read(name, "a string")
    }

    pub(super) fn needed(&mut self, name: &str) -> Result<String, NotUnderstood> {
        let found = self.text(name)?;
        found.ok_or_else(|| self.wrong(name, "expected a string"))
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<Option<bool>, NotUnderstood> {
        self.read(name, "true or false")
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, NotUnderstood> {
        self.read(name, "a number")
    }

    pub(super) fn count(&mut self, name: &str) -> Result<Option<u64>, NotUnderstood> {
        let found: Option<u64> = self.read(name, "a whole number above 0")?;
        match found {
            Some(0) => Err(self.wrong(name, "expected a whole number above 0")),
            found => Ok(found),
        }
    }

    pub(super) fn value(&mut self, name: &str) -> Option<Value> {
        self.raw(name).and_then(|text| serde_json::from_str(text).ok())
    }

    /// The elements of a list.
    pub(super) fn list(&mut self, name: &str) -> Result<Vec<&'a str>, NotUnderstood> {
        let Some(text) = self.raw(name) else { return Ok(Vec::new()) };
        elements(text).ok_or_else(|| self.wrong(name, "expected a list"))
    }

    /// The object in a member.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Fields<'a>>, NotUnderstood> {
        let place = self.place(name);
        self.raw(name).map(|text| Fields::of(place, text)).transpose()
    }

    /// Leaves out hints that change no answer; those that were there are named.
    pub(super) fn ignore(&mut self, names: &[&str], ignored: &mut Vec<String>) {
        for name in names {
            if self.raw(name).is_some() {
                ignored.push(self.place(name));
            }
        }
    }

    pub(super) fn wrong(&self, name: &str, what: impl Into<String>) -> NotUnderstood {
        NotUnderstood::new(self.place(name), what)
    }

    /// Refuses what is left and says something.
    pub(super) fn end(self) -> Result<(), NotUnderstood> {
        let says_nothing = |text: &str| matches!(text, "null" | "false" | "[]" | "{}" | "\"\"");
        match self.members.iter().find(|(_, value)| !says_nothing(value.get())) {
            Some((name, _)) => Err(self.wrong(name, "the API of this model's provider has nothing like it; leave it out")),
            None => Ok(()),
        }
    }
}

/// The elements of a JSON list as texts.
pub(super) fn elements(text: &str) -> Option<Vec<&str>> {
    let found: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(found.into_iter().map(RawValue::get).collect())
}

/// A string in JSON text.
pub(super) fn string(text: &str) -> Option<String> {
    text.starts_with('"').then(|| serde_json::from_str(text).ok()).flatten()
}
