//! Prepares image files for providers: detects the type from the first bytes and scales down large images.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreword_core::item::ItemId;
use foreword_core::message::Image;

/// The largest file that is read.
pub const MOST_FILE_BYTES: u64 = 32 << 20;

/// Providers reject images whose base64 is larger than 5 MiB.
const MOST_SENT_BYTES: usize = (5 << 20) / 4 * 3;

/// Providers scale larger images down by default, so more pixels would only cost more.
#[cfg(feature = "images")]
const MOST_SIDE: u32 = 1568;

/// An image from a file's bytes, or why it cannot be sent.
pub fn image(id: ItemId, bytes: &[u8]) -> Result<Image, String> {
    let media_type = media_type(bytes).ok_or("image left out: it is no PNG, JPEG, GIF or WebP, which models take")?;
    let fitted = fitted(bytes, media_type)?;
    let (media_type, data, pixels) = match &fitted {
        Fitted::AsIs(pixels) => (media_type, STANDARD.encode(bytes), *pixels),
        Fitted::Scaled(scaled) => (scaled.media_type, STANDARD.encode(&scaled.bytes), Some(scaled.pixels)),
    };
    Ok(Image { id, media_type: media_type.to_owned(), data: Arc::from(data), pixels })
}

/// The media type, if models support it.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The width and height of an image file, if they can be read.
#[cfg(feature = "images")]
pub fn pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    let format = image::ImageFormat::from_mime_type(media_type(bytes)?)?;
    image::ImageReader::with_format(std::io::Cursor::new(bytes), format).into_dimensions().ok()
}

/// An image within what providers take.
enum Fitted {
    /// The file itself; its width and height, where they can be read.
    AsIs(Option<(u32, u32)>),
    /// Made from it.
    #[cfg_attr(not(feature = "images"), allow(dead_code))]
    Scaled(Scaled),
}

struct Scaled {
    media_type: &'static str,
    bytes: Vec<u8>,
    pixels: (u32, u32),
}

#[cfg(not(feature = "images"))]
fn fitted(bytes: &[u8], _: &str) -> Result<Fitted, String> {
    if bytes.len() > MOST_SENT_BYTES { Err("image left out: it is too large".to_owned()) } else { Ok(Fitted::AsIs(None)) }
}

#[cfg(feature = "images")]
fn fitted(bytes: &[u8], media_type: &str) -> Result<Fitted, String> {
    use std::io::Cursor;

    use image::imageops::FilterType;
    use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits};

    /// So many bytes of pixels are made from one file at most.
    const MOST_PIXEL_BYTES: u64 = 512 << 20;

    let format = ImageFormat::from_mime_type(media_type).ok_or("image left out: its format is not known")?;
    let reader = || {
        let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
        let mut limits = Limits::default();
        limits.max_alloc = Some(MOST_PIXEL_BYTES);
        reader.limits(limits);
        reader
    };
    let pixels = pixels(bytes);
    let small = pixels.is_none_or(|(width, height)| width.max(height) <= MOST_SIDE);
    if small && bytes.len() <= MOST_SENT_BYTES {
        return Ok(Fitted::AsIs(pixels));
    }
    let damaged = |error: image::ImageError| format!("image left out: it cannot be scaled down: {error}");
    let mut decoder = reader().into_decoder().map_err(damaged)?;
    let turned = decoder.orientation().map_err(damaged)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    picture.apply_orientation(turned);
    if !small {
        picture = picture.resize(MOST_SIDE, MOST_SIDE, FilterType::Triangle);
    }
    let encoded = |picture: &DynamicImage, format| {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).map(|()| bytes.into_inner()).map_err(damaged)
    };
    let pixels = (picture.width(), picture.height());
    // Drawings stay sharp as PNG; what is too large that way is a photograph.
    if format != ImageFormat::Jpeg {
        let bytes = encoded(&picture, ImageFormat::Png)?;
        if bytes.len() <= MOST_SENT_BYTES {
            return Ok(Fitted::Scaled(Scaled { media_type: "image/png", bytes, pixels }));
        }
    }
    let bytes = encoded(&DynamicImage::ImageRgb8(picture.into_rgb8()), ImageFormat::Jpeg)?;
    Ok(Fitted::Scaled(Scaled { media_type: "image/jpeg", bytes, pixels }))
}

#[cfg(all(test, feature = "images"))]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
mod tests {
    use std::io::Cursor;

    use foreword_core::item::Kind;
    use image::{DynamicImage, ImageFormat};

    use super::*;

    fn drawn(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let picture = image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, (x * y) as u8]));
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::ImageRgb8(picture).write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Image, String> {
        image(ItemId::new(Kind::Image, "a"), bytes)
    }

    #[test]
    fn formats_are_told_by_their_bytes_and_small_images_stay_as_they_are() {
        let check = |format: ImageFormat, media_type: &str| {
            let bytes = drawn(20, 10, format);
            let image = read(&bytes).unwrap();
            assert_eq!((image.media_type.as_str(), image.pixels), (media_type, Some((20, 10))));
            assert_eq!(STANDARD.decode(&*image.data).unwrap(), bytes);
        };
        check(ImageFormat::Png, "image/png");
        check(ImageFormat::Jpeg, "image/jpeg");
        check(ImageFormat::Gif, "image/gif");
        check(ImageFormat::WebP, "image/webp");
        assert!(read(b"<svg/>").unwrap_err().contains("no PNG"));
    }

    #[test]
    fn large_images_are_scaled_down() {
        let check = |bytes: &[u8], media_type: &str, pixels: (u32, u32)| {
            let image = read(bytes).unwrap();
            assert_eq!((image.media_type.as_str(), image.pixels), (media_type, Some(pixels)));
            assert!(image.data.len() <= 5 << 20);
            let sent = STANDARD.decode(&*image.data).unwrap();
            let again = image::load_from_memory(&sent).unwrap();
            assert_eq!((again.width(), again.height()), pixels);
        };
        check(&drawn(3136, 1568, ImageFormat::Png), "image/png", (1568, 784));
        check(&drawn(100, 3136, ImageFormat::Jpeg), "image/jpeg", (50, 1568));
        check(&drawn(2000, 500, ImageFormat::Gif), "image/png", (1568, 392));
        let mut noise = 1_u32;
        let noisy = image::RgbImage::from_fn(1568, 1568, |_, _| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [_, a, b, c] = noise.to_be_bytes();
            image::Rgb([a, b, c])
        });
        let mut bytes = Cursor::new(Vec::new());
        DynamicImage::ImageRgb8(noisy).write_to(&mut bytes, ImageFormat::Png).unwrap();
        check(&bytes.into_inner(), "image/jpeg", (1568, 1568));
    }

    #[test]
    fn damaged_files_are_left_out_or_sent_as_they_are() {
        let whole = drawn(3000, 3000, ImageFormat::Png);
        assert!(read(&whole[..whole.len() / 2]).unwrap_err().contains("cannot be scaled down"));
        assert_eq!(read(b"\x89PNG\r\n\x1a\n").unwrap().pixels, None);
    }
}
