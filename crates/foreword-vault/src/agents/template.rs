//! `${VAR}` and `${VAR:-default}` in a value of a tool server's entry. One reader, so that what a person is shown and what is filled in
//! are the same.

/// A piece of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text that stays as it is.
    Text(&'a str),
    /// A variable that is filled in when the server is started.
    Variable {
        /// Its name.
        name: &'a str,
        /// The value where the variable is not set.
        default: Option<&'a str>,
    },
}

/// The pieces of a value, in order. A `${` without an end is text.
pub fn template_parts(value: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = value;
    while let Some((before, (inside, behind))) =
        rest.split_once("${").and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        if !before.is_empty() {
            parts.push(Part::Text(before));
        }
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, default)| (name, Some(default)));
        parts.push(Part::Variable { name, default });
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::Part::{Text, Variable};
    use super::*;

    #[test]
    fn parts_of_values() {
        let check = |value: &str, expect: &[Part<'_>]| assert_eq!(template_parts(value), expect, "{value}");
        let plain = |name| Variable { name, default: None };
        check("", &[]);
        check("plain $HOME {x}", &[Text("plain $HOME {x}")]);
        check("Bearer ${KEY}.", &[Text("Bearer "), plain("KEY"), Text(".")]);
        check("${A}${B:-b:-c}", &[plain("A"), Variable { name: "B", default: Some("b:-c") }]);
        check("${A${B}", &[plain("A${B")]);
        check("${KEY", &[Text("${KEY")]);
        check("}${}", &[Text("}"), plain("")]);
    }
}
