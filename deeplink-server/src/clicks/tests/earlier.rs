//! What versions without a journal left is stored and counted once.

use super::counts::total;
use super::{Home, LONG, NOW, eventually, settled};
use crate::db::on;

/// FNV-1a, as those versions wrote it.
fn frame(items: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(items.len()).expect("short").to_le_bytes().to_vec();
    frame.extend_from_slice(items);
    let check = frame.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    frame.extend_from_slice(&check.to_le_bytes());
    frame
}

fn click(link: i64, batch: Option<i64>) -> Vec<u8> {
    let mut item = vec![b'C'];
    item.extend_from_slice(&link.to_le_bytes());
    item.extend_from_slice(&NOW.to_le_bytes());
    item.extend_from_slice(&[0, 1, 2 + if batch.is_some() { 4 } else { 0 }]);
    item.extend_from_slice(&[5; 16]);
    if let Some(position) = batch {
        for number in [position, 10, NOW] {
            item.extend_from_slice(&number.to_le_bytes());
        }
    }
    item
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spill_files_and_uncounted_clicks_are_taken_over_once() {
    let home = Home::new();
    let db = home.open().await;
    let mut other = home.other().await;
    // Of link 10 the log has two clicks, of which one is in the counts.
    for (position, link) in [(1_000, 10), (2_000, 10), (2_001, 11)] {
        let sql =
            format!("INSERT INTO clicks (position, link, at, kind, platform) VALUES ({position}, {link}, {NOW}, 0, 1)");
        other.run_all(sql).await;
    }
    let hour = NOW - NOW.rem_euclid(3_600_000);
    other
        .run_all(format!(
            "INSERT INTO click_hours VALUES (10, {hour}, 0, 1, 1000, 1000, {NOW}, {NOW});
             INSERT INTO click_marks (name, position) VALUES ('folded', 1000);"
        ))
        .await;
    let text = b"https://news.example.com/a";
    let mut items = [&b"T"[..], &[5; 16], &u16::try_from(text.len()).expect("short").to_le_bytes(), text].concat();
    items.extend(click(12, None));
    // The log has the batch of the first of these, and not that of the second.
    items.extend(click(10, Some(2_000)));
    items.extend(click(13, Some(1_999)));
    let mut file = [&b"DLCLICK1"[..], &77_i64.to_le_bytes(), &frame(&items)].concat();
    file.extend_from_slice(b"torn");
    let path = home.directory.path().join("clicks-000000000000004d.spill");
    std::fs::write(&path, &file).expect("a file");
    db.close().await;
    drop(db);
    for start in 0..2 {
        let (db, clicks) = home.start().await;
        settled(&clicks).await;
        eventually("the file is gone", LONG, || async { !path.exists() }).await;
        assert_eq!(other.links().await, [10, 10, 11, 12, 13], "start {start}");
        for (link, expected) in [(10, 2), (11, 1), (12, 1), (13, 1)] {
            assert_eq!(total(&db, link, NOW - 1, NOW + 3_600_000).await, expected, "link {link} at start {start}");
        }
        let mut conn = other.conn();
        let sql = "SELECT COUNT(*) FROM click_facets WHERE host = 'news.example.com'";
        let hosts: i64 = on!(&mut conn, c => sqlx::query_scalar(sql).fetch_one(c).await).expect("a count");
        assert_eq!(hosts, 2);
        clicks.drain(LONG).await;
        db.close().await;
        drop((clicks, db));
        // As if the process had died before it removed the file.
        std::fs::write(&path, &file).expect("a file");
    }
}
