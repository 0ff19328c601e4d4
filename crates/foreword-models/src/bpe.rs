//! Byte-level BPE: the tokenizer of GPT-2 and of most models after it, from the vocabulary in a model's file.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::sync::Mutex;

use foreword_core::tokens::{Tokenizer, Tokens};

use crate::gguf::Metadata;
use crate::split::Splitter;

/// Pieces whose size is remembered; then it starts over.
const MAX_CACHED: usize = 65_536;
/// Longer pieces do not come again.
const MAX_CACHED_BYTES: usize = 48;

/// Why a vocabulary cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VocabularyError {
    /// An entry that must be there is not.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// Another kind of tokenizer.
    #[error("`tokenizer.ggml.model` is `{0}`: only `gpt2` (byte-level BPE) is supported")]
    Model(String),
    /// Another way to split texts.
    #[error("`tokenizer.ggml.pre` is `{0}`: only `smollm`, `gpt-2` and `llama-bpe` are supported")]
    Pre(String),
    /// Lists that do not go together.
    #[error("{tokens} tokens but {types} token types")]
    Types {
        /// How many tokens.
        tokens: usize,
        /// How many types.
        types: usize,
    },
    /// A merge of tokens that are not there.
    #[error("merge {index} is {text:?}, which does not combine two tokens into a third")]
    Merge {
        /// Which one, counted from 0.
        index: usize,
        /// The merge.
        text: String,
    },
}

/// A byte-level BPE tokenizer. It reads all text as text: a special token that is written out in it is not one.
pub struct Bpe {
    name: String,
    splitter: Splitter,
    /// Whether a piece that is a token stays whole, whatever the merges say.
    whole_pieces: bool,
    /// Bytes that no token has are not seen by the model.
    bytes: [Option<u32>; 256],
    /// From two neighbours to their rank and what they become.
    merges: HashMap<(u32, u32), (u32, u32)>,
    vocabulary: HashMap<Vec<u8>, u32>,
    /// What each token stands for; nothing for one that cannot come out of a text.
    spelled: Vec<Box<[u8]>>,
    per_message: Tokens,
    /// Sizes of pieces. It changes how fast a text is counted, never the count.
    cache: Mutex<HashMap<Box<str>, u64>>,
}

impl Bpe {
    /// The tokenizer that a file describes, named after its way to split: `smollm`.
    pub fn new(metadata: &Metadata) -> Result<Self, VocabularyError> {
        const NORMAL: i32 = 1;
        let model = metadata.model.as_deref().ok_or(VocabularyError::Missing("tokenizer.ggml.model"))?;
        if model != "gpt2" {
            return Err(VocabularyError::Model(model.to_owned()));
        }
        let pre = metadata.pre.as_deref().ok_or(VocabularyError::Missing("tokenizer.ggml.pre"))?;
        let splitter = Splitter::by_name(pre).ok_or_else(|| VocabularyError::Pre(pre.to_owned()))?;
        let (tokens, types) = (&metadata.tokens, &metadata.token_types);
        if tokens.is_empty() {
            return Err(VocabularyError::Missing("tokenizer.ggml.tokens"));
        }
        if !types.is_empty() && types.len() != tokens.len() {
            return Err(VocabularyError::Types { tokens: tokens.len(), types: types.len() });
        }
        let letters = letters();
        let mut vocabulary = HashMap::with_capacity(tokens.len());
        let mut all = Vec::with_capacity(tokens.len());
        for (id, token) in (0_u32..).zip(tokens) {
            let normal = types.get(id as usize).is_none_or(|kind| *kind == NORMAL);
            // A token that is not written in these letters cannot come out of a text.
            let bytes = spelled(token, &letters).filter(|_| normal).unwrap_or_default();
            all.push(bytes.clone().into_boxed_slice());
            if !bytes.is_empty() {
                vocabulary.entry(bytes).or_insert(id);
            }
        }
        let mut bpe = Self {
            name: pre.to_owned(),
            splitter,
            whole_pieces: splitter == Splitter::Llama3,
            bytes: std::array::from_fn(|byte| vocabulary.get(&[u8::try_from(byte).unwrap_or_default()][..]).copied()),
            merges: HashMap::with_capacity(metadata.merges.len()),
            vocabulary,
            spelled: all,
            per_message: Tokens::ZERO,
            cache: Mutex::default(),
        };
        for (rank, merge) in (0_u32..).zip(&metadata.merges) {
            let (pair, merged) = bpe
                .merge_of(merge, &letters)
                .ok_or_else(|| VocabularyError::Merge { index: rank as usize, text: merge.clone() })?;
            bpe.merges.entry(pair).or_insert((rank, merged));
        }
        if metadata.chat_template.as_deref().is_some_and(|template| template.contains("<|im_start|>")) {
            bpe.per_message = bpe.chatml();
        }
        Ok(bpe)
    }

