//! Logos and the process that fetches them: its memory, and the proxy that somebody set up for it.

use std::io::{Cursor, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

use crate::process::{Home, Server};

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
                // Whoever has heard enough hangs up.
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

/// The status of a code with this logo. Sixteen pictures may have to be decoded for it, by a server that is not
/// optimised.
fn code(server: &Server, key: &str, link: &str, logo: &str) -> u16 {
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
    String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

/// Q4: whatever is sent, and by sixteen at once, the process grows by 80 MiB at most. Q5: proxies that the environment
/// names are not used.
#[test]
fn q4_hostile_pictures_cost_eighty_megabytes_at_most() {
    let small = encoded(RgbaImage::from_pixel(64, 64, Rgba([255, 0, 0, 255])), ImageFormat::Png);
    let full = || RgbaImage::from_pixel(4_000, 4_000, Rgba([0, 0, 255, 9]));
    let tall = encoded(RgbaImage::new(3_500, 3_501), ImageFormat::Png);
    let jpeg = encoded(RgbImage::from_pixel(4_000, 4_000, Rgb([9, 99, 9])), ImageFormat::Jpeg);
    let frame = jpeg.windows(2).position(|two| two == [0xff, 0xc0]).expect("a frame");
    let mut progressive = jpeg.clone();
    progressive[frame + 1] = 0xc2;
    let wide = image::ImageBuffer::from_pixel(4_000, 4_000, image::LumaA([0x8000_u16, 0x4000]));
    let files = [
        (small.clone(), 200),
        (with_header(small.clone(), 30_000, 30_000, false), 400),
        (with_header(encoded(full(), ImageFormat::Png), 40, 40, false), 400),
        (encoded(full(), ImageFormat::Png), 200),
        (with_header(tall, 3_500, 3_500, true), 200),
        (encoded(wide, ImageFormat::Png), 200),
        (jpeg, 200),
        (progressive, 400),
        (encoded(GrayImage::from_pixel(4_000, 4_000, image::Luma([9])), ImageFormat::Jpeg), 200),
        (encoded(RgbaImage::from_pixel(3_500, 3_500, Rgba([9, 99, 9, 200])), ImageFormat::WebP), 200),
        (encoded(RgbImage::from_pixel(1_680, 1_680, Rgb([9, 99, 9])), ImageFormat::WebP), 200),
        (encoded(full(), ImageFormat::WebP), 400),
        (vec![0xff; 512 << 10], 400),
        (vec![0; (512 << 10) + 1], 400),
    ];
    for (number, (file, _)) in files.iter().enumerate() {
        assert!(file.len() <= (512 << 10) + 1, "{number} is {} bytes", file.len());
    }
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
    for (key, link) in keys.iter().zip(&links) {
        assert_eq!(code(&server, key, link, &format!("http://{address}/0")), 200, "a logo as it should be");
    }
    let before = peak(&server);
    // Four tenants with four each: sixteen are fetched at one time. Which kinds meet differs from round to round.
    for round in 0..3 {
        std::thread::scope(|scope| {
            for place in 0..16 {
                let number = (place * 3 + round * 5) % files.len();
                let (server, key, link, expected) = (&server, &keys[place % 4], &links[place % 4], files[number].1);
                scope.spawn(move || {
                    let logo = format!("http://{address}/{number}?{round}-{place}");
                    assert_eq!(code(server, key, link, &logo), expected, "number {number}");
                });
            }
        });
        let grown = (peak(&server) - before) >> 10;
        assert!(grown <= 80, "{grown} MiB after round {round}");
    }
    assert_eq!(code(&server, &keys[0], &links[0], &format!("http://{address}/0?again")), 200);
    assert_eq!((hits.load(Ordering::SeqCst), proxied.load(Ordering::SeqCst)), (4 + 3 * 16 + 1, 0));
    server.stop();
}

/// Q10: a service for the world does not start with doors into its own network, and says why.
#[test]
fn q10_the_world_gets_no_way_inside() {
    let mut home = Home::new();
    home.set("DEEPLINK_OUTBOUND_ALLOW", "10.0.0.0/8");
    home.set("DEEPLINK_PUBLIC_URL", "https://links.example.com");
    let ended = home.run(&[]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("DEEPLINK_OUTBOUND_ALLOW: is for development"), "{}", ended.stderr);
}
