//! Anything that can be serialised, straight into canonical JSON: the bytes that [`write`](super::write) gives for its [`Value`], without
//! building that first.

use std::borrow::Cow;
use std::io::Write as _;

use serde::Serialize;
use serde::ser::{self, Error as _, Serializer};
use serde_json::{Error, Result, Value};

use super::write_str;

/// How strings are written, for whoever wants some of them otherwise.
pub trait Strings {
    /// Appends a string that is a value.
    fn text(&mut self, out: &mut Vec<u8>, text: &str) {
        write_str(out, text);
    }

    /// Appends the name of a member.
    fn key(&mut self, out: &mut Vec<u8>, key: &str) {
        write_str(out, key);
    }
}

/// As they are.
struct Plain;

impl Strings for Plain {}

/// Canonical JSON of anything that has some.
pub fn canonical(value: &(impl Serialize + ?Sized)) -> Result<String> {
    canonical_with(value, &mut Plain)
}

/// The same with strings written by `strings`.
pub fn canonical_with(value: &(impl Serialize + ?Sized), strings: &mut impl Strings) -> Result<String> {
    let mut writer = Writer { out: Vec::with_capacity(256), members: Vec::new(), strings };
    value.serialize(&mut writer)?;
    Ok(super::text(writer.out))
}

struct Writer<'a, S> {
    out: Vec<u8>,
    /// The members of the objects that are being written: their names, and where they begin.
    members: Vec<(Cow<'static, str>, usize)>,
    strings: &'a mut S,
}

impl<S: Strings> Writer<'_, S> {
    /// A whole number.
    fn number(&mut self, number: impl std::fmt::Display) -> Result<()> {
        write!(self.out, "{number}").map_err(Error::io)
    }

    /// The beginning of an object with one member.
    fn variant(&mut self, name: &str) {
        self.out.push(b'{');
        self.strings.key(&mut self.out, name);
        self.out.push(b':');
    }
}