    /// Under another name, in settings and on the record.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// What a message costs beside its text (role and separators), where the file's chat template is `ChatML`; else none.
    pub fn per_message(&self) -> Tokens {
        self.per_message
    }

    /// The ids of a text's tokens.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.splitter.split(text, |piece| self.encode_piece(piece, &mut ids));
        ids
    }

    /// The bytes that a token stands for: a part of a character perhaps, and nothing for a special token.
    pub fn bytes_of(&self, token: u32) -> &[u8] {
        self.spelled.get(token as usize).map_or(&[], |bytes| bytes)
    }

    /// `<|im_start|>role⏎`, text, `<|im_end|>⏎`
    fn chatml(&self) -> Tokens {
        let longest = ["system", "user", "assistant"].map(|role| self.encode(role).len()).into_iter().max();
        let role_and_line_ends = longest.unwrap_or_default() + 2 * self.encode("\n").len();
        Tokens(2 + role_and_line_ends as u64)
    }

    fn merge_of(&self, merge: &str, letters: &HashMap<char, u8>) -> Option<((u32, u32), u32)> {
        let (left, right) = merge.split_once(' ')?;
        let (left, right) = (spelled(left, letters)?, spelled(right, letters)?);
        let id = |bytes: &[u8]| self.vocabulary.get(bytes).copied();
        Some(((id(&left)?, id(&right)?), id(&[left, right].concat())?))
    }

    fn encode_piece(&self, piece: &str, ids: &mut Vec<u32>) {
        if self.whole_pieces
            && let Some(id) = self.vocabulary.get(piece.as_bytes())
        {
            ids.push(*id);
            return;
        }
        let mut symbols = Symbols::new(piece.bytes().map(|byte| self.bytes[usize::from(byte)]).collect());
        let mut queue = BinaryHeap::new();
        let candidate = |symbols: &Symbols, left: usize| {
            let pair = symbols.pair(left)?;
            let (rank, merged) = *self.merges.get(&pair)?;
            Some(Reverse((rank, left, pair, merged)))
        };
        queue.extend((0..piece.len()).filter_map(|left| candidate(&symbols, left)));
        // Lowest rank first, leftmost first. What a merge made stale is passed over.
        while let Some(Reverse((_, left, pair, merged))) = queue.pop() {
            if symbols.pair(left) != Some(pair) {
                continue;
            }
            symbols.join(left, merged);
            queue.extend(symbols.before(left).and_then(|before| candidate(&symbols, before)));
            queue.extend(candidate(&symbols, left));
        }
        ids.extend(symbols.ids.into_iter().flatten());
    }
}

/// A piece while it is merged: a list of ids with links over the gaps that merges leave.
struct Symbols {
    /// None for a byte without a token, and for what was joined to its left neighbour.
    ids: Vec<Option<u32>>,
    next: Vec<usize>,
    previous: Vec<Option<usize>>,
}

