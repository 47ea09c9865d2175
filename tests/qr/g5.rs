//! Colours: dark on light, light on dark, and close to each other.

use deeplink_client::qr_reader::read_png;

use crate::cases::Case;
use crate::colours::{close, dark_on_light, light_on_dark};
use crate::pictures::{exposed, inverted, seen};
use crate::readers::{each, each_is_read, reads, rxing};

/// rxing takes a block of eight pixels in which nothing changes for lighter than it is, unless that is nearly black: a
/// dark grey module as wide as that is lost. zxing-cpp reads the same pictures, and so does rxing what a camera would
/// have exposed from black to white.
#[test]
fn g5_dark_on_light_is_read() {
    let cases = dark_on_light();
    each_is_read(&cases, rxing).is_at_least(97, "dark on light, not exposed");
    let outcome = each(&cases, |case| read(case, false));
    outcome.is_perfect("dark on light");
}

#[test]
fn g5_light_on_dark_is_read_from_the_inverted_picture() {
    let outcome = each(&light_on_dark(), |case| read(case, true));
    outcome.is_perfect("light on dark");
}

fn read(case: &Case, light_on_dark: bool) -> Result<(), String> {
    let picture = exposed(&seen(case).swap_remove(0));
    let picture = if light_on_dark { inverted(&picture) } else { picture };
    reads(rxing, &picture, &case.content).map_err(|why| format!("{case}: {why}"))
}

/// What a client is told when it checks a code: no false alarm, and hardly one where the contrast is as small as it may
/// be.
#[test]
fn g5_the_clients_reader_reads_what_is_drawn() {
    let read = |case: &Case| match read_png(&case.draw()) {
        Ok(text) if text == case.content => Ok(()),
        other => Err(format!("{case}: {other:?}")),
    };
    each(&[dark_on_light(), light_on_dark()].concat(), read).is_perfect("the client's reader");
    each(&[close(false), close(true)].concat(), read).is_at_least(98, "the client's reader and close colours");
}
