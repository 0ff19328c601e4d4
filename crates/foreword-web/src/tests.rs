use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::resolve::Looking;
use super::*;

/// Every name is this machine, except those that begin with `public`: these are so once, and this machine from then on.
#[derive(Default)]
struct Names {
    asked: AtomicUsize,
}

impl Lookup for Names {
    fn lookup(&self, host: String) -> Looking {
        let first = self.asked.fetch_add(1, Ordering::SeqCst) == 0;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        // Nobody answers on a public address here: 192.0.0.0 style blocks would be refused, so one is used that leads nowhere fast.
        let address = if host.starts_with("public") && first { IpAddr::V4(Ipv4Addr::new(1, 0, 0, 0)) } else { local };
        Box::pin(async move { if host.starts_with("gone") { Err(io::Error::other("no such host")) } else { Ok(vec![address]) } })
    }
}

/// A server that answers each path as [`answer`] says.
async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, address));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, address: SocketAddr) {
    let mut request = vec![0; 4096];
    let count = stream.read(&mut request).await.unwrap_or(0);
    let request = String::from_utf8_lossy(&request[..count]).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let port = address.port();
    let whole = |kind: &str, body: &[u8]| {
        [
            format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())
                .as_bytes(),
            body,
        ]
        .concat()
    };
    let to = |location: &str| {
        format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
    };
    let reply = match path.as_str() {
        "/page" => whole("text/html; charset=utf-8", b"<title>A page</title><h1>Hi</h1><p>There <a href='/x'>x</a>"),
        "/latin" => whole("text/html", b"<meta charset=iso-8859-1><p>caf\xe9"),
        "/text" => whole("text/plain", b"plain\r\ntext"),
        "/json" => whole("application/json", b"{\"a\":1}"),
        "/image" => whole("image/png", b"\x89PNG"),
        "/lies" => whole("text/plain", b"\x7fELF\0\0\0\x01"),
        "/unsaid" => whole("", b"<!DOCTYPE html><p>hello"),
        "/request" => whole("text/plain", request.to_ascii_lowercase().as_bytes()),
        "/pdf" => whole("application/pdf", b"%PDF-1.4 nothing"),
        "/broken" => b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
        "/missing" => b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
        "/large" => whole("text/plain", &vec![b'x'; 20_000]),
        "/said-large" => b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 999999999\r\n\r\nx".to_vec(),
        "/gzip" | "/bomb" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            let size = if path == "/bomb" { 50_000_000 } else { 10 };
            std::io::Write::write_all(&mut encoder, &vec![b'z'; size]).unwrap();
            let body = encoder.finish().unwrap();
            [format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len()).as_bytes(), &body].concat()
        }
        "/endless" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            while stream.write_all(b"400\r\n").await.is_ok()
                && stream.write_all(&[b'x'; 0x400]).await.is_ok()
                && stream.write_all(b"\r\n").await.is_ok()
            {}
            return;
        }
        "/drip" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n").await;
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            return;
        }
        "/silent" => {
            tokio::time::sleep(Duration::from_secs(30)).await;
            return;
        }
        "/hop3" => to("/hop2"),
        "/hop2" => to("hop1"),
        "/hop1" => to("/page#part"),
        "/circle" => to("/circle2"),
        "/circle2" => to("/circle"),
        "/to-loopback" => to(&format!("http://127.0.0.1:{port}/page")),
        "/to-mapped" => to(&format!("http://[::ffff:7f00:1]:{port}/page")),
        "/to-name" => to(&format!("http://inside.example:{port}/page")),
        "/to-metadata" => to("http://169.254.169.254/latest/meta-data/"),
        "/to-file" => to("file:///etc/passwd"),
        "/to-secret" => to("http://user:hunter2@wiki.example/"),
        path if path.starts_with("/count") => match path[6..].parse::<usize>() {
            Ok(0) | Err(_) => whole("text/plain", b"end"),
            Ok(more) => to(&format!("/count{}", more - 1)),
        },
        _ => whole("text/plain", b"?"),
    };
    let _ = stream.write_all(&reply).await;
    let _ = stream.shutdown().await;
}

fn now(hour: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + hour * 3600).unwrap()
}

struct World {
    fetcher: Fetcher,
    port: u16,
    _folder: tempfile::TempDir,
}