impl Symbols {
    fn new(ids: Vec<Option<u32>>) -> Self {
        Self { next: (1..=ids.len()).collect(), previous: (0..ids.len()).map(|at| at.checked_sub(1)).collect(), ids }
    }

    fn pair(&self, left: usize) -> Option<(u32, u32)> {
        Some((self.ids[left]?, (*self.ids.get(self.next[left])?)?))
    }

    fn before(&self, at: usize) -> Option<usize> {
        self.previous[at]
    }

    fn join(&mut self, left: usize, merged: u32) {
        let right = self.next[left];
        self.ids[left] = Some(merged);
        self.ids[right] = None;
        self.next[left] = self.next[right];
        if let Some(previous) = self.previous.get_mut(self.next[left]) {
            *previous = Some(left);
        }
    }
}

impl Tokenizer for Bpe {
    fn name(&self) -> &str {
        &self.name
    }

    fn count(&self, text: &str) -> Tokens {
        // Where another thread holds the cache, counting without it beats waiting.
        let mut cache = self.cache.try_lock().ok();
        let mut ids = Vec::new();
        let mut total = 0;
        self.splitter.split(text, |piece| {
            if let Some(known) = cache.as_ref().and_then(|cache| cache.get(piece)) {
                total += known;
                return;
            }
            ids.clear();
            self.encode_piece(piece, &mut ids);
            let size = ids.len() as u64;
            total += size;
            if let Some(cache) = &mut cache
                && piece.len() <= MAX_CACHED_BYTES
            {
                if cache.len() >= MAX_CACHED {
                    cache.clear();
                }
                cache.insert(piece.into(), size);
            }
        });
        Tokens(total)
    }
}

impl fmt::Debug for Bpe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bpe({}, {} tokens, {} merges)", self.name, self.vocabulary.len(), self.merges.len())
    }
}

/// How a vocabulary spells bytes: printable ones as themselves, the others as letters from U+0100 on.
fn letters() -> HashMap<char, u8> {
    let mut others = '\u{100}'..;
    (0..=u8::MAX)
        .filter_map(|byte| match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => Some((char::from(byte), byte)),
            _ => Some((others.next()?, byte)),
        })
        .collect()
}

