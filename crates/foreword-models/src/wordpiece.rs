//! BERT's tokenizer, uncased: text to the word pieces that the embedding model was trained on.
//!
//! Exact to the reference implementation, odd corners included, because a different piece is a different vector. It stops reading
//! where the model would stop listening, so a long text costs no more than its beginning.

mod characters;

use std::collections::HashMap;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;

use characters::{apart, is_accent, is_dropped, is_punctuation};

/// Tokens of a text at most, those at its start and end included.
pub const MOST_TOKENS: usize = 256;

/// The longest word, in characters, that is cut into pieces; a longer one counts as unknown.
const LONGEST_WORD: usize = 100;

/// What a piece within a word starts with in the vocabulary.
const WITHIN: &str = "##";

/// Why a tokenizer file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WordPieceError {
    /// It is not a tokenizer file.
    #[error("not a valid tokenizer: {0}")]
    Json(#[from] serde_json::Error),
    /// It describes another kind of tokenizer.
    #[error("`{field}` is {found}, expected {expected}")]
    Kind {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What is supported.
        expected: &'static str,
    },
    /// A token that every text needs is not in the vocabulary.
    #[error("the vocabulary has no `{0}`")]
    Missing(&'static str),
    /// It has more pieces than the model has vectors, or numbers them beyond.
    #[error("the vocabulary has token ids up to {found}, but the model has {most}")]
    Size {
        /// One more than the largest number of a piece.
        found: usize,
        /// What the model knows.
        most: usize,
    },
}

#[derive(Deserialize)]
struct TokenizerFile {
    normalizer: Normalizer,
    pre_tokenizer: Kind,
    model: Model,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Normalizer {
    r#type: String,
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    lowercase: bool,
}

#[derive(Deserialize)]
struct Model {
    r#type: String,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: HashMap<String, u32>,
}

/// Special tokens, which are also recognised where they stand in a text, as the reference does.
struct Special {
    unknown: u32,
    start: u32,
    end: u32,
    in_text: [(&'static str, u32); 5],
}

/// The tokenizer.
pub struct WordPiece {
    first: HashMap<Box<str>, u32>,
    within: HashMap<Box<str>, u32>,
    /// The longest piece in bytes.
    longest: usize,
    size: usize,
    special: Special,
}

impl WordPiece {
    /// The tokenizer that a `tokenizer.json` describes.
    pub fn new(json: &[u8]) -> Result<Self, WordPieceError> {
        let file: TokenizerFile = serde_json::from_slice(json)?;
        check_kind(&file)?;

        let id = |token| file.model.vocab.get(token).copied().ok_or(WordPieceError::Missing(token));
        let in_text = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
        let in_text = [
            (in_text[0], id(in_text[0])?),
            (in_text[1], id(in_text[1])?),
            (in_text[2], id(in_text[2])?),
            (in_text[3], id(in_text[3])?),
            (in_text[4], id(in_text[4])?),
        ];
        let special = Special { unknown: in_text[1].1, start: in_text[2].1, end: in_text[3].1, in_text };

        let size = file.model.vocab.values().max().map_or(0, |id| *id as usize + 1);
        let longest = file.model.vocab.keys().map(String::len).max().unwrap_or(0);
        let (mut first, mut within) = (HashMap::new(), HashMap::new());
        for (piece, id) in file.model.vocab {
            match piece.strip_prefix(WITHIN) {
                Some(rest) if !rest.is_empty() => within.insert(rest.into(), id),
                _ => first.insert(piece.into_boxed_str(), id),
            };
        }
        Ok(Self { first, within, longest, size, special })
    }

    /// One more than the largest number of a piece.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The tokens of `text`: a start, at most 254 pieces, an end.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut out = Pieces { tokenizer: self, ids: vec![self.special.start], word: Word::default() };
        let mut rest = text;
        while !rest.is_empty() && !out.full() {
            let (before, special) = self.next_special(rest);
            out.text(&rest[..before]);
            out.end_word();
            if let Some((token, id)) = special {
                out.ids.push(id);
                rest = &rest[before + token.len()..];
            } else {
                rest = "";
            }
        }
        out.ids.truncate(MOST_TOKENS - 1);
        out.ids.push(self.special.end);
        out.ids
    }

    /// Where the next special token starts, and which it is.
    fn next_special(&self, text: &str) -> (usize, Option<(&'static str, u32)>) {
        let mut brackets = text.match_indices('[');
        let found = brackets.find_map(|(at, _)| {
            let special = self.special.in_text.iter().find(|(token, _)| text[at..].starts_with(token))?;
            Some((at, *special))
        });
        found.map_or((text.len(), None), |(at, special)| (at, Some(special)))
    }

    /// The pieces of a word: at each place the longest that fits. A word that cannot be covered is one unknown piece.
    fn cut(&self, word: &str, ids: &mut Vec<u32>) {
        let before = ids.len();
        let mut rest = word;
        while !rest.is_empty() {
            let pieces = if rest.len() == word.len() { &self.first } else { &self.within };
            let mut end = rest.floor_char_boundary(self.longest);
            let id = loop {
                match pieces.get(&rest[..end]) {
                    Some(id) => break Some(*id),
                    None if end == 0 => break None,
                    None => end = rest.floor_char_boundary(end - 1),
                }
            };
            let Some(id) = id.filter(|_| end > 0) else {
                ids.truncate(before);
                ids.push(self.special.unknown);
                return;
            };
            ids.push(id);
            rest = &rest[end..];
        }
    }
}

fn check_kind(file: &TokenizerFile) -> Result<(), WordPieceError> {
    let TokenizerFile { normalizer, pre_tokenizer, model } = file;
    let check = |field, found: String, expected: &'static str| {
        if found == expected { Ok(()) } else { Err(WordPieceError::Kind { field, found, expected }) }
    };
    check("normalizer.type", normalizer.r#type.clone(), "BertNormalizer")?;
    check("normalizer.clean_text", normalizer.clean_text.to_string(), "true")?;
    check("normalizer.handle_chinese_chars", normalizer.handle_chinese_chars.to_string(), "true")?;
    check("normalizer.strip_accents", normalizer.strip_accents.unwrap_or(normalizer.lowercase).to_string(), "true")?;
    check("normalizer.lowercase", normalizer.lowercase.to_string(), "true")?;
    check("pre_tokenizer.type", pre_tokenizer.r#type.clone(), "BertPreTokenizer")?;
    check("model.type", model.r#type.clone(), "WordPiece")?;
    check("model.unk_token", model.unk_token.clone(), "[UNK]")?;
    check("model.continuing_subword_prefix", model.continuing_subword_prefix.clone(), WITHIN)?;
    check("model.max_input_chars_per_word", model.max_input_chars_per_word.to_string(), "100")
}

/// A word as it is read. What comes after the longest word is counted, not kept.
#[derive(Default)]
struct Word {
    text: String,
    chars: usize,
}

struct Pieces<'a> {
    tokenizer: &'a WordPiece,
    ids: Vec<u32>,
    word: Word,
}

impl Pieces<'_> {
    fn full(&self) -> bool {
        self.ids.len() >= MOST_TOKENS - 1
    }

    /// Reads a stretch of text without special tokens.
    fn text(&mut self, text: &str) {
        // Most text is plain, and decomposing is what takes the time.
        let (plain, rest) = text.split_at(plain_prefix(text));
        for byte in plain.bytes() {
            if self.full() {
                return;
            }
            if !is_dropped(char::from(byte)) {
                self.character(char::from(byte.to_ascii_lowercase()));
            }
        }
        for character in rest.chars().filter(|character| !is_dropped(*character)).flat_map(apart).nfd() {
            if self.full() {
                return;
            }
            if !is_accent(character) {
                character.to_lowercase().for_each(|character| self.character(character));
            }
        }
    }

    fn character(&mut self, character: char) {
        if character.is_whitespace() {
            self.end_word();
        } else if is_punctuation(character) {
            self.end_word();
            self.push(character);
            self.end_word();
        } else {
            self.push(character);
        }
    }

    fn push(&mut self, character: char) {
        self.word.chars += 1;
        if self.word.chars <= LONGEST_WORD {
            self.word.text.push(character);
        }
    }

    fn end_word(&mut self) {
        if self.word.chars > LONGEST_WORD {
            self.ids.push(self.tokenizer.special.unknown);
        } else {
            self.tokenizer.cut(&self.word.text, &mut self.ids);
        }
        self.word.text.clear();
        self.word.chars = 0;
    }
}

/// How much of the start of `text` can be read byte by byte: ASCII, up to the last word before something else, because an
/// accent changes the letter before it.
fn plain_prefix(text: &str) -> usize {
    let ascii = text.bytes().position(|byte| !byte.is_ascii()).unwrap_or(text.len());
    if ascii == text.len() { ascii } else { ascii.saturating_sub(1) }
}