impl<'w, 'a, S: Strings> Serializer for &'w mut Writer<'a, S> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Array<'w, 'a, S>;
    type SerializeTuple = Array<'w, 'a, S>;
    type SerializeTupleStruct = Array<'w, 'a, S>;
    type SerializeTupleVariant = Array<'w, 'a, S>;
    type SerializeMap = Object<'w, 'a, S>;
    type SerializeStruct = Object<'w, 'a, S>;
    type SerializeStructVariant = Object<'w, 'a, S>;

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.number(value)
    }
    fn serialize_i8(self, value: i8) -> Result<()> {
        self.number(value)
    }
    fn serialize_i16(self, value: i16) -> Result<()> {
        self.number(value)
    }
    fn serialize_i32(self, value: i32) -> Result<()> {
        self.number(value)
    }
    fn serialize_i64(self, value: i64) -> Result<()> {
        self.number(value)
    }
    fn serialize_u8(self, value: u8) -> Result<()> {
        self.number(value)
    }
    fn serialize_u16(self, value: u16) -> Result<()> {
        self.number(value)
    }
    fn serialize_u32(self, value: u32) -> Result<()> {
        self.number(value)
    }
    fn serialize_u64(self, value: u64) -> Result<()> {
        self.number(value)
    }
    fn serialize_f32(self, value: f32) -> Result<()> {
        self.serialize_f64(value.into())
    }
    fn serialize_f64(self, value: f64) -> Result<()> {
        super::write(&mut self.out, &Value::from(value));
        Ok(())
    }
    fn serialize_char(self, value: char) -> Result<()> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, text: &str) -> Result<()> {
        self.strings.text(&mut self.out, text);
        Ok(())
    }
    fn serialize_bytes(self, bytes: &[u8]) -> Result<()> {
        self.collect_seq(bytes)
    }
    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<()> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<()> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        self.variant(variant);
        value.serialize(&mut *self)?;
        self.out.push(b'}');
        Ok(())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Array<'w, 'a, S>> {
        Ok(Array::begin(self, b""))
    }
    fn serialize_tuple(self, _: usize) -> Result<Array<'w, 'a, S>> {
        Ok(Array::begin(self, b""))
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Array<'w, 'a, S>> {
        Ok(Array::begin(self, b""))
    }
    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<Array<'w, 'a, S>> {
        self.variant(variant);
        Ok(Array::begin(self, b"}"))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Object<'w, 'a, S>> {
        Ok(Object::begin(self, b""))
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Object<'w, 'a, S>> {
        Ok(Object::begin(self, b""))
    }
    fn serialize_struct_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<Object<'w, 'a, S>> {
        self.variant(variant);
        Ok(Object::begin(self, b"}"))
    }
}

/// An array that is being written.
struct Array<'w, 'a, S> {
    writer: &'w mut Writer<'a, S>,
    start: usize,
    /// What stands behind it.
    behind: &'static [u8],
}

impl<'w, 'a, S: Strings> Array<'w, 'a, S> {
    fn begin(writer: &'w mut Writer<'a, S>, behind: &'static [u8]) -> Self {
        let start = writer.out.len();
        writer.out.push(b'[');
        Self { writer, start, behind }
    }

    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        if self.writer.out.len() > self.start + 1 {
            self.writer.out.push(b',');
        }
        value.serialize(&mut *self.writer)
    }

    fn close(self) {
        self.writer.out.push(b']');
        self.writer.out.extend_from_slice(self.behind);
    }
}

/// An object that is being written. Its members stand in the order in which they come, each behind one byte, until it is closed.
struct Object<'w, 'a, S> {
    writer: &'w mut Writer<'a, S>,
    start: usize,
    /// Where its own members begin among those of all open objects.
    first: usize,
    /// What stands behind it.
    behind: &'static [u8],
}

impl<'w, 'a, S: Strings> Object<'w, 'a, S> {
    fn begin(writer: &'w mut Writer<'a, S>, behind: &'static [u8]) -> Self {
        let (start, first) = (writer.out.len(), writer.members.len());
        Self { writer, start, first, behind }
    }

    fn key(&mut self, key: Cow<'static, str>) {
        let Writer { out, members, strings } = &mut *self.writer;
        let at = out.len();
        out.push(b',');
        strings.key(out, &key);
        out.push(b':');
        members.push((key, at));
    }

    fn add<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<()> {
        self.key(Cow::Borrowed(key));
        value.serialize(&mut *self.writer)
    }

    fn close(self) {
        let Writer { out, members, .. } = self.writer;
        let own = &members[self.first..];
        if !own.is_sorted_by(|(one, _), (next, _)| one < next) {
            let written = out.split_off(self.start);
            let ends = own[1..].iter().map(|(_, at)| at - self.start).chain([written.len()]);
            let mut sorted: Vec<_> = own.iter().zip(ends).map(|((key, at), end)| (key, &written[at - self.start..end])).collect();
            sorted.sort_by_key(|(key, _)| *key);
            for (at, (key, bytes)) in sorted.iter().enumerate() {
                // Of two with one name the last one counts.
                if sorted.get(at + 1).is_none_or(|(next, _)| next != key) {
                    let from = out.len();
                    out.extend_from_slice(bytes);
                    out[from] = b',';
                }
            }
        }
        match out.get_mut(self.start) {
            Some(first) => *first = b'{',
            None => out.push(b'{'),
        }
        out.push(b'}');
        out.extend_from_slice(self.behind);
        members.truncate(self.first);
    }
}

/// What serde calls by several names and JSON by one.
macro_rules! compound {
    ($($trait:ident for $target:ident: $add:ident($($key:ident: $name:ty)?);)*) => {$(
        impl<S: Strings> ser::$trait for $target<'_, '_, S> {
            type Ok = ();
            type Error = Error;
            fn $add<T: Serialize + ?Sized>(&mut self, $($key: $name,)? value: &T) -> Result<()> {
                self.add($($key,)? value)
            }
            fn end(self) -> Result<()> {
                self.close();
                Ok(())
            }
        }
    )*};
}

compound! {
    SerializeSeq for Array: serialize_element();
    SerializeTuple for Array: serialize_element();
    SerializeTupleStruct for Array: serialize_field();
    SerializeTupleVariant for Array: serialize_field();
    SerializeStruct for Object: serialize_field(key: &'static str);
    SerializeStructVariant for Object: serialize_field(key: &'static str);
}

impl<S: Strings> ser::SerializeMap for Object<'_, '_, S> {
    type Ok = ();
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        let key = match serde_json::to_value(key)? {
            Value::String(key) => key,
            Value::Number(number) => number.to_string(),
            Value::Bool(yes) => yes.to_string(),
            other => return Err(Error::custom(format!("{other} is no name of a member"))),
        };
        Object::key(self, Cow::Owned(key));
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut *self.writer)
    }
    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn check(value: &(impl Serialize + ?Sized)) {
        let expect = super::super::to_string(&serde_json::to_value(value).unwrap());
        assert_eq!(canonical(value).unwrap(), expect);
    }

    #[derive(Serialize)]
    struct Unsorted {
        zebra: u8,
        apple: Option<Kind>,
        #[serde(flatten)]
        more: BTreeMap<String, i64>,
    }

    #[derive(Serialize)]
    enum Kind {
        Unit,
        New(&'static str),
        Two(u64, f64),
        Named { z: char, a: () },
    }

    #[test]
    fn what_is_serialised_is_what_its_value_would_be() {
        let more = |names: &[&str]| names.iter().zip(-1..).map(|(name, number)| ((*name).to_owned(), number)).collect();
        check(&Unsorted { zebra: 1, apple: None, more: more(&["mango", "\"\n", "zz"]) });
        // A name that comes twice.
        check(&Unsorted { zebra: 1, apple: Some(Kind::Unit), more: more(&["zebra", "apple"]) });
        check(&[Kind::Unit, Kind::New("x\u{1}\"é"), Kind::Two(u64::MAX, 0.1), Kind::Named { z: 'ß', a: () }]);
        check(&Unsorted { zebra: 1, apple: Some(Kind::Named { z: 'z', a: () }), more: more(&[]) });
        check(&BTreeMap::from([(10, "ten"), (9, "nine")]));
        check(&BTreeMap::from([(true, 1)]));
        check(&(1_i8, -2_i16, [3_i32; 0], 1e300, f64::NAN, 1.5_f32, 5e-324));
        check("text");
        check(&json!({"b": {"d": [], "c": {}}, "a": [[], {}, null, true, 9_007_199_254_740_993_u64]}));
        check(&BTreeMap::<String, u8>::new());
        assert!(canonical(&BTreeMap::from([(vec![1], 1)])).is_err());
    }

    #[test]
    fn an_array_begins_where_it_is() {
        check(&json!([[[]], [1], [[], []], [""]]));
    }
}
