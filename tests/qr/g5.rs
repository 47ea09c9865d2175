//! Colours: dark on light, light on dark, and close to each other.

use deeplink_client::qr_reader::read_png;

use crate::cases::Case;
use crate::colours::{close, dark_on_light, light_on_dark};
use crate::pictures::{inverted, seen};
use crate::readers::{each, each_is_read, reads, rxing};

#[test]
fn g5_dark_on_light_is_read() {
    each_is_read(&dark_on_light(), rxing).is_perfect("dark on light");
}

#[test]
fn g5_light_on_dark_is_read_from_the_inverted_picture() {
    let read = |case: &Case| {
        let picture = inverted(&seen(case).swap_remove(0));
        reads(rxing, &picture, &case.content).map_err(|why| format!("{case}: {why}"))
    };
    each(&light_on_dark(), read).is_perfect("light on dark");
}

/// The client's check of a code gives no false alarm, even at the lowest contrast.
#[test]
fn g5_the_clients_reader_reads_what_is_drawn() {
    let read = |case: &Case| match read_png(&case.draw()) {
        Ok(text) if text == case.content => Ok(()),
        other => Err(format!("{case}: {other:?}")),
    };
    let cases = [dark_on_light(), light_on_dark(), close(false), close(true)].concat();
    each(&cases, read).is_perfect("the client's reader");
}
