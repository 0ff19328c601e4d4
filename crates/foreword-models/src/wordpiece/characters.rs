//! What kind of character one is, as the reference sees it.
//!
//! The reference knows Unicode 8. What has come since is an unknown letter to it, whatever it is today, and a few characters were
//! something else then.

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Ranges in which every accent, mark of punctuation and format character is younger than the reference.
#[rustfmt::skip]
const YOUNGER: [(char, char); 43] = [
    ('\u{5c8}', '\u{5c9}'), ('\u{61d}', '\u{61d}'), ('\u{7fd}', '\u{7fd}'), ('\u{890}', '\u{8e2}'), ('\u{9fd}', '\u{9fe}'),
    ('\u{a76}', '\u{a76}'), ('\u{afa}', '\u{aff}'), ('\u{b53}', '\u{b55}'), ('\u{c04}', '\u{c3c}'), ('\u{c77}', '\u{c77}'),
    ('\u{c84}', '\u{c84}'), ('\u{d00}', '\u{d00}'), ('\u{d3b}', '\u{d3c}'), ('\u{d81}', '\u{d81}'), ('\u{eba}', '\u{eba}'),
    ('\u{ece}', '\u{ece}'), ('\u{180f}', '\u{1886}'), ('\u{1abf}', '\u{1af0}'), ('\u{1b4e}', '\u{1b4f}'),
    ('\u{1b7d}', '\u{1b7f}'), ('\u{1df6}', '\u{1dfb}'), ('\u{2e43}', '\u{2e63}'), ('\u{a82c}', '\u{a82c}'),
    ('\u{a8c5}', '\u{a8c5}'), ('\u{a8ff}', '\u{a8ff}'), ('\u{a9bd}', '\u{a9bd}'), ('\u{10d24}', '\u{10f89}'),
    ('\u{11070}', '\u{11074}'), ('\u{110c2}', '\u{110cd}'), ('\u{111cf}', '\u{111cf}'), ('\u{1123e}', '\u{11241}'),
    ('\u{1133b}', '\u{1133b}'), ('\u{113bb}', '\u{1145e}'), ('\u{11660}', '\u{1166c}'), ('\u{116b9}', '\u{116b9}'),
    ('\u{1182f}', '\u{11fff}'), ('\u{12ff1}', '\u{1612f}'), ('\u{16d6d}', '\u{16f4f}'), ('\u{16fe2}', '\u{16fe4}'),
    ('\u{1cf00}', '\u{1d128}'), ('\u{1d25b}', '\u{1d25c}'), ('\u{1e000}', '\u{1e6f5}'), ('\u{1e944}', '\u{1e95f}'),
];

/// Characters that are taken out before anything else.
pub(super) fn is_dropped(character: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    match character {
        '\t' | '\n' | '\r' => false,
        '\u{fffd}' => true,
        _ if character.is_ascii() => character.is_ascii_control(),
        _ => matches!(character.general_category(), Control | Format | PrivateUse) && !is_younger(character),
    }
}

/// A character with a space on each side if it is an ideograph: each of these is a word of its own.
pub(super) fn apart(character: char) -> impl Iterator<Item = char> {
    let space = is_ideograph(character).then_some(' ');
    space.into_iter().chain([character]).chain(space)
}

fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}

/// Whether it is an accent, which is taken off its letter.
pub(super) fn is_accent(character: char) -> bool {
    match character {
        '\u{1734}' | '\u{1171e}' => true,
        '\u{111c9}' => false,
        _ if character.is_ascii() => false,
        _ => character.general_category() == GeneralCategory::NonspacingMark && !is_younger(character),
    }
}

/// Whether it is a word of its own for being punctuation.
pub(super) fn is_punctuation(character: char) -> bool {
    match character {
        '\u{166d}' | '\u{111c9}' => true,
        _ if character.is_ascii() => character.is_ascii_punctuation(),
        _ => character.general_category_group() == GeneralCategoryGroup::Punctuation && !is_younger(character),
    }
}

fn is_younger(character: char) -> bool {
    let after = YOUNGER.partition_point(|(_, last)| *last < character);
    YOUNGER.get(after).is_some_and(|(first, _)| *first <= character)
}
