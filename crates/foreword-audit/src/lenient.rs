//! Values as they may stand in a log of any version: what has another type than expected is as good as missing, and texts are borrowed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What every lenient type does with values that it has no use for.
macro_rules! otherwise {
    ($value:expr; $($method:ident $type:ty),*) => { $(
        fn $method<E>(self, _: $type) -> Result<Self::Value, E> { Ok($value) }
    )* };
}

macro_rules! drained {
    ($value:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($value)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($value)
        }
    };
}

/// A text; empty where there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }

            otherwise!(Cow::Borrowed(""); visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64);

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(""))
            }

            drained!(Cow::Borrowed(""));
        }
        deserializer.deserialize_any(Texts).map(Text)
    }
}

/// A count; 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Num(pub(crate) u64);

/// No count in a log is larger, and no time in milliseconds before the year 2109.
const MOST: u64 = 1 << 42;

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // held to its range first
fn count(number: f64) -> Num {
    Num(if number.is_finite() { number.clamp(0.0, MOST as f64) as u64 } else { 0 })
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nums;
        impl<'de> Visitor<'de> for Nums {
            type Value = Num;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Num, E> {
                Ok(Num(number.min(MOST)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Num, E> {
                Ok(Num(u64::try_from(number).unwrap_or_default().min(MOST)))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Num, E> {
                Ok(count(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Num, E> {
                Ok(text.parse::<f64>().map_or(Num(0), count))
            }

            otherwise!(Num(0); visit_bool bool);

            fn visit_unit<E>(self) -> Result<Num, E> {
                Ok(Num(0))
            }

            drained!(Num(0));
        }
        deserializer.deserialize_any(Nums)
    }
}

/// Whether something is so; not, where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Flags;
        impl<'de> Visitor<'de> for Flags {
            type Value = Flag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Flag, E> {
                Ok(Flag(flag))
            }

            otherwise!(Flag(false); visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str);

            fn visit_unit<E>(self) -> Result<Flag, E> {
                Ok(Flag(false))
            }

            drained!(Flag(false));
        }
        deserializer.deserialize_any(Flags)
    }
}

/// An object, where there is one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Obj<T>(pub(crate) Option<T>);

impl<T> Default for Obj<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Obj<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Objects<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
            type Value = Option<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Some)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(None)
            }

            otherwise!(None; visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str);

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }
        }
        deserializer.deserialize_any(Objects(PhantomData)).map(Obj)
    }
}

/// The objects of a list, or the text in its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parts<'a, T> {
    pub(crate) text: Text<'a>,
    pub(crate) list: Vec<T>,
}

impl<T> Default for Parts<'_, T> {
    fn default() -> Self {
        Self { text: Text::default(), list: Vec::new() }
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Parts<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lists<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Lists<T> {
            type Value = Parts<'de, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list or a text")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(Obj(item)) = seq.next_element()? {
                    list.extend(item);
                }
                Ok(Parts { text: Text::default(), list })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let item = T::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Parts { text: Text::default(), list: vec![item] })
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Parts { text: Text(Cow::Borrowed(text)), list: Vec::new() })
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Parts { text: Text(Cow::Owned(text.to_owned())), list: Vec::new() })
            }

            otherwise!(Parts::default(); visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64);

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Parts::default())
            }
        }
        deserializer.deserialize_any(Lists(PhantomData))
    }
}

/// How much text a value holds at any depth, and how many images. The bytes of an image are not text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) chars: u64,
    pub(crate) images: u32,
}

impl Size {
    fn add(&mut self, other: Self) {
        self.chars += other.chars;
        self.images = self.images.saturating_add(other.images);
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sizes;
        impl<'de> Visitor<'de> for Sizes {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E>(self, text: &str) -> Result<Size, E> {
                Ok(Size { chars: text.len() as u64, images: 0 })
            }

            otherwise!(Size::default(); visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64);

            fn visit_unit<E>(self) -> Result<Size, E> {
                Ok(Size::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Size, A::Error> {
                let mut sum = Size::default();
                while let Some(size) = seq.next_element::<Size>()? {
                    sum.add(size);
                }
                Ok(sum)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Size, A::Error> {
                let mut sum = Size::default();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    match &*key {
                        "type" => {
                            let kind = map.next_value::<Text<'de>>()?;
                            sum.images += u32::from(matches!(&*kind, "image" | "input_image" | "image_url"));
                        }
                        // Base64, wherever it stands.
                        "data" | "image_url" | "encrypted_content" | "signature" => drop(map.next_value::<IgnoredAny>()?),
                        _ => sum.add(map.next_value()?),
                    }
                }
                Ok(sum)
            }
        }
        deserializer.deserialize_any(Sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default)]
    struct Record<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        number: Num,
        flag: Flag,
        object: Obj<Inner>,
        size: Size,
    }

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default)]
    struct Inner {
        n: Num,
    }

    #[test]
    fn what_has_another_type_is_missing() {
        let check = |json: &str, text: &str, number: u64, flag: bool, inner: Option<u64>| {
            let found: Record = serde_json::from_str(json).unwrap();
            let object = Obj(inner.map(|n| Inner { n: Num(n) }));
            assert_eq!((&*found.text, found.number.0, found.flag.0, found.object), (text, number, flag, object), "{json}");
        };
        check("{}", "", 0, false, None);
        check(r#"{"text":"a","number":7,"flag":true,"object":{"n":1}}"#, "a", 7, true, Some(1));
        check(r#"{"text":"a\n","number":-7,"flag":1,"object":[{"n":1}]}"#, "a\n", 0, false, None);
        check(r#"{"text":["x"],"number":"12","flag":null,"object":"x"}"#, "", 12, false, None);
        check(r#"{"text":{"a":1},"number":1e99,"flag":{},"object":null}"#, "", MOST, false, None);
        check(r#"{"text":1.5,"number":2.9,"flag":[],"object":{"n":null}}"#, "", 2, false, Some(0));
    }

    #[test]
    fn sizes() {
        let check = |json: &str, chars: u64, images: u32| {
            assert_eq!(serde_json::from_str::<Size>(json).unwrap(), Size { chars, images }, "{json}");
        };
        check("null", 0, 0);
        check(r#""four""#, 4, 0);
        check(r#"[{"type":"text","text":"four"},"five5"]"#, 9, 0);
        check(r#"[{"type":"image","source":{"type":"base64","data":"AAAA"}},{"type":"text","text":"x"}]"#, 1, 1);
    }
}
