use super::*;

/// A PDF of these objects, numbered from 1; the first is the catalogue.
fn pdf(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        places.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n", at + 1).bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let start = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for place in places {
        bytes.extend(format!("{place:010} 00000 n \n").bytes());
    }
    bytes.extend(format!("trailer << /Root 1 0 R /Size {} >>\nstartxref\n{start}\n%%EOF", objects.len() + 1).bytes());
    bytes
}

fn stream(dict: &str, content: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {dict} /Length {} >>\nstream\n", content.len()).into_bytes();
    object.extend(content);
    object.extend(b"\nendstream");
    object
}

/// One page that shows `content`, with more objects from number 6 on.
fn page(content: Vec<u8>, resources: &str, more: Vec<Vec<u8>>) -> Vec<u8> {
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 600 800] >>".to_vec(),
        format!("<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> {resources} >> >>")
            .into_bytes(),
        content,
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec(),
    ];
    objects.extend(more);
    pdf(&objects)
}

const HELLO: &[u8] = b"BT /F1 12 Tf 72 700 Td (Hello caf\\351) Tj 0 -14 Td (second line) Tj ET";

#[track_caller]
fn check(bytes: &[u8], expect: Result<&str, &str>) {
    let found = text(bytes).map_err(|error| error.to_string());
    match (&found, expect) {
        (Ok(found), Ok(expect)) => assert_eq!(found, expect),
        (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
        _ => panic!("{found:?}, not {expect:?}"),
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn text_of_a_page() {
    check(&page(stream("", HELLO), "", vec![]), Ok("[Page 1]\n\nHello café\nsecond line"));
    check(&page(stream("/Filter /FlateDecode", &deflated(HELLO)), "", vec![]), Ok("[Page 1]\n\nHello café\nsecond line"));
    let form = stream("/Type /XObject /Subtype /Form /Resources << /Font << /F1 5 0 R >> >>", HELLO);
    check(&page(stream("", b"/X Do"), "/XObject << /X 6 0 R >>", vec![form]), Ok("[Page 1]\n\nHello café\nsecond line"));
}

#[test]
fn what_has_no_text_says_why() {
    check(&page(stream("", b"0 0 100 100 re f"), "", vec![]), Err("may be scanned images"));
    check(b"", Err("could not be understood"));
    check(b"hello", Err("could not be understood"));
    check(b"%PDF-1.4\n%%EOF", Err("could not be understood"));
    check(&vec![b' '; MAX_BYTES + 1], Err("is the most"));
}

#[test]
fn a_form_that_draws_itself_ends() {
    let itself = stream("/Subtype /Form /Resources << /Font << /F1 5 0 R >> /XObject << /X 6 0 R >> >>", b"/X Do");
    let start = stream("", &[HELLO, b" /X Do"].concat());
    check(&page(start.clone(), "/XObject << /X 6 0 R >>", vec![itself]), Ok("[Page 1]\n\nHello café\nsecond line"));
    let inherits = stream("/Subtype /Form", b"/X Do");
    check(&page(start.clone(), "/XObject << /X 6 0 R >>", vec![inherits]), Ok("[Page 1]\n\nHello café\nsecond line"));
    let ring = |to: usize| stream(&format!("/Subtype /Form /Resources << /XObject << /X {to} 0 R >> >>"), b"/X Do");
    check(&page(start, "/XObject << /X 6 0 R >>", vec![ring(7), ring(8), ring(6)]), Ok("[Page 1]\n\nHello café\nsecond line"));
}

#[test]
fn parents_in_a_circle_end() {
    let bytes = pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 /Parent 3 0 R >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec(),
        stream("", HELLO),
    ]);
    check(&bytes, Err("could not be read"));
}

#[test]
fn a_bomb_is_not_inflated() {
    let bomb = deflated(&b"q ".repeat(50_000_000));
    check(&page(stream("/Filter /FlateDecode", &bomb), "", vec![]), Err("may be scanned"));
    let headless = [b"xx", &bomb[2..]].concat();
    check(&page(stream("/Filter /FlateDecode", &headless), "", vec![]), Err("may be scanned"));
    let twice = deflated(&deflated(&b"q ".repeat(50_000_000)));
    check(&page(stream("/Filter [/FlateDecode /FlateDecode]", &twice), "", vec![]), Err("may be scanned"));
}

#[test]
fn broken_files_never_panic_a_reader() {
    let whole = page(stream("/Filter /FlateDecode", &deflated(HELLO)), "", vec![]);
    for end in (0..whole.len()).step_by(17) {
        let _ = text(&whole[..end]);
    }
    for at in (0..whole.len()).step_by(7) {
        let mut broken = whole.clone();
        broken[at] ^= 0x15;
        let _ = text(&broken);
    }
}

#[test]
fn pages_are_tidied() {
    assert_eq!(tidy("  a \n\n\n\n b\u{a0}c \u{1}ﬁne\n\n"), "a\n\nb c fine");
}
