//! Opening what is damaged, and the same vectors from each set of instructions.
//!
//! Most work on a model of zeros: a file with the right table and no bytes on the disk, so nothing needs to be fetched.

#[allow(clippy::duplicate_mod, reason = "shared with tests of other crates")]
#[path = "../../tests/weights/mod.rs"]
mod test_weights;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::weights::{HIDDEN, INNER, LAYERS, POSITIONS, WORDS};
use super::{FILE_LIMIT, MiniLm};
use crate::compute::arches;
use crate::wordpiece::WordPiece;

fn config() -> Value {
    json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_attention_heads": 12,
        "num_hidden_layers": LAYERS, "max_position_embeddings": POSITIONS, "vocab_size": WORDS, "layer_norm_eps": 1e-12,
    })
}

fn tokenizer() -> Value {
    json!({
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103, "tea": 104, "##pot": 105},
        },
    })
}

/// The tensors of the model and their shapes, in the order in which they lie in the file.
fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut all = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![WORDS, HIDDEN]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![POSITIONS, HIDDEN]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, HIDDEN]),
    ];
    let mut both = |name: String, weight: Vec<usize>| {
        all.push((format!("{name}.bias"), vec![weight[0]]));
        all.push((format!("{name}.weight"), weight));
    };
    both("embeddings.LayerNorm".to_owned(), vec![HIDDEN]);
    for layer in 0..LAYERS {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        for part in ["query", "key", "value"] {
            both(name(&format!("attention.self.{part}")), vec![HIDDEN, HIDDEN]);
        }
        both(name("attention.output.dense"), vec![HIDDEN, HIDDEN]);
        both(name("attention.output.LayerNorm"), vec![HIDDEN]);
        both(name("intermediate.dense"), vec![INNER, HIDDEN]);
        both(name("output.dense"), vec![HIDDEN, INNER]);
        both(name("output.LayerNorm"), vec![HIDDEN]);
    }
    all
}

/// A folder with a model of zeros.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap());
        folder.write("config.json", config().to_string().as_bytes());
        folder.write("tokenizer.json", tokenizer().to_string().as_bytes());
        folder.weights(&tensors());
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Writes a table of these tensors and makes the file as long as it says. Gives where the tensors' bytes start.
    fn weights(&self, tensors: &[(String, Vec<usize>)]) -> u64 {
        let mut table = serde_json::Map::new();
        let mut end = 0;
        for (name, shape) in tensors {
            let start = end;
            end += 4 * shape.iter().product::<usize>();
            table.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, end]}));
        }
        let table = Value::from(table).to_string();
        let mut file = File::create(self.path("model.safetensors")).unwrap();
        file.write_all(&(table.len() as u64).to_le_bytes()).unwrap();
        file.write_all(table.as_bytes()).unwrap();
        let start = 8 + table.len() as u64;
        file.set_len(start + end as u64).unwrap();
        start
    }

    /// What opening says, nothing if it works.
    fn open(&self) -> String {
        MiniLm::open(self.0.path()).err().map(|error| error.to_string()).unwrap_or_default()
    }
}

fn set(value: &mut Value, pointer: &str, to: Value) {
    *value.pointer_mut(pointer).unwrap() = to;
}

#[test]
fn a_model_of_zeros_gives_zeros() {
    let folder = Folder::new();
    let model = MiniLm::open(folder.0.path()).unwrap();
    for vector in model.embed(&["", "teapot", "a longer text about tea"]) {
        assert!(vector.iter().all(|value| *value == 0.0));
    }
}

#[test]
fn another_models_configuration_is_refused() {
    let folder = Folder::new();
    let check = |text: &str, expect: &str| {
        folder.write("config.json", text.as_bytes());
        let message = folder.open();
        assert!(message.contains("config.json") && message.contains(expect), "{text}: {message}");
    };
    for (field, value) in config().as_object().unwrap() {
        for wrong in [json!(null), json!("other"), json!(7), json!([value])] {
            let mut config = config();
            set(&mut config, &format!("/{field}"), wrong.clone());
            check(&config.to_string(), &format!("`{field}` is {wrong}, expected {value}"));
        }
        let mut config = config();
        config.as_object_mut().unwrap().remove(field);
        check(&config.to_string(), &format!("`{field}` is null, expected {value}"));
    }
    check("", "a JSON object");
    check("[]", "a JSON object");
    check("{\"hidden_size\": 384", "a JSON object");
    check(&"[".repeat(1 << 20), "a JSON object");
    File::create(folder.path("config.json")).unwrap().set_len(1 << 40).unwrap();
    let message = folder.open();
    assert!(message.contains(&format!("it has {} bytes; the limit is {FILE_LIMIT}", 1_u64 << 40)), "{message}");
    std::fs::remove_file(folder.path("config.json")).unwrap();
    assert!(folder.open().contains("cannot read the model file "));
}

