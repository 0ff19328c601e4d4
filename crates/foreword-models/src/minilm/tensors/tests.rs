//! Damaged files: each is refused with the reason, and none makes us allocate what it claims.

use std::io::Write;

use tempfile::NamedTempFile;

use super::{TABLE_LIMIT, Tensors};

const TABLE: &str = r#"{"__metadata__":{"format":"pt"},
    "a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
    "b":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}}"#;

fn data() -> Vec<u8> {
    (1..=7_u8).flat_map(|number| f32::from(number).to_le_bytes()).collect()
}

/// A file with `table` and `data`, whose table is said to have `length` bytes.
fn file(length: u64, table: &str, data: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes(), table.as_bytes(), data].concat()
}

fn whole(table: &str) -> Vec<u8> {
    file(table.len() as u64, table, &data())
}

/// The numbers of `a`, from a file of these bytes; or the error's words.
fn read(bytes: &[u8]) -> Result<Vec<f32>, String> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let tensors = Tensors::open(file.path()).map_err(|error| error.to_string())?;
    let mut reader = tensors.reader().map_err(|error| error.to_string())?;
    reader.numbers("a", &[2, 3]).map_err(|error| error.to_string())
}

#[test]
fn a_whole_file_gives_its_numbers() {
    assert_eq!(read(&whole(TABLE)).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = whole(TABLE);
    for length in 0..bytes.len() {
        let message = read(&bytes[..length]).unwrap_err();
        assert!(message.ends_with("; download the model again"), "cut to {length} bytes: {message}");
    }
}

#[test]
fn a_file_with_any_byte_of_its_table_changed_is_refused_or_read() {
    let bytes = whole(TABLE);
    for at in 0..8 + TABLE.len() {
        for change in [0x01, 0x10, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] ^= change;
            // What matters is that it returns; a changed blank or remark does no harm.
            if let Ok(numbers) = read(&bytes) {
                assert_eq!(numbers.len(), 6);
            }
        }
    }
}

#[test]
fn a_length_of_the_table_that_cannot_be_is_refused() {
    let check = |length: u64| {
        let message = read(&file(length, TABLE, &data())).unwrap_err();
        assert!(message.contains(&format!("a table of {length} bytes in a file of ")), "{message}");
    };
    check(u64::MAX);
    check(u64::MAX - 7);
    check(1 << 40);
    check(TABLE_LIMIT + 1);
    check((TABLE.len() + data().len()) as u64 + 1);
}

#[test]
fn a_table_that_does_not_fit_is_refused_with_the_reason() {
    let check = |entries: &str, expect: &str| {
        let message = read(&whole(&format!("{{{entries}}}"))).unwrap_err();
        assert!(message.contains(expect), "{entries}: {message}");
    };
    let a = r#""a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}"#;
    check("", "tensor `a` has nothing");
    check(&format!("{a},{a}"), "`a` is a duplicate");
    check(&format!(r#"{a},"c":{{"dtype":"I64","shape":[],"data_offsets":[20,28]}}"#), "`c` and `a` overlap");
    check(&format!(r#"{a},"c":{{"dtype":"I64","shape":[],"data_offsets":[4,8]}}"#), "`c` and `a` overlap");
    check(
        r#""a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,24]}"#,
        "F16 numbers with the shape [2, 3], expected F32 with [2, 3]",
    );
    check(
        r#""a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}"#,
        "F32 numbers with the shape [3, 2], expected F32 with [2, 3]",
    );
    check(r#""a":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}"#, "with the shape [6]");
    check(r#""a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}"#, "the bytes 0 to 20, expected 24 bytes");
    check(r#""a":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]}"#, "`a` is at bytes 8 to 32 of 28");
    check(r#""a":{"dtype":"F32","shape":[2,3],"data_offsets":[24,0]}"#, "`a` is at bytes 24 to 0 of 28");
    check(
        r#""a":{"dtype":"F32","shape":[2,3],"data_offsets":[18446744073709551600,18446744073709551615]}"#,
        "`a` is at bytes 18446744073709551600 to 18446744073709551615 of 28",
    );
    check(r#""a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,18446744073709551616]}"#, "`a`: ");
    check(r#""a":{"dtype":"F32","shape":[2,3],"data_offsets":[-1,23]}"#, "`a`: ");
    check(r#""a":{"dtype":"F32","shape":[2,3]}"#, "`a`: missing field `data_offsets`");
    check(r#""a":7"#, "`a`: ");
    check(&format!(r#""a":{}"#, "[".repeat(100_000)), "an invalid table of tensors");
}

#[test]
fn a_table_that_is_no_object_is_refused() {
    for table in ["[]", "null", "7", "", " ", "{", "\u{0}", "\"a\""] {
        let message = read(&whole(table)).unwrap_err();
        assert!(message.contains("an invalid table of tensors"), "{table}: {message}");
    }
}

#[test]
fn a_number_that_is_none_is_refused() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for place in [0, 5] {
            let mut data = data();
            data[place * 4..][..4].copy_from_slice(&bad.to_le_bytes());
            let message = read(&file(TABLE.len() as u64, TABLE, &data)).unwrap_err();
            assert!(message.contains("tensor `a` has an infinite number or NaN"), "{message}");
        }
    }
}
