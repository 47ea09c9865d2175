//! Costs that headers hide.

use super::*;

/// Q4: costs that a header hides. The decoders trust the inner sizes, and keep a progressive JPEG's coefficients.
#[test]
fn q4_costs_that_stand_further_inside_are_seen() {
    // An outer size of 16 × 16, around the bitstream of a picture that is larger.
    let inner = sample("lossy.webp")[12..].to_vec();
    let outer = |width: u8, height: u8| {
        let head = [&b"WEBPVP8X\x0a\0\0\0\0\0\0\0"[..], &[width - 1, 0, 0, height - 1, 0, 0], &inner].concat();
        [&b"RIFF"[..], &u32::try_from(head.len()).expect("short").to_le_bytes(), &head].concat()
    };
    assert_eq!(Logo::decode(&outer(16, 16)).err(), Some(NotALogo::NotAnImage));
    assert!(Logo::decode(&outer(32, 16)).is_ok());
    // 4,000 × 4,000 in several scans: 96 MB of coefficients.
    let mut file = sample("progressive.jpg").to_vec();
    let frame = file.windows(2).position(|two| two == [0xff, 0xc2]).expect("a frame");
    file[frame + 5..frame + 9].copy_from_slice(&[0x0f, 0xa0, 0x0f, 0xa0]);
    assert_eq!(Logo::decode(&file).err(), Some(NotALogo::TooLarge));
    // Rows end where the picture ends; more data is a decompression bomb.
    let (small, large) = (plain_png(40, 40, RED), plain_png(4_000, 3_900, RED));
    assert!(Logo::decode(&small).is_ok());
    assert_eq!(Logo::decode(&with_size(&large, 40, 40)).err(), Some(NotALogo::NotAnImage));
    let interlaced = with_size(
        &{
            let mut png = large.clone();
            png[28] = 1;
            png
        },
        40,
        40,
    );
    assert_eq!(Logo::decode(&interlaced).err(), Some(NotALogo::NotAnImage));
}

/// Q4: the segments before the image are counted, because each takes memory.
#[test]
fn q4_a_jpeg_has_a_bounded_number_of_segments() {
    let jpeg = sample("baseline.jpg");
    let with = |segments: usize| {
        let empty = b"\xff\xfe\0\x02".repeat(segments);
        Logo::decode(&[&jpeg[..2], &empty, &jpeg[2..]].concat()).err()
    };
    assert_eq!((with(4_000), with(5_000)), (None, Some(NotALogo::NotAnImage)));
}

/// Q4: a JPEG has one reading. The decoder would find pictures other than the ones counted: where no marker can be,
/// after a marker without a segment, after a segment with another length.
#[test]
fn q4_a_jpeg_hides_no_second_picture_from_the_count() {
    let shown = &sample("baseline.jpg")[2..];
    let hidden = encoded(&image::RgbImage::from_pixel(32, 16, image::Rgb([128; 3])).into(), ImageFormat::Jpeg);
    let segment = |marker: u8, data: &[u8]| {
        let length = u16::try_from(data.len() + 2).expect("short").to_be_bytes();
        [&[0xff, marker], &length[..], data].concat()
    };
    // The next marker is read as a length.
    let skipped = usize::from(u16::from_be_bytes([shown[0], shown[1]])) - 2;
    let behind = [shown, &vec![0; skipped - (shown.len() - 2)], &hidden[2..]].concat();
    for (what, traps) in [
        ("no marker", [segment(0, &hidden[2..]), shown.to_vec()].concat()),
        ("no segment", [&[0xff, 0xd3][..], &behind].concat()),
        ("nothing known", [&[0xff, 0x01][..], &behind].concat()),
        ("a length", [segment(0xe0, &[0; 4]), segment(0xfe, &hidden[2..]), shown.to_vec()].concat()),
    ] {
        if let Ok(logo) = Logo::decode(&[&[0xff, 0xd8][..], &traps].concat()) {
            assert_near(pixel(&logo, 2, 2), GREEN, what);
        }
    }
}

/// Q4: the cost of a JPEG's rows if a component comes before one that is sampled more often.
#[test]
fn q4_rows_of_a_jpeg_are_as_wide_as_they_can_be() {
    let frame = [0xff, 0xc0, 0, 20, 8, 0, 32, 0x10, 0, 4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x44, 0];
    let scan = [0xff, 0xda, 0, 14, 4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0];
    let header = jpeg::header(&[&[0xff, 0xd8][..], &frame, &scan].concat()).expect("a header");
    // Of three components, eight lines of 16-bit samples and the last one, each with 16 times as many.
    assert!(header.decoder_bytes > 3 * 4_096 * (8 + 1) * 2 * 16 + (1 << 20), "{}", header.decoder_bytes);
    // The metadata of each block of a lossy WebP is counted too.
    let own = |name: &str| webp::header(sample(name)).expect("a header").decoder_bytes;
    assert_eq!(own("lossy.webp"), (1 << 20) + 2 * (16 * 16 * 3 / 2 + 2 * 32));
}

/// Q4: half a megabyte of scans of a few bytes, each of which would fill a row.
#[test]
fn q4_a_jpeg_has_so_many_scans_and_no_more() {
    let file = sample("baseline.jpg");
    let at = |marker: u8| file.windows(2).position(|two| two == [0xff, marker]).expect("a marker");
    let mut head = file[..at(0xda)].to_vec();
    head[at(0xc0) + 5..][..4].copy_from_slice(&[1, 0, 0x10, 0]);
    let scan = [0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0];
    let with = |scans: usize| [&head, &scan.repeat(scans)[..], &[0xff, 0xd9]].concat();
    assert!(Logo::decode(&with(100)).is_ok());
    for scans in [101, (500 << 10) / scan.len()] {
        assert_eq!(soon(|| Logo::decode(&with(scans)).err()), Some(NotALogo::NotAnImage), "{scans}");
    }
}

