//! What a client sends as a prompt, as a message of a session.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource, ResourceLink};
use serde_json::{Value, json};

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
    pub(crate) fn read(blocks: Vec<ContentBlock>, root: &Path) -> Result<Self, String> {
        if blocks.len() > MOST_BLOCKS {
            return Err(format!("a prompt may have {MOST_BLOCKS} blocks, not {}", blocks.len()));
        }
        let mut prompt = Self::default();
        for block in blocks {
            match block {
                ContentBlock::Text(text) => prompt.words.push_str(&text.text),
                ContentBlock::Image(image) => prompt.images.push(image.data),
                ContentBlock::ResourceLink(link) => prompt.link(&link, root),
                ContentBlock::Resource(resource) => match resource.resource {
                    EmbeddedResourceResource::TextResourceContents(text) => {
                        prompt.mention(&text.uri, root);
                        prompt.texts.push((text.uri, text.text));
                    }
                    _ => return Err("binary resources are not supported; send text or an image".to_owned()),
                },
                _ => return Err("this kind of content is not supported; send text, images, links or text resources".to_owned()),
            }
        }
        Ok(prompt)
    }

    /// A link names a note of the vault, a file that the client may read, or an address.
    fn link(&mut self, link: &ResourceLink, root: &Path) {
        self.mention(&link.uri, root);
        match local(&link.uri) {
            Some(path) => match in_vault(&path, root) {
                Some(note) => self.notes.push(note),
                None => self.files.push(path),
            },
            None if link.uri.starts_with("http://") || link.uri.starts_with("https://") => self.notes.push(link.uri.clone()),
            None => {}
        }
    }

    /// Keeps a mention at its place in the words.
    fn mention(&mut self, uri: &str, root: &Path) {
        let name = local(uri).map_or_else(|| uri.to_owned(), |path| {
            in_vault(&path, root).unwrap_or_else(|| path.display().to_string())
        });
        self.words.push_str(&format!("`{name}`"));
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
    use agent_client_protocol::v1::schema::{EmbeddedResource, ImageContent, TextContent, TextResourceContents};

    use super::*;

    #[test]
    fn blocks_become_one_message() {
        let root = Path::new("/vault");
        let link = |uri: &str| ContentBlock::ResourceLink(ResourceLink::new("name", uri));
        let resource = EmbeddedResourceResource::TextResourceContents(TextResourceContents::new("let x = 1;", "file:///src/main.rs"));
        let blocks = vec![
            ContentBlock::Text(TextContent::new("Compare ")),
            link("file:///vault/Kitchen/Rye%20bread.md"),
            ContentBlock::Text(TextContent::new(" with ")),
            link("file:///vault/../etc/passwd"),
            ContentBlock::Resource(EmbeddedResource::new(resource)),
            link("https://example.org/a"),
            ContentBlock::Image(ImageContent::new("AAAA", "image/png")),
        ];
        let prompt = Prompt::read(blocks, root).unwrap();
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
    fn addresses_of_files() {
        let check = |uri: &str, expect: Option<&str>| assert_eq!(local(uri), expect.map(PathBuf::from), "{uri}");
        check("file:///a/b%20c.md", Some("/a/b c.md"));
        check("file://localhost/a.md#L3", Some("/a.md"));
        check("file://elsewhere/a.md", None);
        check("file:///a%2", None);
        check("zed:///a", None);
    }
}
