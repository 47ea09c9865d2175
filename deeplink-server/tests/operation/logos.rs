//! Logos and the process that fetches them: its memory, and the proxy configured for it.

use std::io::{Cursor, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

use crate::process::{Home, PATIENCE, Server};

/// A server that sends each of these bodies at its number's path, `/0` and so on, and counts its connections.
fn serve(files: Vec<Vec<u8>>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (files, hits) = (Arc::new(files), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&hits);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(mut socket) = socket else { continue };
            counted.fetch_add(1, Ordering::SeqCst);
            let files = Arc::clone(&files);
            std::thread::spawn(move || {
                let mut request = [0; 2_048];
                let length = socket.read(&mut request).unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let number = request.split(['/', ' ', '?']).nth(2).and_then(|number| number.parse::<usize>().ok());
                let Some(file) = number.and_then(|number| files.get(number)) else { return };
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.len());
                // A client that has read enough closes the connection.
                let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(file));
            });
        }
    });
    (address, hits)
}

fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.into().write_to(&mut file, format).expect("a file");
    file.into_inner()
}

/// CRC-32 (PNG, annex D).
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 })
    })
}

/// The same PNG with another header.
fn with_header(mut png: Vec<u8>, width: u32, height: u32, is_interlaced: bool) -> Vec<u8> {
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    png[28] = u8::from(is_interlaced);
    let sum = checksum(&png[12..29]);
    png[29..33].copy_from_slice(&sum.to_be_bytes());
    png
}

/// The most memory that the process ever had, in KiB.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The status and message for a QR code with this logo.
fn code(server: &Server, key: &str, link: &str, logo: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_mins(2))).expect("a limit");
    let head = format!(
        "GET /v1/links/{link}/qr.svg?logo={logo} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\n\
         Connection: close\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).expect("the request goes out");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer)
}

fn chunk(kind: &[u8], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("short").to_le_bytes();
    [kind, &length, data, &vec![0; data.len() % 2]].concat()
}

fn webp(chunks: &[&[u8]]) -> Vec<u8> {
    chunk(b"RIFF", &[&b"WEBP"[..], &chunks.concat()].concat())
}

/// Files as large as a file may be, or costlier than they look, and their outcomes.
fn hostile() -> Vec<(Vec<u8>, u16)> {
    let small = encoded(RgbaImage::from_pixel(64, 64, Rgba([255, 0, 0, 255])), ImageFormat::Png);
    let full = || RgbaImage::from_pixel(4_000, 4_000, Rgba([0, 0, 255, 9]));
    let tall = encoded(RgbaImage::new(3_460, 3_461), ImageFormat::Png);
    let jpeg = encoded(RgbImage::from_pixel(4_000, 4_000, Rgb([9, 99, 9])), ImageFormat::Jpeg);
    let wide = image::ImageBuffer::from_pixel(4_000, 4_000, image::LumaA([0x8000_u16, 0x4000]));
    let progressive = include_bytes!("../../src/qr/picture/samples/large-progressive.jpg").to_vec();
    let with_edge = |edge: u16| {
        let mut file = progressive.clone();
        let frame = file.windows(2).position(|two| two == [0xff, 0xc2]).expect("a frame");
        file[frame + 5..frame + 7].copy_from_slice(&edge.to_be_bytes());
        file[frame + 7..frame + 9].copy_from_slice(&edge.to_be_bytes());
        file
    };
    let list = |flags: u8| chunk(b"VP8X", &[flags, 0, 0, 0, 0xe7, 3, 0, 0xe7, 3, 0]);
    // 32 × 16.
    let inside = &include_bytes!("../../src/qr/picture/samples/lossy.webp")[12..];
    let frame = chunk(b"ANMF", &[&[0, 0, 0, 0, 0, 0, 31, 0, 0, 15, 0, 0, 0, 0, 0, 0], inside].concat());
    let many = |chunk: &[u8]| chunk.repeat((510 << 10) / chunk.len());
    vec![
        (small.clone(), 200),
        (with_edge(1_999), 200),
        (with_header(small.clone(), 30_000, 30_000, false), 400),
        (jpeg, 200),
        (include_bytes!("../../src/qr/picture/samples/large-lossy.webp").to_vec(), 200),
        (with_header(encoded(full(), ImageFormat::Png), 40, 40, false), 400),
        (with_header(tall, 3_460, 3_460, true), 200),
        (encoded(full(), ImageFormat::Png), 200),
        (webp(&[&chunk(b"VP8L", &[0x2f, 0xff, 0xff, 0xff, 0x0f])]), 400),
        (encoded(wide, ImageFormat::Png), 200),
        (progressive.clone(), 200),
        (with_edge(3_000), 400),
        (encoded(GrayImage::from_pixel(4_000, 4_000, image::Luma([9])), ImageFormat::Jpeg), 200),
        (encoded(RgbaImage::from_pixel(3_460, 3_460, Rgba([9, 99, 9, 200])), ImageFormat::WebP), 400),
        (webp(&[&list(0x10), &many(inside)]), 400),
        (encoded(RgbImage::from_pixel(3_460, 3_460, Rgb([9, 99, 9])), ImageFormat::WebP), 400),
        (webp(&[&list(0x02), &chunk(b"ANIM", &[0; 6]), &many(&frame)]), 200),
        (encoded(full(), ImageFormat::WebP), 400),
        (vec![0xff; 512 << 10], 400),
        (vec![0; (512 << 10) + 1], 400),
    ]
}

