//! Finding sections and blocks by what links say.

use super::super::{block, link, section};
use super::sound;
use crate::note::Part;

/// What a link with this inside finds in the text.
fn check(text: &str, inner: &str, expect: Option<&str>) {
    let note = sound(text);
    let range = match link(inner).part {
        Some(Part::Heading(chain)) => section(text, &note, &chain),
        Some(Part::Block(id)) => block(text, &note, &id),
        None => None,
    };
    assert_eq!(range.map(|range| &text[range]), expect, "{inner}");
}

#[test]
fn headings() {
    let text = "# A b\n1\n## C: d?\n2\n# E\n## C d\n3\n### F [[g|h]]\n4\n## **I** `j`\n5\n";
    check(text, "#A b", Some("# A b\n1\n## C: d?\n2\n"));
    check(text, "#a  B", Some("# A b\n1\n## C: d?\n2\n"));
    check(text, "#C d", Some("## C: d?\n2\n")); // the first that fits
    check(text, "#c: D?", Some("## C: d?\n2\n"));
    check(text, "#E#C d", Some("## C d\n3\n### F [[g|h]]\n4\n"));
    check(text, "#E#F h", Some("### F [[g|h]]\n4\n")); // below, not only right below
    check(text, "#F g h", Some("### F [[g|h]]\n4\n")); // as Obsidian writes such a link
    check(text, "#A b#F h", None);
    check(text, "#E#A b", None);
    check(text, "#I j", Some("## **I** `j`\n5\n"));
    check(text, "#nothing", None);
    check(text, "#", None);
    check("# a\n## b\n# a\n## c\n", "#a#c", Some("## c\n")); // another heading of the same name is tried
    check("# \n## b\n", "#b", Some("## b\n"));
    check("# Ärger\n", "#ärger", Some("# Ärger\n"));
    check("# a-b_c's\n", "#a b c s", None); // these three are not marks
}

#[test]
fn blocks() {
    check("x ^a\n\ny ^B-1", "#^a", Some("x"));
    check("x ^a\n\ny ^B-1", "#^b-1", Some("y"));
    check("x ^a\n\ny ^a", "#^a", Some("x"));
    check("x ^a", "#^b", None);
}
