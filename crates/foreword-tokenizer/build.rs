//! Writes each vocabulary as a list: one byte for the length of a token, then its bytes, in the order of their ranks.
//!
//! The package `bpe-openai` has the vocabularies. Its own tables take 47 MB in a program, because they hold three automata each; a list
//! takes 2 MB, and a hash map over it is ready in a few milliseconds.

#[cfg(feature = "vocabularies")]
use std::error::Error;

#[cfg(not(feature = "vocabularies"))]
fn main() {}

#[cfg(feature = "vocabularies")]
fn main() -> Result<(), Box<dyn Error>> {
    use std::path::Path;
    use std::{env, fs};

    println!("cargo::rerun-if-changed=build.rs");
    let folder = env::var("OUT_DIR")?;
    let vocabularies = [("cl100k", bpe_openai::cl100k_base()), ("o200k", bpe_openai::o200k_base())];
    for (name, tokenizer) in vocabularies {
        let mut list = Vec::new();
        for rank in 0..u32::try_from(tokenizer.bpe.num_tokens())? {
            let token = tokenizer.bpe.token_bytes(rank);
            list.push(u8::try_from(token.len())?);
            list.extend_from_slice(token);
        }
        fs::write(Path::new(&folder).join(name), list)?;
    }
    Ok(())
}
