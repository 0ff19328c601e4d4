//! Any YAML between two `---` lines is read, in order and each key once, or told to be broken.

#![no_main]

use std::collections::HashSet;

use foreword_markdown::frontmatter;

libfuzzer_sys::fuzz_target!(|yaml: &str| {
    let text = format!("---\n{yaml}\n---\n");
    let read = frontmatter::read(&text);
    assert!(text.get(read.range.clone()).is_some_and(|block| block.starts_with("---\n") && block.trim_end().ends_with("\n---")));
    let keys: HashSet<_> = read.fields.iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), read.fields.len(), "each key once");
    if let Some(fault) = &read.fault {
        assert!(!fault.is_empty() && !fault.contains('\n') && fault.chars().count() < 400, "{fault}");
    }
    assert_eq!(read, frontmatter::read(&text), "the same text is read the same way");
});