impl World {
    /// `wiki.example` is allowed, at the server's port.
    async fn new() -> Self {
        let port = serve().await.port();
        let folder = tempfile::tempdir().unwrap();
        let config = WebConfig {
            allow: vec![format!("wiki.example:{port}")],
            max_bytes: 10_000,
            timeout: Duration::from_millis(1500),
            ..WebConfig::default()
        };
        let lookup: Arc<dyn Lookup> = Arc::new(Names::default());
        let fetcher = Fetcher::with_lookup(config, Some(folder.path().join("pages")), &lookup).unwrap();
        Self { fetcher, port, _folder: folder }
    }

    async fn get(&self, path: &str) -> Result<Page, WebError> {
        self.fetcher.fetch(&format!("http://wiki.example:{}{path}", self.port), now(0)).await
    }

    async fn check(&self, path: &str, expect: &str) {
        let found = match self.get(path).await {
            Ok(page) => page.markdown,
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expect), "{path}: {found}");
    }
}

#[tokio::test]
async fn bodies() {
    let world = World::new().await;
    let page = world.get("/page").await.unwrap();
    assert_eq!(page.title.as_deref(), Some("A page"));
    assert_eq!(page.markdown, format!("# Hi\n\nThere [x](http://wiki.example:{}/x)", world.port));
    world.check("/latin", "café").await;
    world.check("/text", "plain\ntext").await;
    world.check("/json", "```json\n{\n  \"a\": 1\n}\n```").await;
    world.check("/unsaid", "hello").await;
    world.check("/gzip", "zzzzzzzzzz").await;
    world.check("/image", "it is image/png, and only text").await;
    world.check("/lies", "it is no text").await;
    world.check("/pdf", "reading a PDF").await;
    world.check("/missing", "the server answered 404").await;
    world.check("/request", "accept-encoding: identity").await;
    world.check("/request", "user-agent: foreword/").await;
}

#[tokio::test]
async fn limits() {
    let world = World::new().await;
    for path in ["/large", "/said-large", "/endless", "/bomb"] {
        world.check(path, "it has more than 10000 bytes").await;
    }
    for path in ["/drip", "/silent"] {
        world.check(path, "it took longer than 1.5 seconds").await;
    }
}

#[tokio::test]
async fn redirects() {
    let world = World::new().await;
    let page = world.get("/hop3").await.unwrap();
    assert_eq!(
        (page.url, page.asked),
        (format!("http://wiki.example:{}/page", world.port), format!("http://wiki.example:{}/hop3", world.port))
    );
    world.check("/circle", "it leads in a circle").await;
    world.check("/count10", "end").await;
    world.check("/count11", "it leads on and on (more than 10 redirects)").await;
    for path in ["/to-loopback", "/to-mapped", "/to-name", "/to-metadata"] {
        world.check(path, "it is not on the public internet").await;
    }
    world.check("/to-file", "only http and https").await;
    world.check("/to-secret", "never sent").await;
}