#[test]
fn a_broken_tokenizer_is_refused() {
    let folder = Folder::new();
    let check = |text: &str, expect: &str| {
        folder.write("tokenizer.json", text.as_bytes());
        let message = folder.open();
        assert!(message.contains("tokenizer.json: ") && message.contains(expect), "{text}: {message}");
    };
    let whole = tokenizer().to_string();
    for end in 0..whole.len() {
        assert!(WordPiece::new(&whole.as_bytes()[..end]).is_err(), "cut to {end} bytes");
    }
    check(&whole[..whole.len() - 1], "not a valid tokenizer");
    check("null", "not a valid tokenizer");
    check(&"{\"model\":".repeat(100_000), "not a valid tokenizer");
    for (pointer, wrong, expect) in [
        ("/normalizer/type", json!("NFC"), "`normalizer.type` is NFC, expected BertNormalizer"),
        ("/normalizer/lowercase", json!(false), "`normalizer.strip_accents` is false"),
        ("/normalizer", json!({"type": "Sequence", "normalizers": []}), "`normalizer.type` is Sequence"),
        ("/pre_tokenizer/type", json!("ByteLevel"), "`pre_tokenizer.type` is ByteLevel"),
        ("/model/type", json!("BPE"), "`model.type` is BPE"),
        ("/model/max_input_chars_per_word", json!(1), "`model.max_input_chars_per_word` is 1"),
        ("/model/vocab", json!({}), "the vocabulary has no `[PAD]`"),
        ("/model/vocab/tea", json!(WORDS), "token ids up to 30523, but the model has 30522"),
        ("/model/vocab/tea", json!(u32::MAX), "token ids up to 4294967296"),
        ("/model/vocab/tea", json!(-1), "not a valid tokenizer"),
        ("/model/vocab/tea", json!(1_u64 << 32), "not a valid tokenizer"),
        ("/model/vocab", json!(["tea"]), "not a valid tokenizer"),
    ] {
        let mut tokenizer = tokenizer();
        set(&mut tokenizer, pointer, wrong);
        check(&tokenizer.to_string(), expect);
    }
}

#[test]
fn weights_that_are_not_whole_are_refused() {
    let folder = Folder::new();
    let check = |expect: &str| {
        let message = folder.open();
        assert!(message.contains("model.safetensors") && message.contains(expect), "{message}");
    };
    // The first, one of a layer, the last.
    for missing in [0, 30, tensors().len() - 1] {
        let mut tensors = tensors();
        let (name, shape) = tensors.remove(missing);
        folder.weights(&tensors);
        check(&format!("tensor `{name}` has nothing"));
        tensors.push((name.clone(), [shape.as_slice(), &[1]].concat()));
        folder.weights(&tensors);
        check(&format!("tensor `{name}` has F32 numbers with the shape "));
    }
    let start = folder.weights(&tensors());
    let whole = std::fs::metadata(folder.path("model.safetensors")).unwrap().len();
    let (words, last) = (&tensors()[0].0, &tensors().pop().unwrap().0);
    for (name, place) in [(words, start), (words, start + 20_000_000), (last, whole - 4)] {
        folder.weights(&tensors());
        let mut file = File::options().write(true).open(folder.path("model.safetensors")).unwrap();
        file.seek(SeekFrom::Start(place)).unwrap();
        file.write_all(&f32::NAN.to_le_bytes()).unwrap();
        check(&format!("tensor `{name}` has an infinite number or NaN"));
    }
    for length in [0, 7, 8, start - 1, start, start + 1, whole / 2, whole - 1] {
        folder.weights(&tensors());
        File::options().write(true).open(folder.path("model.safetensors")).unwrap().set_len(length).unwrap();
        check("; download the model again");
    }
    std::fs::remove_file(folder.path("model.safetensors")).unwrap();
    check("cannot read the model file ");
    std::fs::create_dir(folder.path("model.safetensors")).unwrap();
    check("cannot read the model file ");
}

#[test]
fn every_set_of_instructions_gives_the_same_vectors() {
    let Some(models) = test_weights::test_models() else { return };
    let folder = crate::weights::MINILM.present(&models).unwrap();
    let texts = ["", "How do I keep basil alive in winter?", "Ein Gärtner gießt. 植物 \u{1f331}"];
    let expect = MiniLm::open(&folder).unwrap().embed(&texts);
    for arch in arches() {
        let found = MiniLm::open_on(&folder, arch).unwrap().embed(&texts);
        for (found, expect) in found.iter().flatten().zip(expect.iter().flatten()) {
            assert!((found - expect).abs() < 1e-5, "{arch:?}: {found}, not {expect}");
        }
    }
}
