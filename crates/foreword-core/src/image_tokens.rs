//! The token cost of images: each provider has its own rule, based on width and height.

use serde::{Deserialize, Serialize};

use crate::message::Image;
use crate::tokens::Tokens;

/// The estimate if the rule or the image's size is unknown.
const UNKNOWN: Tokens = Tokens(1100);

/// A provider's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageTokens {
    /// The model takes no images.
    None,
    /// The same number for every image.
    Flat(u64),
    /// By the number of squares that cover the image. A larger image is scaled down to the most squares.
    Patches {
        /// Side of a square, in pixels.
        side: u32,
        /// The most squares of an image.
        most: u64,
        /// Tokens of a hundred squares.
        hundred: u64,
    },
    /// By squares of 512 pixels, once the image is scaled down to 2,048 pixels a side and 768 at its short side.
    Tiles {
        /// For every image.
        base: u64,
        /// For each square.
        tile: u64,
    },
    /// The same number for each crop: one for an image of up to 384 pixels a side, else squares of 1/1.5 of the short side, of 256 to 768
    /// pixels.
    Crops(u64),
}

impl Default for ImageTokens {
    fn default() -> Self {
        Self::Flat(UNKNOWN.0)
    }
}

impl ImageTokens {
    /// The token cost of an image; `None` if the model does not support images.
    pub fn of(self, image: &Image) -> Option<Tokens> {
        let sized = |count: &dyn Fn(u32, u32) -> u64| {
            let known = image.pixels.filter(|(width, height)| *width > 0 && *height > 0);
            known.map_or(UNKNOWN, |(width, height)| Tokens(count(width, height)))
        };
        Some(match self {
            Self::None => return None,
            Self::Flat(tokens) => Tokens(tokens),
            Self::Patches { side, most, hundred } => sized(&|width, height| {
                let along = |pixels: u32| u64::from(pixels.div_ceil(side.max(1)));
                (along(width) * along(height)).min(most) * hundred / 100
            }),
            Self::Tiles { base, tile } => sized(&|width, height| {
                let (width, height) = shrunk((width, height), (width.max(height), 2048));
                let (width, height) = shrunk((width, height), (width.min(height), 768));
                base + tile * u64::from(width.div_ceil(512)) * u64::from(height.div_ceil(512))
            }),
            Self::Crops(tokens) => sized(&|width, height| {
                if width <= 384 && height <= 384 {
                    return tokens;
                }
                let side = (width.min(height) * 2 / 3).clamp(256, 768);
                tokens * u64::from(width.div_ceil(side)) * u64::from(height.div_ceil(side))
            }),
        })
    }
}

/// Width and height, scaled down so that a side of `from` becomes `most`.
fn shrunk((width, height): (u32, u32), (from, most): (u32, u32)) -> (u32, u32) {
    if from <= most {
        return (width, height);
    }
    let scaled = |pixels: u32| {
        let scaled = u64::from(pixels) * u64::from(most) / u64::from(from);
        u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
    };
    (scaled(width), scaled(height))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{ItemId, Kind};

    #[test]
    fn each_provider_counts_in_its_own_way() {
        fn check(rule: ImageTokens, pixels: (u32, u32), expect: u64) {
            let id = ItemId::new(Kind::Image, "a.png");
            let image = Image { id, media_type: "image/png".to_owned(), data: "".into(), pixels: Some(pixels) };
            assert_eq!(rule.of(&image), Some(Tokens(expect)), "{rule:?} {pixels:?}");
            assert_eq!(
                rule.of(&Image { pixels: None, ..image }),
                if let ImageTokens::Flat(flat) = rule { Some(Tokens(flat)) } else { Some(UNKNOWN) }
            );
        }
        check(ImageTokens::Flat(1120), (10, 10), 1120);
        let claude = ImageTokens::Patches { side: 28, most: 1568, hundred: 100 };
        check(claude, (200, 200), 64);
        check(claude, (1000, 1000), 1296);
        check(claude, (1568, 1568), 1568);
        check(ImageTokens::Patches { side: 32, most: 1536, hundred: 162 }, (1024, 1024), 1658);
        let tiles = ImageTokens::Tiles { base: 85, tile: 170 };
        check(tiles, (512, 512), 255);
        check(tiles, (1024, 1024), 765);
        check(tiles, (2048, 4096), 1105);
        let crops = ImageTokens::Crops(258);
        check(crops, (384, 100), 258);
        check(crops, (960, 540), 258 * 6);
        check(crops, (1, 4000), 258 * 16);
    }

    #[test]
    fn a_model_without_images_takes_none() {
        let id = ItemId::new(Kind::Image, "a.png");
        let image = Image { id, media_type: "image/png".to_owned(), data: "".into(), pixels: Some((1, 1)) };
        assert_eq!(ImageTokens::None.of(&image), None);
    }
}