#[tokio::test]
async fn addresses() {
    let world = World::new().await;
    let port = world.port;
    let check = async |url: &str, expect: &str| {
        let found = world.fetcher.fetch(url, now(0)).await.unwrap_err().to_string();
        assert!(found.contains(expect) && !found.contains("hunter2"), "{url}: {found}");
    };
    for host in [
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "LOCALHOST.",
        "other.example",
        "１２７.0.0.1",
    ] {
        check(&format!("http://{host}:{port}/page"), "it is not on the public internet").await;
    }
    check(&format!("http://wiki.example:{}/page", port.wrapping_add(1)), "it is not on the public internet").await;
    for (url, expect) in [
        ("", "cannot be parsed"),
        ("page.html", "cannot be parsed"),
        ("ftp://a.example/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("https://me:hunter2@a.example/", "user name or password"),
        ("https://hunter2@a.example/", "user name or password"),
    ] {
        check(url, expect).await;
    }
    check(&format!("https://a.example/{}", "x".repeat(9000)), "too long").await;
}

/// The name is public when first asked for and this machine ever after: a check at one time and a connection at another would be caught.
#[tokio::test]
async fn a_name_that_changes_its_address_gains_nothing() {
    let port = serve().await.port();
    let names = Arc::new(Names::default());
    let lookup: Arc<dyn Lookup> = Arc::clone(&names) as Arc<dyn Lookup>;
    let config = WebConfig { timeout: Duration::from_millis(600), ..WebConfig::default() };
    let fetcher = Fetcher::with_lookup(config, None, &lookup).unwrap();
    let url = format!("http://public.example:{port}/page");
    let first = fetcher.fetch(&url, now(0)).await;
    assert!(matches!(first, Err(WebError::TooSlow { .. } | WebError::Network { .. })), "{first:?}");
    let second = fetcher.fetch(&url, now(0)).await;
    assert_eq!(second, Err(WebError::NotPublic { host: format!("public.example:{port}") }));
    assert_eq!(
        names.asked.load(Ordering::SeqCst),
        2,
        "each connection resolves once, and what it resolved to is what it connects to"
    );
}

#[tokio::test]
async fn the_cache() {
    let mut world = World::new().await;
    let url = format!("http://wiki.example:{}/page", world.port);
    let at = async |world: &World, hour: i64| world.fetcher.fetch(&url, now(hour)).await.unwrap();
    assert_eq!(at(&world, 0).await.origin, Origin::Web);
    let page = at(&world, 23).await;
    assert_eq!((page.origin.clone(), page.fetched, page.note()), (Origin::Cache, now(0), None));
    assert_eq!(world.fetcher.refresh(&url, now(23)).await.unwrap().fetched, now(23));
    assert_eq!(at(&world, 48).await.origin, Origin::Web);

    // Nobody listens any more: the copy is served, and said to be one.
    let folder = world.fetcher.cache.take();
    let gone: Arc<dyn Lookup> = Arc::new(Nowhere);
    let offline = Fetcher::with_lookup(world.fetcher.config.clone(), folder, &gone).unwrap();
    let page = offline.fetch(&url, now(96)).await.unwrap();
    assert_eq!((page.markdown.as_str().starts_with("# Hi"), page.fetched), (true, now(48)));
    assert!(
        page.note().unwrap().contains("no network; check the connection and the address; this is the page as of 2023"),
        "{:?}",
        page.note()
    );
    assert!(offline.fetch(&format!("{url}2"), now(96)).await.is_err());
}

#[tokio::test]
async fn a_page_kept_for_one_list_is_not_served_to_another() {
    let world = World::new().await;
    let (folder, port) = (world.fetcher.cache.clone(), world.port);
    let all = vec!["wiki.example".to_owned(), "127.0.0.1".to_owned()];
    let lookups: [Arc<dyn Lookup>; 2] = [Arc::new(Names::default()), Arc::new(Nowhere)];
    let with = |allow: &[String], lookup: &Arc<dyn Lookup>| {
        let config = WebConfig { allow: allow.to_vec(), ..world.fetcher.config.clone() };
        Fetcher::with_lookup(config, folder.clone(), lookup).unwrap()
    };
    let (page, led) = (format!("http://127.0.0.1:{port}/page"), format!("http://wiki.example:{port}/to-loopback"));
    for url in [&page, &led] {
        assert_eq!(with(&all, &lookups[0]).fetch(url, now(0)).await.unwrap().origin, Origin::Web);
        assert_eq!(with(&all, &lookups[0]).fetch(url, now(1)).await.unwrap().origin, Origin::Cache);
        for allow in [&[][..], &all[..1]] {
            for (lookup, hour) in lookups.iter().zip([1, 96]) {
                let found = with(allow, lookup).fetch(url, now(hour)).await;
                assert!(
                    matches!(found, Err(WebError::NotPublic { .. } | WebError::Network { .. })),
                    "{url} {allow:?}: {found:?}"
                );
            }
        }
    }
}

struct Nowhere;

impl Lookup for Nowhere {
    fn lookup(&self, _: String) -> Looking {
        Box::pin(async { Err(io::Error::other("no network")) })
    }
}

#[test]
fn kinds() {
    let check = |header: &str, expect: Kind| assert_eq!(Kind::read(header), expect, "{header}");
    check("text/html; charset=\"utf-8\"", Kind::Html(Some("utf-8".into())));
    check("application/ld+json", Kind::Data("json", None));
    check("application/rss+xml;charset=x", Kind::Data("xml", Some("x".into())));
    check("text/markdown", Kind::Text(None));
    check("image/svg+xml", Kind::Other("image/svg+xml".into()));
    check("video/mp4", Kind::Other("video/mp4".into()));
    check("", Kind::Unsaid);
}