/// Q4: whatever is sent, and by sixteen at once, a process that draws ordinary logos grows by 80 MiB at most, with all
/// that it keeps. Q5: proxies
/// that the environment names are not used.
#[test]
fn q4_hostile_pictures_cost_eighty_megabytes_at_most() {
    let mut files = hostile();
    for (number, (file, _)) in files.iter().enumerate() {
        assert!(file.len() <= (512 << 10) + 1, "{number} is {} bytes", file.len());
    }
    let hostile = files.len();
    // The largest size that is cached.
    files.push((encoded(RgbImage::from_pixel(512, 512, Rgb([9, 99, 9])), ImageFormat::Png), 200));
    let (address, hits) = serve(files.iter().map(|(file, _)| file.clone()).collect());
    let (proxy, proxied) = serve(Vec::new());
    let mut home = Home::new();
    home.set("DEEPLINK_OUTBOUND_ALLOW", "127.0.0.0/8");
    for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        home.set(variable, format!("http://{proxy}"));
    }
    let server = home.serve();
    let keys: Vec<_> = (0..4).map(|number| home.key(&format!("{number}@example.com"))).collect();
    let links: Vec<_> = keys.iter().map(|key| server.link(key)).collect();
    let asks = |place: usize, logo: String| {
        let (key, link) = (&keys[place % 4], &links[place % 4]);
        code(&server, key, link, &format!("http://{address}/{logo}"))
    };
    // This build is slow, so some may time out waiting for a place or for the end of a fetch.
    let is_late = |said: &str| said.contains("could not be fetched") || said.contains("too many logos");
    let patiently = |place: usize, logo: String| {
        let end = Instant::now() + PATIENCE;
        loop {
            let (status, said) = asks(place, logo.clone());
            if !is_late(&said) || Instant::now() >= end {
                return (status, said);
            }
        }
    };
    for place in 0..4 {
        assert_eq!(patiently(place, "0".to_owned()).0, 200, "a proper logo");
    }
    // The memory that serving and drawing take with ordinary logos, sixteen at once, is not counted.
    std::thread::scope(|scope| {
        for place in 0..16 {
            let patiently = &patiently;
            scope.spawn(move || {
                for number in 0..50 {
                    let hidden = if number < 4 { "&hideLogo=true&size=2048" } else { "" };
                    assert_eq!(patiently(place, format!("{hostile}{hidden}")).0, 200);
                }
            });
        }
    });
    let before = peak(&server);
    let grown = |what: &str| {
        let grown = (peak(&server) - before) >> 10;
        assert!(grown <= 80, "{grown} MiB after {what}");
    };
    // The cache is filled: large ones, and more small ones than it keeps.
    std::thread::scope(|scope| {
        for place in 0..4 {
            let patiently = &patiently;
            scope.spawn(move || {
                for number in 0..8 {
                    assert_eq!(patiently(place, format!("{hostile}?{number}")).0, 200);
                }
                for number in 0..150 {
                    assert_eq!(patiently(place, format!("0?{number}")).0, 200);
                }
                for number in 8..16 {
                    assert_eq!(patiently(place, format!("{hostile}?{number}")).0, 200);
                }
            });
        }
    });
    grown("what is kept");
    // Four tenants with four each: sixteen are fetched concurrently. The combinations differ from round to round.
    for round in 0..4 {
        std::thread::scope(|scope| {
            for place in 0..16 {
                let number = (place * 3 + round * 5) % hostile;
                let (asks, is_late, expected) = (&asks, &is_late, files[number].1);
                scope.spawn(move || {
                    let (status, said) = asks(place, format!("{number}?{round}-{place}"));
                    assert!(status == expected || is_late(&said), "number {number}: {said}");
                });
            }
        });
        grown(&format!("round {round}"));
    }
    for (number, (_, expected)) in files.iter().enumerate() {
        let (status, said) = patiently(number, format!("{number}?alone"));
        assert_eq!(status, *expected, "number {number}: {said}");
        assert!(!said.contains("could not be fetched"), "number {number}: {said}");
    }
    grown("one after the other");
    assert_eq!(patiently(0, "0?again".to_owned()).0, 200);
    assert_eq!(proxied.load(Ordering::SeqCst), 0);
    assert!(hits.load(Ordering::SeqCst) >= 4 + 4 * 166);
    server.stop();
}

/// Q10: a public service does not start with exceptions for its own network, and says why.
#[test]
fn q10_the_world_gets_no_way_inside() {
    let mut home = Home::new();
    home.set("DEEPLINK_OUTBOUND_ALLOW", "10.0.0.0/8");
    home.set("DEEPLINK_PUBLIC_URL", "https://links.example.com");
    let ended = home.run(&[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(
        ended.stderr.contains("--outbound-allow (DEEPLINK_OUTBOUND_ALLOW): is for development"),
        "{}",
        ended.stderr
    );
}