fn spelled(token: &str, letters: &HashMap<char, u8>) -> Option<Vec<u8>> {
    token.chars().map(|c| letters.get(&c).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::tests::Writer;
    use proptest::prelude::*;
    use std::io::Cursor;

    const TOKENS: &[&str] = &[
        "<|im_start|>",
        "<|im_end|>",
        "a",
        "b",
        "c",
        "Ġ",
        "ab",
        "Ġa",
        "Ġab",
        "bc",
        "abc",
        "1",
        "2",
        "12",
        "Ċ",
        "Ã",
        "©",
        "Ã©",
        "aa",
        "aaaa",
        "user",
    ];

    fn tiny(pre: &str) -> Bpe {
        let mut types = vec![1; TOKENS.len()];
        types[..2].fill(3);
        let file = Writer::new()
            .text("tokenizer.ggml.model", "gpt2")
            .text("tokenizer.ggml.pre", pre)
            .texts("tokenizer.ggml.tokens", TOKENS)
            .ints("tokenizer.ggml.token_type", &types)
            .texts("tokenizer.ggml.merges", &["a b", "Ġ a", "b c", "Ġ ab", "ab c", "1 2", "Ã ©", "a a", "aa aa"])
            .text("tokenizer.chat_template", "<|im_start|>{{ x }}")
            .finish(3);
        Bpe::new(&Metadata::read(Cursor::new(file)).unwrap()).unwrap()
    }

    #[test]
    fn exact_ids() {
        fn check(pre: &str, text: &str, expect: &[&str]) {
            let bpe = tiny(pre);
            let expect: Vec<u32> = expect
                .iter()
                .map(|token| u32::try_from(TOKENS.iter().position(|known| known == token).unwrap()).unwrap())
                .collect();
            assert_eq!(bpe.encode(text), expect, "{text:?}");
            for _ in 0..2 {
                assert_eq!(bpe.count(text), Tokens(expect.len() as u64), "{text:?}");
            }
        }
        check("smollm", "", &[]);
        check("smollm", "abc", &["abc"]);
        check("smollm", "bc", &["bc"]);
        check("smollm", "abcbc ab", &["abc", "bc", "Ġab"]);
        check("smollm", "aaaaa", &["aaaa", "a"]);
        check("smollm", "aaab", &["aa", "ab"]);
        check("smollm", "12\n", &["1", "2", "Ċ"]);
        check("gpt-2", "12\n", &["12", "Ċ"]);
        check("gpt-2", " aé", &["Ġa", "Ã©"]);
        // No token for these bytes: the model does not see them, and nothing is merged across.
        check("gpt-2", "azb~", &["a", "b"]);
        // No merge leads to this token.
        check("gpt-2", "user", &[]);
        check("llama-bpe", "user", &["user"]);
        // Written out, it is text.
        check("smollm", "<|im_start|>", &["a"]);
    }

    #[test]
    fn of_a_message() {
        let bpe = tiny("smollm").named("tiny");
        assert_eq!((bpe.name(), bpe.per_message()), ("tiny", Tokens(6)));
        assert_eq!(format!("{bpe:?}"), "Bpe(tiny, 19 tokens, 9 merges)");
    }

    #[test]
    fn faults_are_named() {
        fn check(change: impl Fn(&mut Metadata), expect: &str) {
            let mut metadata = Metadata {
                model: Some("gpt2".into()),
                pre: Some("smollm".into()),
                tokens: vec!["a".into(), "b".into(), "ab".into()],
                merges: vec!["a b".into()],
                ..Metadata::default()
            };
            assert!(Bpe::new(&metadata).is_ok());
            change(&mut metadata);
            let found = Bpe::new(&metadata).unwrap_err().to_string();
            assert!(found.contains(expect), "{found}");
        }
        check(|metadata| metadata.model = None, "`tokenizer.ggml.model` is missing");
        check(|metadata| metadata.model = Some("llama".into()), "is `llama`");
        check(|metadata| metadata.pre = Some("odd".into()), "is `odd`");
        check(|metadata| metadata.tokens.clear(), "`tokenizer.ggml.tokens` is missing");
        check(|metadata| metadata.token_types = vec![1], "3 tokens but 1 token types");
        check(|metadata| metadata.merges.push("a c".into()), "merge 1 is \"a c\"");
        check(|metadata| metadata.merges[0] = "ab".into(), "merge 0 is");
    }

    /// Merges the slow way: the best pair of the whole word, again and again.
    fn slow(bpe: &Bpe, piece: &str) -> Vec<u32> {
        let mut ids: Vec<Option<u32>> = piece.bytes().map(|byte| bpe.bytes[usize::from(byte)]).collect();
        while let Some((_, at, merged)) = (1..ids.len())
            .filter_map(|at| {
                let (rank, merged) = *bpe.merges.get(&(ids[at - 1]?, ids[at]?))?;
                Some((rank, at, merged))
            })
            .min()
        {
            ids[at - 1] = Some(merged);
            ids.remove(at);
        }
        ids.into_iter().flatten().collect()
    }

    proptest! {
        #[test]
        fn as_the_slow_way(piece in "[abcé~]{0,40}") {
            let bpe = tiny("smollm");
            let mut fast = Vec::new();
            bpe.encode_piece(&piece, &mut fast);
            prop_assert_eq!(fast, slow(&bpe, &piece));
        }

        #[test]
        fn count_is_the_length_of_encode(text in "[abc12 \n'é語]{0,60}") {
            for pre in ["smollm", "gpt-2", "llama-bpe"] {
                let bpe = tiny(pre);
                prop_assert_eq!(bpe.count(&text), Tokens(bpe.encode(&text).len() as u64));
            }
        }
    }
}