/// Q4: a lossless WebP of some kilobytes can ask for tables of hundreds of megabytes, so none is decoded.
#[test]
fn q4_lossless_data_of_a_webp_is_refused_before_it_is_read() {
    for name in LOSSLESS {
        assert_eq!(Logo::decode(sample(name)).err(), Some(NotALogo::Lossless), "{name}");
    }
    let stream = |kind: &[u8], data: &[u8]| chunk(kind, data);
    let lossy = sample("lossy.webp")[12..].to_vec();
    // None of these has a valid stream; the kind of chunk is enough.
    for (what, chunks) in [
        ("a picture", vec![stream(b"VP8L", b"?")]),
        ("a picture in a list", vec![list(0x10, 32, 16), stream(b"VP8L", b"?")]),
        ("one behind another chunk", vec![list(0, 32, 16), chunk(b"EXIF", b"?"), stream(b"VP8L", b"?"), lossy.clone()]),
        ("a frame", vec![list(0x12, 32, 16), of_frame(32, 16, &[stream(b"VP8L", b"?")])]),
        ("alpha", vec![list(0x10, 32, 16), stream(b"ALPH", &[1]), lossy.clone()]),
        ("alpha, compressed in no known way", vec![list(0x10, 32, 16), stream(b"ALPH", &[2]), lossy.clone()]),
        ("alpha of a frame", vec![list(0x12, 32, 16), of_frame(32, 16, &[stream(b"ALPH", &[1]), lossy])]),
    ] {
        assert_eq!(Logo::decode(&file(&chunks)).err(), Some(NotALogo::Lossless), "{what}");
    }
}

fn chunk(kind: &[u8], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("short").to_le_bytes();
    [kind, &length, data, &vec![0; data.len() % 2]].concat()
}

fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
    chunk(b"RIFF", &[&b"WEBP"[..], &chunks.concat()].concat())
}

/// The extended header chunk that precedes others.
fn list(flags: u8, width: u32, height: u32) -> Vec<u8> {
    chunk(b"VP8X", &[&[flags, 0, 0, 0], &(width - 1).to_le_bytes()[..3], &(height - 1).to_le_bytes()[..3]].concat())
}

fn of_frame(width: u32, height: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let size = [&[0; 6], &(width - 1).to_le_bytes()[..3], &(height - 1).to_le_bytes()[..3], &[0; 4]].concat();
    chunk(b"ANMF", &[size, chunks.concat()].concat())
}

/// Runs this with a time limit: it takes seconds on a slow machine, and would take minutes without the limits.
#[track_caller]
fn soon<T>(work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    result
}

/// Q4: half a megabyte of small pictures, each of which fills an image without any bits: already two are refused.
#[test]
fn q4_a_frame_has_one_picture_and_one_alpha() {
    let lossy = sample("lossy.webp")[12..].to_vec();
    let small_alpha = chunk(b"ALPH", &[vec![0], vec![9; 32 * 16]].concat());
    let many = |chunk: &[u8]| chunk.repeat((510 << 10) / chunk.len());
    let refused = |what: &str, file: Vec<u8>| {
        assert!(file.len() <= 512 << 10, "{what}");
        assert_eq!(soon(|| Logo::decode(&file).err()), Some(NotALogo::NotAnImage), "{what}");
    };
    let (still, moving) = (|| list(0x10, 32, 16), || list(0x12, 32, 16));
    refused("alpha", file(&[still(), many(&small_alpha)]));
    refused("pictures", file(&[still(), many(&lossy)]));
    refused("alpha in a frame", file(&[moving(), of_frame(32, 16, &[many(&small_alpha)])]));
    refused("pictures in a frame", file(&[moving(), of_frame(32, 16, &[many(&lossy)])]));
    refused("two pictures", file(&[still(), lossy.clone(), lossy.clone()]));
    refused("two alphas", file(&[still(), small_alpha.clone(), small_alpha.clone(), lossy.clone()]));
    refused("alpha behind", file(&[still(), lossy.clone(), small_alpha.clone()]));
    refused("alpha alone", file(&[still(), small_alpha.clone()]));
    refused("nothing", file(&[still()]));
    refused(
        "a frame beside a picture",
        file(&[still(), lossy.clone(), of_frame(32, 16, std::slice::from_ref(&lossy))]),
    );
    // The decoder takes the chunk after alpha for the picture, whatever its name.
    let mut hidden = lossy.clone();
    hidden[..4].copy_from_slice(b"ABCD");
    refused(
        "a picture by another name",
        file(&[moving(), chunk(b"ANIM", &[0; 6]), of_frame(32, 16, &[small_alpha.clone(), hidden, lossy.clone()])]),
    );
    assert!(Logo::decode(&file(&[still(), small_alpha, lossy])).is_ok());
}

/// Q4: of many frames only the first is read and drawn.
#[test]
fn q4_frames_behind_the_first_cost_nothing() {
    let lossy = sample("lossy.webp")[12..].to_vec();
    let (width, height) = (1_000, 1_000);
    let costly = of_frame(width, height, &[chunk(b"VP8L", b"?")]);
    let first = of_frame(32, 16, &[lossy]);
    let chunks = [list(0x02, width, height), chunk(b"ANIM", &[0; 6]), first, costly.repeat((500 << 10) / costly.len())];
    let logo = soon(|| Logo::decode(&file(&chunks))).expect("a picture");
    assert_near(pixel(&logo, 1, 1), GREEN, "the first frame");
}
