//! What a client sends as a prompt, as a message of a session.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use crate::backend::text;

/// The largest number of blocks that are read.
const MOST_BLOCKS: usize = 200;

/// A prompt, taken apart.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Prompt {
    /// What the user wrote.
    pub(crate) words: String,
    /// Notes of the vault that are attached.
    pub(crate) notes: Vec<String>,
    /// Files that only the client can read.
    pub(crate) files: Vec<PathBuf>,
    /// Texts that came with the prompt: their address and content.
    pub(crate) texts: Vec<(String, String)>,
    /// Images in base64.
    pub(crate) images: Vec<String>,
}

impl Prompt {
    /// Reads the blocks of a prompt. `root` is the vault.
    pub(crate) fn read(blocks: &Value, root: &Path) -> Result<Self, String> {
        let blocks = blocks.as_array().ok_or("`prompt` must be a list of content blocks")?;
        if blocks.len() > MOST_BLOCKS {
            return Err(format!("a prompt may have {MOST_BLOCKS} blocks, not {}", blocks.len()));
        }
        let mut prompt = Self::default();
        for block in blocks {
            match text(block, "type") {
                "text" => prompt.words.push_str(text(block, "text")),
                "image" => prompt.images.push(text(block, "data").to_owned()),
                "resource_link" => prompt.link(text(block, "uri"), root),
                "resource" => {
                    let resource = &block["resource"];
                    let Some(content) = resource["text"].as_str() else {
                        return Err("binary resources are not supported; send text or an image".to_owned());
                    };
                    prompt.mention(text(resource, "uri"), root);
                    prompt.texts.push((text(resource, "uri").to_owned(), content.to_owned()));
                }
                other => return Err(format!("content of the type {other:?} is not supported")),
            }
        }
        Ok(prompt)
    }

    /// A link names a note of the vault, a file that the client may read, or an address.
    fn link(&mut self, uri: &str, root: &Path) {
        self.mention(uri, root);
        match local(uri) {
            Some(path) => match in_vault(&path, root) {
                Some(note) => self.notes.push(note),
                None => self.files.push(path),
            },
            None if uri.starts_with("http://") || uri.starts_with("https://") => self.notes.push(uri.to_owned()),
            None => {}
        }
    }

    /// Keeps a mention at its place in the words.
    fn mention(&mut self, uri: &str, root: &Path) {
        let shown = |path: PathBuf| in_vault(&path, root).unwrap_or_else(|| path.display().to_string());
        let name = local(uri).map_or_else(|| uri.to_owned(), shown);
        self.words.extend(["`", &name, "`"]);
    }

    /// The message of the session.
    pub(crate) fn message(self) -> Value {
        let Self { words, notes, texts, images, .. } = self;
        let resources: Vec<Value> = texts.into_iter().map(|(uri, text)| json!({"uri": uri, "text": text})).collect();
        let images: Vec<Value> = images.into_iter().map(|data| json!({"data": data})).collect();
        json!({"words": words, "attach": notes, "resources": resources, "images": images})
    }
}

/// The path in a `file:` address.
fn local(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = path.split(['#', '?']).next()?;
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            bytes.push(u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let path = PathBuf::from(String::from_utf8(bytes).ok()?);
    path.is_absolute().then_some(path)
}

/// The path of a file below the vault; `None` if it is elsewhere, or if a link leads out of the vault.
pub(crate) fn in_vault(path: &Path, root: &Path) -> Option<String> {
    if path.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir)) {
        return None;
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let below = path.strip_prefix(root).ok()?;
    let names: Option<Vec<&str>> = below.components().map(|part| part.as_os_str().to_str()).collect();
    names.filter(|names| !names.is_empty()).map(|names| names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_one_message() {
        let root = Path::new("/vault");
        let words = |text: &str| json!({"type": "text", "text": text});
        let link = |uri: &str| json!({"type": "resource_link", "name": "name", "uri": uri});
        let blocks = json!([
            words("Compare "),
            link("file:///vault/Kitchen/Rye%20bread.md"),
            words(" with "),
            link("file:///vault/../etc/passwd"),
            {"type": "resource", "resource": {"uri": "file:///src/main.rs", "text": "let x = 1;"}},
            link("https://example.org/a"),
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ]);
        let prompt = Prompt::read(&blocks, root).unwrap();
        assert_eq!(
            prompt.words,
            "Compare `Kitchen/Rye bread.md` with `/vault/../etc/passwd``/src/main.rs``https://example.org/a`"
        );
        assert_eq!(prompt.notes, ["Kitchen/Rye bread.md", "https://example.org/a"]);
        assert_eq!(prompt.files, [PathBuf::from("/vault/../etc/passwd")]);
        assert_eq!(prompt.texts, [("file:///src/main.rs".to_owned(), "let x = 1;".to_owned())]);
        assert_eq!(prompt.images, ["AAAA"]);
    }

    #[test]
    fn what_is_no_prompt() {
        let root = Path::new("/vault");
        for wrong in [
            json!(null),
            json!("x"),
            json!([{"type": "audio"}]),
            json!([7]),
            json!([{"type": "resource", "resource": {"blob": ""}}]),
        ] {
            assert!(Prompt::read(&wrong, root).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_of_files() {
        let check = |uri: &str, expect: Option<&str>| assert_eq!(local(uri), expect.map(PathBuf::from), "{uri}");
        check("file:///a/b%20c.md", Some("/a/b c.md"));
        check("file://localhost/a.md#L3", Some("/a.md"));
        check("file://elsewhere/a.md", None);
        check("file:///a%2", None);
        check("zed:///a", None);
    }
}
